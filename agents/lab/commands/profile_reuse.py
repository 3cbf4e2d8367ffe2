"""`pochade profile --reuse`: what approximate caching of a catalog's levels saves and loses."""

import pathlib
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from agents.components.opening import Keeping
    from planner.catalog.caching import CachingMeasurement
    from planner.catalog.model import Catalog

REFUSED = {"prompt_file": "--prompt-file", "scorer": "--scorer", "no_quality": "--no-quality", "write": "--write"}


class Target(NamedTuple):
    """The profile that the measurements are written into."""

    text: str
    file: pathlib.Path
    table: pathlib.Path | None  # its NAME-quality.npz, where that has to be copied along; None: it lies there


def target_of(name: str, catalog: str, out: pathlib.Path | None) -> Target:
    """Return the profile in `out`, or else the catalog's own.

    Raises PochadeError where there is neither, or it cannot be read: hours of measuring would have no place.
    """
    from agents.lab.profiling.reuse.file import without_caching
    from schemas.errors import PochadeError
    from streams.catalogs import find_profile, read_profile
    from streams.parsing.profile import parse

    own = find_profile(name)
    file = out / f"{catalog}.json" if out else pathlib.Path(own.file) if own else None
    if file is not None and file.is_file():
        there = read_profile(file)
        parse(without_caching(there.text), there.file)
        return Target(there.text, file, None)
    if own is None or file is None:
        raise PochadeError(f"catalog {name!r} has no profile to write into: measure its levels with `pochade profile`")
    parse(without_caching(own.text), own.file)
    table = pathlib.Path(own.file).with_name(f"{catalog}-quality.npz")
    return Target(own.text, file, table if table.is_file() else None)


def refuse_others(parameters: Mapping[str, object]) -> None:
    """Raise click.BadParameter for an option of `profile` without effect on a measurement of reuse."""
    for parameter, option in REFUSED.items():
        if parameters[parameter]:
            raise click.BadParameter(f"{option} has no effect with --reuse, which draws its own requests: omit it")


def profile_reuse(
    given: Mapping[str, Any], name: str, catalog: "Catalog", kept: pathlib.Path, keeping: "Keeping"
) -> None:
    """Measure, show it, and write it into the profile; with a plot of each level beside it where --out is given.

    `given`: the parameters of `pochade profile`, `levels` as a list; `name`: the catalog's, as asked for; `kept`: the
    folder of finished parts; `keeping`: where engines have their volume. Raises PochadeError, click.BadParameter.
    """
    refuse_others(given)
    out, models, threads = given["out"], given["models"], given["threads"]
    target = target_of(name, catalog.name, out)
    from agents.lab.profiling.reuse.file import with_caching
    from agents.lab.profiling.reuse.study import Judges, Wanted, levels_to_measure, measure
    from agents.lab.world.stream import stream_named
    from agents.models.scorer import Scorer
    from agents.profiling.generation.pool import GenerationPool
    from agents.profiling.machine import provenance, usual_jobs
    from agents.reuse.plain_guard import compare
    from schemas.errors import PochadeError

    if not (models / "scorer").is_dir():
        raise PochadeError(
            f"{models} has no scorer, which embeds prompts: train it, or name another folder by --models"
        )
    wanted = Wanted(
        catalog=catalog, levels=levels_to_measure(catalog, given["levels"]), requests=given["requests"],
        seed=given["seed"], stream=stream_named(given["stream"]), tolerance=given["tolerance"], threads=threads,
    )  # fmt: skip
    judges = Judges(Scorer.load(models / "scorer"), compare)
    pool = GenerationPool(kept, jobs=given["jobs"] or usual_jobs(), threads=threads, keeping=keeping)
    found = measure(wanted, pool, judges, provenance())
    target.file.parent.mkdir(parents=True, exist_ok=True)
    target.file.write_text(with_caching(target.text, found, target.file.name))
    if target.table:
        shutil.copyfile(target.table, target.file.with_name(target.table.name))
    _report(found)
    click.echo(f"written into {target.file}")
    for level, profile in found.items() if out else ():
        click.echo(f"drawn: {_draw(level, profile, target.file)}")


def _report(found: "dict[str, CachingMeasurement]") -> None:
    from rich.console import Console

    from agents.lab.profiling.reuse.report import remarks, tables_of

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    for level, profile in found.items():
        for table in tables_of(level, profile):
            console.print(table)
        for line in remarks(level, profile):
            click.echo(line)


def _draw(level: str, profile: "CachingMeasurement", beside: pathlib.Path) -> pathlib.Path:
    from agents.lab.profiling.reuse.plot import svg_plot

    file = beside.with_name(f"{beside.stem}-{level}-reuse.svg")
    file.write_text(svg_plot(level, profile))
    return file
