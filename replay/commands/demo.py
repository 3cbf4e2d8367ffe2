"""`pochade demo`: the whole pipeline on this machine, once, with images to look at."""

import contextlib
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from replay.commands.options import CATALOG, seed_option
from schemas.errors import PochadeError
from streams.commands.known_names import PolicyOption
from streams.commands.options import FILE, FILE_IN, POSITIVE, Number

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for Kafka's client
    from replay.demo import Demo
    from streams.settings import Settings


@click.command()
@click.option(
    "--prompts",
    type=FILE_IN,
    help="List of prompts, one per line, as a CSV table or as JSON (default: those that ship with the demo).",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    help="Number of requests to send (default: 36, 320 where images are reused, or one per prompt or arrival given).",
)
@click.option(
    "--rate",
    "rate_rps",
    type=POSITIVE,
    help="Number of requests to send per second (default: 4, or 2 where images are reused).",
)
@click.option(
    "--trace", type=FILE_IN, help="CSV file of arrivals with a column arrival_ms, plain or gzip, instead of --rate."
)
@click.option(
    "--policy", cls=PolicyOption, metavar="NAME", help="Policy of the planner (default: the setting planner.policy)."
)
@click.option(
    "--freeze-store",
    "freeze_s",
    type=Number(min=0),
    metavar="SECONDS",
    help="How long to freeze the vector store during a run that reuses images; 0: never (default: 15).",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Number of worker processes to start."
)
@click.option(
    "--engine",
    metavar="NAME",
    help="Engine of the workers: diffusers generates images; profile only sleeps as long as measured "
    "and draws placeholders.",
)
@CATALOG
@click.option("--report", type=FILE, help="File to write the JSON report to (default: HOME/demo/report.json).")
@click.option("--gallery", type=FILE, help="File to write the page of images to (default: HOME/demo/gallery.html).")
@seed_option("the prompts, the request ids and the noise")
@click.option("--keep", "is_kept", is_flag=True, help="Keep broker and roles running after the report, until Ctrl-C.")
@click.pass_obj
def demo(load: "Callable[[], Settings]", /, **asked: Any) -> None:
    """Run the whole pipeline on this machine: a Kafka broker, all roles, and 36 prompts.

    Writes a report and a page of images that says why each one was kept or generated again, and stops everything that
    it started. Exit status 0 says that no request was lost or ended twice and that every image decodes.

    A policy that begins images from stored latents of earlier ones, such as argus, gets prompts that come back, a
    vector store and an index writer; the store is frozen for a while, so that the planner's switch of strategy shows.

    \b
    Examples:
      pochade demo
      pochade demo --count 100 --rate 20 --engine profile --catalog profile
      pochade demo --prompts mine.txt --policy random-split --gallery /tmp/mine.html
      pochade demo --policy argus
      pochade demo --keep
    """
    import psutil

    began_s = psutil.Process().create_time()

    from rich.console import Console

    from replay.demo import Demo
    from replay.demo_options import DemoOptions
    from replay.reports import summary
    from replay.reports.demo_report import verdict
    from replay.reports.progress import open_reporter
    from streams import settings

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    console = Console()
    reports: list[dict[str, Any]] = []

    def on_end(report: dict[str, Any]) -> None:
        reports.append(report)
        summary.show(report, run, console)

    with open_reporter(console) as teller:
        run = Demo(load(), settings.load(), DemoOptions(**asked), teller, began_s)
        log_to(run.settings.home / "logs" / "demo.log")
        run.run(on_end, lambda look_after: _keep(run, teller.note, look_after))
    fault = verdict(reports[0])
    if fault is not None:
        raise PochadeError(fault)


def leave(number: int, _frame: object) -> NoReturn:
    """A signal ends the command like any exception, so that what was started is stopped."""
    raise SystemExit(128 + number)


def log_to(path: Path) -> None:
    """Write the clients' warnings to a file, as they would tear the live display."""
    path.parent.mkdir(parents=True, exist_ok=True)
    layout = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(filename=path, filemode="w", level=logging.INFO, format=layout, force=True)


def _keep(run: "Demo", note: Callable[[str], None], look_after: Callable[[], None]) -> None:
    """Wait for Ctrl-C beside roles that are looked after."""
    command = f"pochade --home {run.settings.home} --set kafka.prefix={run.settings.kafka.prefix}"
    for line in (
        "everything runs on, until Ctrl-C. In another terminal:",
        f'  {command} submit "a red heart" --wait',
        f"  {command} results --since 1h",
    ):
        note(line)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            look_after()
            time.sleep(0.2)
