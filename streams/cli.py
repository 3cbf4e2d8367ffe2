"""The `pochade` command: finds each room's commands by entry point and loads one only when it is called."""

import contextlib
import errno
import gc
import importlib.metadata
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import PochadeError
from streams.as_typed import keep_words
from streams.command_groups import CommandGroup
from streams.extras import LABORATORY, lacking
from streams.security.secrets import quoted
from streams.visible import visible_lines

if TYPE_CHECKING:  # settings take 0.3 s to load, which --help need not wait for
    from streams.settings import Settings

ENTRY_POINTS = "pochade.commands"

GROUPS = {
    "Requests": {
        "submit": "Send prompts as requests for images.",
        "watch": "Follow requests live until they have ended.",
        "results": "List the results of requests.",
        "explain": "Show the path of one request, and why it ended so.",
        "again": "Make the image of a request again, or by another level.",
        "verify": "Check the receipt of an image file, and say what made it.",
        "fetch": "Write the image of a request to a file.",
        "put": "Store an image that requests begin with or follow.",
        "cancel": "Cancel a request that has not ended.",
        "try": "Generate images of prompts in this process, without Kafka.",
    },
    "Operate": {
        "demo": "Run the whole pipeline on this machine, with a report and a gallery.",
        "up": "Start the embedded broker, or check the configured cluster; create the topics.",
        "serve": "Run roles: classifier, router, worker, discriminator, ledger, planner, indexer, gateway, console.",
        "ready": "Wait until a request would be served.",
        "status": "Show whether the broker runs, and its address.",
        "doctor": "Check the deployment, and say what to do about faults.",
        "fleet": "Show which worker holds which model component in which tier.",
        "scale": "Start and drain worker processes on this machine as the plan asks.",
        "config": "Show where each setting comes from, and check all.",
        "topics": "List, create and check the topics.",
        "keys": "Create, list and revoke API keys of the gateway's clients.",
        "components": "Publish bases, adapters and controls to where workers fetch them from.",
        "reuse": "Show, explain, clear and rebuild the index of latents that images begin from.",
        "dlq": "List, show and redrive dead letters.",
        "audit": "Count requests that were lost or ended twice, and check every stored image.",
        "gc": "Delete old and orphaned images.",
        "forget": "Delete what is one tenant's, and say until when the rest lies on topics.",
        "down": "Stop the embedded broker; its data stays.",
    },
    "Plan and replay": {
        "plan": "Show, solve, pin or compare plans.",
        "simulate": "Simulate policies on a trace of requests.",
        "replay": "Publish, inspect, record and generate traces; ask what another plan would have done.",
        "report": "Compare two reports, or draw the page of one.",
    },
    "Models and judges": {
        "init": "Write a catalog for two models of your own: read, loaded, checked and timed.",
        "profile": "Measure time, memory and quality of each level of a catalog.",
        "learn": "Learn a classifier and a discriminator for the levels of a catalog, from prompts and a scorer.",
    },
    "Laboratory": {
        "train": "Train the tiny family and its learned parts, or one of them.",
        "evaluate": "Measure models, classifiers and discriminators on fresh prompts.",
        "bench": "Measure the pipeline against a baseline in the same run.",
        "chaos": "Inject faults into a deployment while it serves, then audit it.",
        "soak": "Send requests for hours, count lost and doubled ones, and watch what each role holds.",
    },
}  # heading of --help -> command -> what it does
OTHERS = "Commands of other packages"


class LazySettings:
    """The settings of this call, read when a command asks for them: `settings = obj()`."""

    def __init__(self, flags: dict[str, Any], config: str | None) -> None:
        self.flags = flags
        self._config = config
        self._loaded: Settings | None = None

    def __call__(self) -> "Settings":
        """Flags, then `POCHADE_*`, then the TOML file.

        Raises:
            PochadeError: an unknown or invalid setting.
        """
        if self._loaded is None:
            from streams.settings import load

            if self._config is not None:
                self._config = os.path.expanduser(self._config)
                if not os.path.isfile(self._config):
                    raise PochadeError(f"--config names {self._config}, which is not a file: correct the path")
                os.environ["POCHADE_CONFIG"] = os.path.abspath(self._config)  # child processes read the same file
            self._loaded = load(self.flags)
            if self._loaded.schemas.write_up_to:
                from streams.codec.avro import write_up_to

                write_up_to(self._loaded.schemas.write_up_to)
        return self._loaded


