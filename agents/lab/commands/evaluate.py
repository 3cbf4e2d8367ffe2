"""`pochade evaluate`: generate images for fresh prompts; report what each level and ranker gains, with intervals."""

import json
import os
import pathlib
from typing import TYPE_CHECKING, Any

import click

from agents.commands.options import MODELS_FOLDER
from agents.lab.world.stream import STREAMS
from streams.cli import LazySettings
from streams.commands.known_names import CatalogOption
from streams.commands.options import FILE_IN, FOLDER

if TYPE_CHECKING:
    from rich.table import Table

    from agents.lab.evaluation.generation.evaluation import Study

RESAMPLES, QUICK_RESAMPLES = 1000, 100  # behind every interval


@click.command(epilog="\b\nExamples:\n  pochade evaluate --seed 41 --count 1000 --report build/evaluation")
@click.option(
    "--seed", type=click.IntRange(0), required=True, help="Random seed of the prompts and of the noise of their images."
)
@click.option(
    "--count",
    type=click.IntRange(8),
    default=1000,
    show_default=True,
    help="Number of fresh prompts, drawn from the stream.",
)
@click.option(
    "--stream",
    type=click.Choice(list(STREAMS)),
    default="standard",
    show_default=True,
    help="Which prompts to draw: standard, as for the shipped figures, or easy, which asks for fewer and "
    "commoner things and has no words from outside the grammar.",
)
@click.option(
    "--report",
    type=FOLDER,
    required=True,
    help="Folder to write evaluate.json, report.html, sample sheets and all observations to.",
)
@click.option(
    "--catalog",
    "name",
    cls=CatalogOption,
    default="tiny",
    show_default=True,
    help="Name of a shipped catalog, or a TOML file.",
)
@MODELS_FOLDER
@click.option(
    "--quick", is_flag=True, help="Evaluate a few prompts only, to test in a minute or two that everything works."
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Number of processes that generate images (default: one per core, one on CUDA).",
)
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, help="Number of CPU threads of each process."
)
@click.option(
    "--against",
    type=FILE_IN,
    help="Earlier evaluate.json on other prompts, such as infra/models/evaluate.json; figures that "
    "differ beyond chance are listed.",
)
@click.option(
    "--notes",
    type=FILE_IN,
    help="JSON file that maps the name of a verdict to the reason why its number was not reached.",
)
@click.pass_obj
def evaluate(
    obj: LazySettings, seed: int, count: int, stream: str, report: pathlib.Path, name: str, models: pathlib.Path,
    quick: bool, jobs: int | None, threads: int, against: pathlib.Path | None, notes: pathlib.Path | None,
) -> None:  # fmt: skip
    """Generate images for fresh prompts with every level of a catalog; measure levels, cascades and rankers on them.

    The report has levels by difficulty, quality against heavy share for every discriminator and classifier, refining
    drafts and reusing neighbours from every step, and FID beside facts, all with intervals. Use a seed that nothing was
    trained or calibrated on. Finished parts are kept in REPORT/.cache: repeat the command to go on after an
    interruption.
    """
    import time

    from agents.components.opening import Keeping
    from agents.lab.evaluation import reproduction
    from agents.lab.evaluation.generation.evaluation import EvaluationRun
    from agents.lab.evaluation.generation.scope import scope
    from agents.profiling.catalog import relocated
    from agents.profiling.generation.pool import GenerationPool
    from agents.profiling.machine import usual_jobs
    from streams import catalogs

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # what importing it warns of would break up the bars
    begun = time.monotonic()
    reference = reproduction.read(against) if against else None  # a wrong file is reported before an hour of generating
    catalog = relocated(catalogs.load(name), models)
    wanted = scope(catalog, models, seed, count, is_quick=quick, threads=threads, stream=stream)
    keeping = Keeping.in_place(obj())
    pool = GenerationPool(report / ".cache", jobs=jobs or usual_jobs(), threads=threads, keeping=keeping)
    study = EvaluationRun(wanted, pool).run()
    resamples = QUICK_RESAMPLES if quick else RESAMPLES
    summary = _save(study, report, resamples, json.loads(notes.read_text()) if notes else {})
    _save_run(study, report, time.monotonic() - begun)
    _report(summary, study, report)
    if reference is not None:
        _report_comparison(reference, summary, report)


