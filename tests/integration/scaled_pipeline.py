"""A pipeline whose workers `pochade scale` starts and ends, for tests of a fleet that grows and shrinks."""

import contextlib
import os
import pathlib
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress

from replay.local.deployment import child_options
from replay.local.owned_worker import holder
from replay.local.processes import RoleProcess, role_process
from streams.settings import Settings
from tests.integration.pipeline import Pipeline

SUPERVISOR = "scale"


class Scaled(Pipeline):
    """A pipeline without workers, and the supervisor that brings them."""

    def process(self, name: str) -> RoleProcess:
        """What to run for one role, or the supervisor."""
        process = role_process(name, self._roles[name], self._options, {})
        if name != SUPERVISOR:
            return process
        command = (*process.command[: -len(self._roles[name]) - 1], "scale", "--name", "s", *self._roles[name][1:])
        return RoleProcess(name=name, command=command)

    def targets(self) -> int:
        scale = self.plans[-1][1].scale if self.plans else None
        return sum(scale.targets.values()) if scale else -1

    def serving(self) -> list[str]:
        return sorted(name for name, (_, beat) in self.heartbeats.items() if beat.state in ("ready", "painting"))

    def workers(self) -> dict[str, int]:
        """Worker -> its process, of those that run."""
        files = (self.settings.home / "scale").glob("s-*.lock")
        found = {file.stem: holder(file) for file in files}
        return {name: pid for name, pid in found.items() if pid is not None}

    @property
    def options(self) -> list[str]:
        """Global options of `pochade` for this deployment."""
        return list(self._options)


@contextlib.contextmanager
def scaled_pipeline(
    settings: Settings, logs: pathlib.Path, extra: Sequence[str], *, workers: int = 0, catalog: str = "profile",
    options: Sequence[str] = (),
) -> Iterator[Scaled]:  # fmt: skip
    """All roles and a supervisor with `options` on topics that are there, from `workers` workers on.

    No process is left.
    """
    flow = ["classifier", "router", "discriminator", "ledger", "planner"]
    roles = {"flow": flow, SUPERVISOR: [SUPERVISOR, *options]}
    pipeline = Scaled(settings, logs, catalog, extra=extra, roles=roles)
    pipeline._options += child_options(settings, settings)[2:]
    pipeline._follower.start()
    try:
        for name in roles:
            pipeline.start_role(name)
        pipeline.until(lambda: pipeline.targets() == workers, f"a plan that wants {workers} workers")
        yield pipeline
    finally:
        pipeline.close()
        for pid in pipeline.workers().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
