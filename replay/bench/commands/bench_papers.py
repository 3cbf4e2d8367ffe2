"""`pochade bench papers`: the papers' comparisons in simulation, on one page."""

import dataclasses
import json
import os
import pathlib
import platform
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from streams.as_typed import RepeatableCommand
from streams.commands.known_names import NamesOption
from streams.commands.options import FILE, output_option

if TYPE_CHECKING:  # loaded when the bench runs
    from collections.abc import Callable

QUICK_REQUESTS = 250  # of each trace
FOLDER = click.Path(exists=True, file_okay=False, path_type=pathlib.Path)


class QuestionOption(NamesOption):
    """An option that takes questions to the papers."""

    def known(self) -> Iterable[str]:
        """Return the questions."""
        from replay.bench.papers.questions import QUESTIONS

        return QUESTIONS


class TruthOption(NamesOption):
    """An option that takes truths of the frontier other than the catalog."""

    def known(self) -> Iterable[str]:
        """Return the truths."""
        from replay.bench.frontier.grid import TRUTHS

        return TRUTHS[1:]


@click.command(cls=RepeatableCommand)
@click.option(
    "--only",
    "names",
    cls=QuestionOption,
    multiple=True,
    metavar="QUESTION",
    help="Ask only this question; may be repeated.",
)
@click.option(
    "--traces",
    "folder",
    type=FOLDER,
    help="Folder of the published traces (default: generated traces of the same shape).",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Ask every question on a few requests, to test that all of them run; the figures mean nothing.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Number of processes that simulate."
)
@click.option(
    "--recorded-arrivals",
    "is_recorded",
    is_flag=True,
    help="Run all seeds on the same arrivals, instead of drawing them anew for each at the traces' rates; "
    "cells of the frontier are always redrawn.",
)
@click.option(
    "--hops/--no-hops",
    "has_hops",
    default=True,
    help="Let requests take the time between processes that a live run took; without it none, as in the papers. "
    "Cells of the frontier always have them.",
)
@click.option(
    "--redraws",
    type=click.IntRange(2, 1000),
    help="Number of redraws of the arrivals in the question of joint; each takes some 10 minutes on 2 cores "
    "(default: 5).",
)
@click.option(
    "--other-truth",
    "truths",
    cls=TruthOption,
    multiple=True,
    metavar="TRUTH",
    help="In the question of joint, compare also where runs differ from the catalog in this way; may be repeated.",
)
@click.option(
    "--grid",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Folder of `pochade bench frontier --out` whose results are taken, and to which missing ones are added, so "
    "that what was broken off goes on (default: none is kept).",
)
@click.option("--page", type=FILE, help="Markdown file to write the page to, instead of the terminal.")
@output_option("Output format: a Markdown page, or one JSON document.", "page", "json")
@click.pass_context
def papers(
    context: click.Context, /, names: tuple[str, ...], folder: pathlib.Path | None, quick: bool, jobs: int,
    is_recorded: bool, has_hops: bool, redraws: int | None, truths: tuple[str, ...], grid: pathlib.Path | None,
    page: pathlib.Path | None, output: str,
) -> None:  # fmt: skip
    """Repeat the papers' comparisons in simulation: a verdict with numbers, the paper's figures beside ours.

    Needs no broker. The published traces are not part of this project; without --traces, traces of the same shape are
    generated, identical in each run.

    \b
    Examples:
      pochade bench papers --quick
      pochade bench papers --traces FOLDER --page RESULTS.md
      pochade bench papers --traces FOLDER --redraws 10 --grid grid --page RESULTS.md
      pochade bench papers --only joint --other-truth slow --grid grid
    """
    from replay.bench.papers.answers import QUICK, Asking, Scale
    from replay.bench.papers.page import render
    from replay.bench.papers.questions import ask
    from replay.bench.papers.runs.cell_runner import CellRunner
    from replay.bench.papers.runs.names import JOINT

    if truths and names and JOINT not in names:
        raise click.UsageError(f"--other-truth has no effect without the question {JOINT}: leave it out, or ask it too")
    began_s = time.monotonic()
    limit, scale = (QUICK_REQUESTS, QUICK) if quick else (None, Scale())
    scale = dataclasses.replace(scale, seeds=redraws or scale.seeds, other_truths=_known_truths(truths))
    own = {"is_recorded": is_recorded, "has_hops": has_hops}
    with _bar() as on_run, CellRunner(jobs, folder, limit, on_run, grid=grid, **own) as runner:
        answers = ask(names, Asking(run=runner.run, grid=runner.grid, trace=runner.trace, scale=scale))
        run_facts = {
            "runs": runner.runs,
            "kept": runner.reused,
            "cpu_minutes": f"{runner.cpu_s / 60:.1f}",
            "jobs": jobs,
        }
    run_facts |= {"arrivals": "as recorded, the same for all seeds" if is_recorded else "redrawn for each seed"}
    run_facts |= {"minutes": f"{(time.monotonic() - began_s) / 60:.1f}"}
    made = _run_comparisons(context, folder, quick=quick) | run_facts
    text = render(answers, made)
    if page is not None:
        page.write_text(text, encoding="utf-8")
    if output == "json":
        click.echo(json.dumps({"bench": "papers", **made, "answers": [each.as_values() for each in answers]}))
    elif page is None:
        click.echo(text)
    else:
        verdicts = [f"{answer.title}\n  {answer.verdict}" for answer in answers]
        click.echo("\n".join([*verdicts, f"page: {page}"]))


def _known_truths(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return each name once. Raises Unknown of a name that is no truth, or is the catalog."""
    from replay.bench.frontier.grid import TRUTHS
    from schemas.errors import Unknown

    for name in names:
        if name not in TRUTHS[1:]:
            raise Unknown("truth", name, TRUTHS[1:])
    return tuple(dict.fromkeys(names))


def _run_comparisons(context: click.Context, folder: pathlib.Path | None, *, quick: bool) -> dict[str, Any]:
    import datetime

    import psutil

    from replay.reports.provenance import describe_run

    found = describe_run(context)
    memory = round(psutil.virtual_memory().total / 2**30)
    cores = f"{os.cpu_count()} cores ({_processor()}), {memory} GiB, load {os.getloadavg()[0]:.1f} at the end"
    traces = f"the published ones ({folder})" if folder else "made, of the published ones' shape"
    return {
        "command": found["command"],
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "machine": f"{cores}, {platform.system()} {platform.machine()}",
        "traces": f"{traces}, their first {QUICK_REQUESTS} requests only: figures mean nothing" if quick else traces,
        "versions": ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
    }


def _processor() -> str:
    """Return the processor's name, where the system reports it."""
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or "processor unknown"


@contextmanager
def _bar() -> "Iterator[Callable[[int, int], object]]":
    """Runs asked for and done; the questions ask for more as they go."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("runs", total=None)
        yield lambda asked, done: progress.update(task, total=asked, completed=done)
