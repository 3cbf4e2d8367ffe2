"""Runs commands of `pochade` as child processes, one at a time, and reads the JSON that they print.

So the simulator and solvers are not loaded into this process, and a hanging command is killed at its time limit.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile
from typing import Any, Final, NamedTuple

from schemas.errors import PochadeError
from streams.processes.children import die_with
from streams.settings import Settings

START: Final = "from streams.cli import main; main(prog_name='pochade')"
NICENESS: Final = 10  # so that serving has priority
MAX_OUTPUT: Final = 4 * 2**20  # bytes
MAX_ERROR: Final = 600  # characters of what a command says as it fails
MAX_NOTES: Final = 20  # lines that a command says beside its answer
MAX_NOTE: Final = 400  # characters of one
PROGRESS: Final = b"progress: "  # begins a line that says how far a command is (`replay/commands/covering.py`)
SIMULATING: Final = 0.5  # of the time limit, for which requests are simulated: a busy machine starts and reports slowly
REPORT: Final = "report.json"
OWN: Final = frozenset({"console", "gateway"})  # sections that no command needs


class CommandFailed(PochadeError):
    """A command without an answer: another one runs, it took too long, or it failed."""


class Reported(NamedTuple):
    """A report, and its command's notes, such as what it left out."""

    report: Any
    notes: tuple[str, ...] = ()


class Commands:
    """The commands of a deployment; used on one event loop."""

    def __init__(self, settings: Settings, timeout_s: float) -> None:
        self._environment = environment_of(settings)
        self._timeout_s = timeout_s
        self.running = ""  # what runs now; "": nothing
        self.progress = ""  # how far it is, as it said last; "": it has not

    async def run(self, *arguments: str, may_fail_with: tuple[int, ...] = ()) -> Any:
        """Return the JSON that a command prints. `may_fail_with`: exit statuses that are answers, too.

        Raises CommandFailed.
        """
        out, _ = await self._output(arguments, may_fail_with)
        try:
            return json.loads(out[:MAX_OUTPUT])
        except ValueError as error:
            raise CommandFailed(f"`pochade {' '.join(arguments)}` printed no JSON: {error}") from None

    async def report(self, *arguments: str) -> Reported:
        """Return the report that a simulation writes, of what it came to in the time limit. Raises CommandFailed."""
        limit = "--time-limit", f"{SIMULATING * self._timeout_s:g}"
        with tempfile.TemporaryDirectory(prefix="pochade-console-") as folder:
            _, said = await self._output((*arguments, *limit, "--report", folder), ())
            path = pathlib.Path(folder) / REPORT
            try:
                report = json.loads(await asyncio.to_thread(path.read_text, "utf-8"))
            except (OSError, ValueError) as error:
                raise CommandFailed(f"`pochade {arguments[0]}` left no report: {error}") from None
        lines = [line.strip() for line in said.decode(errors="replace").splitlines()]
        return Reported(report, tuple(line[:MAX_NOTE] for line in lines if line)[:MAX_NOTES])

    async def _output(self, arguments: tuple[str, ...], may_fail_with: tuple[int, ...]) -> tuple[bytes, bytes]:
        """Return what a command writes to its standard output and error; one runs at a time."""
        if self.running:
            raise CommandFailed(f"one command runs at a time: wait for `{self.running}`, or try again in a moment")
        self.running = f"pochade {' '.join(arguments)}"
        try:
            return await self._ended(arguments, may_fail_with)
        finally:
            self.running = self.progress = ""

    async def _ended(self, arguments: tuple[str, ...], may_fail_with: tuple[int, ...]) -> tuple[bytes, bytes]:
        parent = os.getpid()

        def begin() -> None:
            die_with(parent)
            os.nice(NICENESS)

        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", START, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, env=self._environment, process_group=0, preexec_fn=begin, limit=MAX_OUTPUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(self._timeout_s):
                assert child.stdout and child.stderr  # noqa: PT018  as they are pipes
                out, err = await asyncio.gather(child.stdout.read(), self._said(child.stderr))
                await child.wait()
        except TimeoutError:
            limit = f"`{self.running}` took longer than {self._timeout_s:g} s (console.command_timeout_s)"
            raise CommandFailed(limit) from None
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                await child.wait()
        if child.returncode not in (0, *may_fail_with):
            said = err.decode(errors="replace").strip() or out.decode(errors="replace").strip()
            raise CommandFailed(f"`{self.running}` failed: {said[-MAX_ERROR:] or f'status {child.returncode}'}")
        return out, err

    async def _said(self, stream: asyncio.StreamReader) -> bytes:
        """Return what a command says beside its answer; how far it is is kept apart, as it comes."""
        said = list[bytes]()
        async for line in stream:
            if line.startswith(PROGRESS):
                self.progress = line.removeprefix(PROGRESS).decode(errors="replace").strip()[:MAX_NOTE]
            else:
                said.append(line)
        return b"".join(said)


def environment_of(settings: Settings) -> dict[str, str]:
    """Return the environment in which a command has these settings, wherever they came from."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POCHADE_")}
    values = settings.model_dump(mode="json")
    for name, value in values.items():
        if name not in OWN:
            kept[f"POCHADE_{name.upper()}"] = value if isinstance(value, str) else json.dumps(value)
    return kept