def _save(study: "Study", folder: pathlib.Path, resamples: int, notes: dict[str, str]) -> dict[str, Any]:
    """Write evaluate.json, report.html, the sheets, and the observations that both were made of."""
    from agents.lab.evaluation import storage
    from agents.lab.evaluation.report import report
    from agents.lab.evaluation.summary import summarise
    from agents.profiling.statistics.intervals import Resampling

    storage.save(study.evaluation, folder)
    summary = summarise(study.evaluation, Resampling(seed=study.evaluation.seed, resamples=resamples), notes)
    (folder / "evaluate.json").write_text(json.dumps(summary, indent=1) + "\n")
    page = report.render(study.evaluation, summary, study.grids, study.missing)
    (folder / "report.html").write_text(page, encoding="utf-8")
    for number, grid in enumerate(study.grids, 1):
        grid.image.save(folder / f"samples-{number}.png")
    return summary


def _save_run(study: "Study", folder: pathlib.Path, took_s: float) -> None:
    """Write run.json: the machine and versions, how long this run took, and what could not be evaluated."""
    from agents.profiling.machine import provenance

    run = {**provenance(), "took_s": round(took_s, 1), "missing": list(study.missing)}
    (folder / "run.json").write_text(json.dumps(run, indent=1) + "\n")


def _report(summary: dict[str, Any], study: "Study", folder: pathlib.Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("number", "wanted", "got", "")
    for verdict in summary["verdicts"]:
        got = verdict["got"]
        table.add_row(
            verdict["name"], verdict["wanted"], "not measured" if got is None else f"{got:.3f}",
            "reached" if verdict["met"] else "not reached",
        )  # fmt: skip
    Console().print(table)
    Console().print(_misses(summary))
    for line in study.missing:
        click.echo(f"missing: {line}", err=True)
    click.echo(f"{folder / 'report.html'}")


def _misses(summary: dict[str, Any]) -> "Table":
    """Each level's share of images: all facts right, all right where no cheaper level is, one wrong by kind."""
    from rich.table import Table

    levels, cheapest = summary["levels"], summary["cheapest_right"]
    table = Table("% of images", *levels)
    table.add_row("all facts right", *(f"{100 * level['quality']:.1f}" for level in levels.values()))
    table.add_row("cheapest with all facts right", *(f"{100 * cheapest[name]['value']:.1f}" for name in levels))
    for kind in next(iter(levels.values()))["misses"]:
        shares = (level["misses"][kind]["value"] for level in levels.values())
        table.add_row(f"{kind} wrong", *(f"{100 * share:.1f}" for share in shares))
    return table


def _report_comparison(reference: dict[str, Any], summary: dict[str, Any], folder: pathlib.Path) -> None:
    """The figures of both, on the terminal and in compared.json."""
    from rich.console import Console
    from rich.table import Table

    from agents.lab.evaluation.reproduction import compare, doubts

    found = compare(reference, summary)
    (folder / "compared.json").write_text(json.dumps([figure.row for figure in found], indent=1) + "\n")
    table = Table("figure", "reference", "predicted for as many prompts", "here", "")
    for figure in found:
        known, range_ = figure.reference, figure.predicted
        table.add_row(
            figure.name, f"{known.value:.3f} [{known.low:.3f}, {known.high:.3f}]",
            f"{range_.low:.3f} to {range_.high:.3f}",
            f"{figure.here.value:.3f}",
            "differs" if figure.differs else "" if figure.is_within else "by chance",
        )  # fmt: skip
    Console().print(table)
    within, differ = sum(figure.is_within for figure in found), sum(figure.differs for figure in found)
    click.echo(
        f"of {len(found)} figures {within} are in the range that the reference predicts for this number of prompts, "
        f"and {differ} differ beyond chance; equal models have about {0.05 * len(found):.1f} outside the range, and "
        "as many that differ"
    )
    for line in doubts(reference, summary):
        click.echo(f"note: {line}", err=True)