class Commands(CommandGroup):
    """A group whose commands are entry points; its --help imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands, in the order of the help table, and unknown ones after these."""
        there = _entry_points()
        known = [name for commands in GROUPS.values() for name in commands]
        return [*(name for name in known if name in there), *sorted(there.keys() - set(known))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command.

        Raises:
            PochadeError: it is registered, but its code cannot be imported.
        """
        entry = _entry_points().get(cmd_name)
        if entry is None:
            if cmd_name in LABORATORY:
                raise PochadeError(f"{cmd_name!r} is a command of the laboratory: pip install pochade-lab")
            return None
        try:
            command = entry.load()
        except (ImportError, AttributeError) as error:
            said = lacking(error.name or "") if isinstance(error, ModuleNotFoundError) else None
            raise PochadeError(said or f"command {cmd_name!r} cannot be loaded from {entry.value}: {error}") from error
        assert isinstance(command, click.Command), f"{entry.value} is {type(command)}, not a click command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a table of commands under each heading of `GROUPS`, and one of other packages' commands."""
        names = self.list_commands(ctx)
        others = dict.fromkeys(set(names).difference(*GROUPS.values()), "")
        for heading, commands in (GROUPS | {OTHERS: others}).items():
            if rows := [(name, says) for name, says in commands.items() if name in names]:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command line. A character that the output cannot encode is replaced; a full disk ends the run."""
        gc.set_threshold(10_000)  # what is loaded at a role's start is no garbage: 5 % of its CPU time until ready
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
                stream.reconfigure(errors="replace")
        try:
            return super().main(*args, **options)
        except OSError as error:
            refused = error.filename and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
            if not refused and error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            with contextlib.suppress(OSError, ValueError):  # what is buffered would fail again at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            remedy = "let this user use {}, or name another --home" if refused else "free space where {} is written"
            click.echo(f"error: {error.strerror}: {remedy.format(error.filename or 'output')}", err=True)
            sys.exit(1)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the global options, wherever they stand, and keep the words."""
        args = _global_first(args, self.params)
        keep_words(ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error of ours is one line and exit code 1, not a traceback."""
        try:
            return super().invoke(ctx)
        except PochadeError as error:
            said = str(error)
        except ModuleNotFoundError as error:
            said = lacking(error.name or "") or ""
            if not said:
                raise
        click.echo(f"error: {visible_lines(said)}", err=True)
        raise click.exceptions.Exit(1)


def _global_first(words: list[str], parameters: Sequence[click.Parameter]) -> list[str]:
    """Return the words with the global options that take a value before the command; what follows `--` stays."""
    names = {name for each in parameters if isinstance(each, click.Option) and not each.is_flag for name in each.opts}
    first, rest = list[str](), list[str]()
    at, end = 0, words.index("--") if "--" in words else len(words)
    while at < end:
        name, equals, _ = words[at].partition("=")
        length = 1 if equals or name not in names else 2
        (first if name in names and at + length <= end else rest).extend(words[at : at + length])
        at += length
    return [*first, *rest, *words[end:]]


def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=ENTRY_POINTS)}


def nested(assignments: tuple[str, ...]) -> dict[str, Any]:
    """Return `("worker.threads=2",)` as `{"worker": {"threads": "2"}}`.

    Raises:
        click.BadParameter: no `=`, or one key is both a value and a section.
    """
    flags: dict[str, Any] = {}
    if assignments:
        from streams.settings import path_of  # not for --help
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{quoted(assignment)} is not KEY=VALUE, such as worker.threads=2")
        *sections, name = path_of(key)
        inside = flags
        for section in sections:
            inside = inside.setdefault(section, {})
            if not isinstance(inside, dict):
                raise click.BadParameter(f"{key!r}: {section!r} has a value already")
        inside[name] = value
    return flags


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Value of a setting, such as worker.threads=2; may be repeated. `pochade config show` lists all settings.",
)
@click.option("--home", type=click.Path(file_okay=False), help="Folder of this deployment's data (default: .pochade).")
@click.option("--config", type=click.Path(dir_okay=False), help="TOML file of settings (default: pochade.toml).")
@click.version_option(package_name="pochade", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context, assignments: tuple[str, ...], home: str | None, config: str | None) -> None:
    """Text-to-image serving on Apache Kafka: each prompt goes to the cheapest model that is good enough for it.

    Settings come from these options, then POCHADE_* variables, then the TOML file.

    \b
    Examples:
      pochade demo
      pochade up
      pochade serve worker --set worker.threads=2
      pochade --config production.toml status
    """
    flags = nested(assignments)
    if home is not None:
        flags["home"] = home
    ctx.obj = LazySettings(flags, config)
