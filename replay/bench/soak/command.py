"""`pochade soak`: requests for hours, and what the roles hold meanwhile."""

import pathlib
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import PochadeError
from streams.commands.options import FILE, POSITIVE

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for Kafka's client
    from streams.settings import Settings


@click.command()
@click.option("--requests", type=click.IntRange(min=1), help="Number of requests to send.")
@click.option("--hours", type=POSITIVE, help="How long to send requests, in hours, instead of --requests.")
@click.option(
    "--report",
    "path",
    type=FILE,
    required=True,
    help="File to write the JSON report to; FILE.state beside it has what an interrupted run goes on from.",
)
@click.option(
    "--outstanding",
    type=click.IntRange(1, 10_000),
    default=48,
    show_default=True,
    help="Number of requests that are open at once: a new one is sent as one ends.",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Number of worker processes to start."
)
@click.option(
    "--here",
    "is_here",
    is_flag=True,
    help="Use the deployment that the settings name, which must run, instead of starting one.",
)
@click.option("--keep", "is_kept", is_flag=True, help="Keep topics, images and logs of a run that is over.")
@click.pass_obj
def soak(load: "Callable[[], Settings]", /, path: pathlib.Path, is_kept: bool, **asked: Any) -> None:
    """Send requests for hours, count those that are lost or end twice, and watch what each role holds.

    Starts a broker and every role in HOME/soak, workers with the engine `profile`, which runs no model, and keeps a
    fixed number of requests open. Results are read from the topic `results`, as a client does. Topics keep some
    hundred MB and images ten minutes, so that the disk does not fill.

    The report has, for each role, the growth of its resident memory in %: the median of the last tenth of the requests
    that ended in the life of its process, compared with the median of the second tenth. Its descriptors (open files and
    sockets) are the medians of the same tenths. Exit status 1 says that a request was lost or ended twice.

    Ctrl-C waits for the open requests and stops all processes. The same command goes on where it stopped, also after a
    kill; what was not acknowledged then is sent again under its id. A report of a run that is over is shown again.

    \b
    Examples:
      pochade soak --requests 5000 --report soak.json
      pochade soak --hours 24 --report day.json
      pochade soak --here --requests 100000 --report here.json
    """
    from rich.console import Console

    from replay.bench.soak import state
    from replay.bench.soak.options import SoakOptions
    from replay.bench.soak.run import SoakRun, Stop
    from replay.commands.demo import log_to
    from replay.reports.progress import open_reporter
    from streams import settings

    options, own, stop = SoakOptions(**asked), load(), Stop()
    if (options.requests is None) == (options.hours is None):
        raise click.UsageError("give --requests or --hours")
    known = state.read(path)
    if known is not None and known.get("finished"):
        click.echo(f"{path} is the report of a run that is over; name another --report for a new one", err=True)
        _show(known, path)
        return

    def leave(number: int, _frame: object) -> None:
        if stop.is_asked or not stop.is_heeded:
            raise SystemExit(128 + number)
        stop.is_asked = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    with open_reporter(Console()) as teller:
        run = SoakRun(own, settings.load(), options, path, teller, stop)
        log_to(run.settings.home / "logs" / "soak.log")
        report = run.run()
    _show(report, path)
    if not report["finished"]:
        raise PochadeError(f"the run was interrupted: the same command goes on from {state.state_file(path)}")
    if not is_kept:
        run.clear()


def _show(report: dict[str, Any], path: pathlib.Path) -> None:
    """Print a report. Raises PochadeError: a request was lost or ended twice."""
    from replay.bench.soak.report import broken, lines

    for label, value in lines(report).items():
        click.echo(f"{label:<20}{value}")
    click.echo(f"{'report':<20}{path}")
    if (fault := broken(report)) is not None:
        raise PochadeError(fault)
