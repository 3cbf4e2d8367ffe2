"""`pochade profile`: times, memory and quality of a catalog's levels, for planner, simulator and catalog."""

import json
import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from agents.commands.options import CATALOG, MODELS_FOLDER
from agents.commands.profile_cascades import cascades, swept
from agents.commands.profile_classes import classes
from agents.commands.profile_components import components
from streams.command_groups import CommandGroup
from streams.commands.options import FILE_IN, FOLDER, POSITIVE, Number, Size, indices_of
from streams.extras import need
from streams.shipped import INFRA

if TYPE_CHECKING:
    from agents.profiling.run import Found, Wanted
    from agents.profiling.seeded_prompts import SeededPrompts
    from planner.catalog.model import Catalog
    from planner.catalog.profile import Profile
    from streams.settings import Settings


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    epilog="\b\nExamples:\n  pochade profile --catalog my.toml --out build/profiles --levels light,heavy\n"
    "  pochade profile --catalog my.toml --out build/profiles --reuse --requests 1200",
)
@CATALOG
@click.option(
    "--out",
    type=FOLDER,
    help="Folder to write the profile to (default: infra/profiles).",
)
@click.option(
    "--prompts",
    "count",
    type=click.IntRange(4),
    default=1000,
    show_default=True,
    help="Number of prompts to generate and to measure quality on.",
)
@click.option(
    "--drafts",
    type=click.IntRange(1),
    default=300,
    show_default=True,
    help="Number of prompts whose drafts the next level refines from every step.",
)
@click.option(
    "--stream",
    default="standard",
    show_default=True,
    help="Which prompts of the tiny world to draw: standard, on which the shipped figures were measured, or easy.",
)
@click.option(
    "--prompt-file",
    type=FILE_IN,
    help="List of prompts, one per line, as a CSV table or as JSON, instead of prompts of the tiny world, which "
    "pochade-lab draws.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Random seed of the prompts and of the noise of their images.",
)
@click.option("--levels", help="Names of the levels to measure, separated by commas (default: all).")
@click.option(
    "--batches",
    default="1,2,4,8",
    show_default=True,
    help="Batch sizes to measure, in images per call, separated by commas; of a server 1, 2, 4 and so on in flight.",
)
@click.option(
    "--scorer",
    default="",
    help="What scores images, instead of checking the facts of the prompt: a folder or hub id of a CLIP model, "
    "the name of a discriminator of the catalog, or labels:FILE.",
)
@MODELS_FOLDER
@click.option("--no-quality", is_flag=True, help="Measure times and memory only, not quality.")
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, help="Number of CPU threads of one call."
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Number of processes that generate images (default: one per core, one on CUDA); timing runs alone.",
)
@click.option(
    "--devices",
    default="",
    metavar="N,N-M",
    callback=lambda _ctx, _param, text: indices_of(text),
    help="Cards to measure on side by side, as nvidia-smi counts them, such as 0-3: a process on each, in place of "
    "--jobs.",
)
@click.option(
    "--sizes",
    default="",
    metavar="WxH,...",
    callback=lambda ctx, param, text: tuple(dict.fromkeys(Size().convert(each, param, ctx) for each in _parts(text))),
    help="Sizes in px of which one image is timed, too, such as 512x512,1024x1024; printed, not written.",
)
@click.option(
    "--steps",
    default="",
    metavar="N,...",
    callback=lambda _ctx, _param, text: _numbers("--steps", text, "10,20,50"),
    help="Numbers of steps with which one image is timed, too, of each size; printed, not written.",
)
@click.option(
    "--cold-loads",
    is_flag=True,
    help="Time loading with the model's files dropped from memory, too; the catalog's load_ms is then that time.",
)
@click.option(
    "--budget",
    type=POSITIVE,
    metavar="MINUTES",
    help="Longest time of all: fewer rounds, prompts and drafts are measured where they would take longer "
    "(default: no limit).",
)
@click.option("--write", is_flag=True, help="Write the figures into the catalog's file; its comments stay.")
@click.option(
    "--reuse",
    "is_reuse",
    is_flag=True,
    help="Measure approximate caching instead, on a stream of requests, and write it into the profile as `caching`.",
)
@click.option(
    "--requests",
    type=click.IntRange(20),
    default=1200,
    show_default=True,
    help="Number of requests of the stream of --reuse.",
)
@click.option(
    "--tolerance",
    type=Number(0, 1),
    default=0.005,
    show_default=True,
    help="Largest share of all images that --reuse may be shown to spoil.",
)
@click.pass_context
def profile(
    context: click.Context, /, name: str | None, out: pathlib.Path | None, count: int, drafts: int, stream: str,
    prompt_file: pathlib.Path | None, seed: int, levels: str | None, batches: str, scorer: str,
    models: pathlib.Path, no_quality: bool, threads: int, jobs: int | None, devices: list[int],
    sizes: tuple[tuple[int, int], ...], steps: tuple[int, ...], cold_loads: bool, budget: float | None, write: bool,
    is_reuse: bool, **_of_reuse: object,
) -> None:  # fmt: skip
    """Measure every level of a catalog: loading, memory, latency by batch size, quality by prompt, confidences.

    Writes CATALOG.json and CATALOG-quality.npz, which the planner and the simulator read, and prints the lines for the
    catalog. Finished parts are kept in OUT/.cache, else in the deployment's folder: repeat the command to go on after
    an interruption. With one thread on a CPU, latency is CPU time, so that other work on the machine does not count;
    elsewhere it is elapsed time. The settings of cascades are swept at the end, as `profile cascades` does alone.

    Each level makes one call first, by which the time of all is said before it begins.

    With --reuse the levels of three steps or more begin from the latents of earlier requests instead: quality by share
    of the steps skipped and by similarity, floors, what the guard may allow, and the same work without a cache. It
    takes about ten times as long as generating the requests once. A plot lies beside the profile in OUT.
    """
    if context.invoked_subcommand is not None:
        return
    need("torch", "diffusers", "transformers", "scipy", "tomlkit")
    from agents.components.opening import Keeping
    from agents.profiling.catalog import on_pinned_cards
    from agents.profiling.generation.quality import scorer_of
    from agents.profiling.profiling import Besides
    from agents.profiling.run import Wanted
    from agents.profiling.seeded_prompts import SeededPrompts
    from streams.observing.cards import check_there, open_cards

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # what importing it warns of would break up the bars
    settings: Settings = context.obj()
    catalog_name = name or settings.catalog
    catalog = open_catalog(catalog_name, models)
    if devices:
        check_there(devices, open_cards())
        catalog = on_pinned_cards(catalog)
    cache = out / ".cache" if out else pathlib.Path(settings.home) / "profiling"
    keeping = Keeping.in_place(settings)
    if is_reuse:
        given = context.params | {"levels": _parts(levels or "")}
        _study_of_reuse()(given, catalog_name, catalog, cache, keeping)
        return
    wanted = Wanted(
        catalog=catalog,
        levels=_levels(catalog, levels),
        asked=SeededPrompts(prompts=(), seeds=()) if no_quality else _asked(prompt_file, seed, count, stream),
        batches=_batches(batches),
        models=models,
        seed=seed,
        scorer=scorer_of(scorer, catalog),
        is_generating=not no_quality,
        drafts=drafts,
        threads=threads,
        keeping=keeping,
        besides=Besides(sizes=sizes, steps=steps, is_cold=cold_loads),
        devices=tuple(devices),
    )
    wanted = _planned(wanted, cache, jobs, budget)
    _measure(wanted, cache, jobs, _profile_file(out, wanted, is_part=bool(levels)), catalog_name if write else "")


def _planned(wanted: "Wanted", cache: pathlib.Path, jobs: int | None, budget_min: float | None) -> "Wanted":
    """Return what is wanted within a budget, and print the time that it takes."""
    from agents.profiling.machine import usual_jobs
    from agents.profiling.plan_of_time import in_words, probed, within

    variants, processes = probed(wanted, cache), len(wanted.devices) or jobs or usual_jobs()
    if budget_min is not None:
        wanted = within(wanted, variants, processes, 60 * budget_min)
    for line in in_words(wanted, variants, processes):
        click.echo(line, err=True)
    return wanted


def _study_of_reuse() -> Callable[..., None]:
    """Return the function that measures approximate caching. Raises PochadeError if it is not installed."""
    from agents.profiling.world import LACKING, registered
    from schemas.errors import PochadeError

    study: Callable[..., None] | None = registered("pochade.profile", "reuse")
    if study is None:
        raise PochadeError(f"--reuse needs a study of requests that repeat: {LACKING}")
    return study


def _profile_file(out: pathlib.Path | None, wanted: "Wanted", *, is_part: bool) -> pathlib.Path:
    """Return the file of a profile. `is_part`: only some levels are measured; a part never replaces a whole profile."""
    name = "-".join([wanted.catalog.name, *wanted.levels]) if is_part else wanted.catalog.name
    return (out or INFRA / "profiles") / f"{name}.json"


def open_catalog(name: str, models: pathlib.Path) -> "Catalog":
    """Return a catalog whose tiny models lie under `models`."""
    from agents.profiling.catalog import relocated
    from streams import catalogs

    return relocated(catalogs.load(name), models)


def _measure(
    wanted: "Wanted", cache: pathlib.Path, jobs: int | None, profile_file: pathlib.Path, written_to: str
) -> None:
    """Measure levels, write and report their profile, and sweep the cascades that have a judge.

    `cache`: folder of the finished parts of interrupted runs. `jobs`: processes; None for as many as fit the machine.
    `written_to`: name of the catalog whose file gets the figures too; "" for none.
    """
    from agents.profiling.cascades.table import Choice
    from agents.profiling.in_flight import advice
    from agents.profiling.machine import usual_jobs
    from agents.profiling.run import run

    found = run(wanted, cache, jobs or usual_jobs())
    measured = save(wanted, found, profile_file.parent, profile_file.stem)
    _report(measured, found, profile_file)
    _tell_besides(wanted, found)
    catalog = wanted.catalog
    for line in advice(catalog.served, {name: level.latency_ms for name, level in measured.levels.items()}):
        click.echo(line)
    if written_to:
        _write(written_to, measured)
        catalog = open_catalog(written_to, wanted.models)  # with the times that its file has now
    if _has_judged_cascade(measured):
        swept(catalog, profile_file, Choice(), is_kept=True)


profile.add_command(cascades)
profile.add_command(classes)
profile.add_command(components)


def _levels(catalog: "Catalog", asked: str | None) -> tuple[str, ...]:
    """The named levels; else all, and what is compiled of those on request. Raises Unknown."""
    if asked:
        return tuple(catalog.level(name).name for name in _parts(asked))
    compiled = [name for name, variant in catalog.on_request.items() if variant.loading.compile]
    return (*catalog.variants, *compiled)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _batches(text: str) -> tuple[int, ...]:
    """Rising batch sizes, 1 always among them."""
    return tuple(sorted({*_numbers("--batches", text, "1,2,4,8"), 1}))


def _numbers(option: str, text: str, example: str) -> tuple[int, ...]:
    """Rising numbers of 1 or more, each once. Raises click.BadParameter."""
    if not all(part.isdecimal() and int(part) for part in _parts(text)):
        raise click.BadParameter(f"{option} {text!r} is not numbers of 1 or more with commas, such as {example}")
    return tuple(sorted({int(part) for part in _parts(text)}))


def _asked(file: pathlib.Path | None, seed: int, count: int, stream: str) -> "SeededPrompts":
    """Prompts with seeds: of a stream of the tiny world, or the first lines of a file."""
    import numpy as np

    from agents.profiling import world
    from agents.profiling.seeded_prompts import SeededPrompts
    from schemas.errors import PochadeError
    from streams.codec.prompt_lists import prompts_in

    if file is None:
        return world.needed("profiling without --prompt-file draws prompts of").prompts(seed, count, stream)
    with file.open(encoding="utf-8") as lines:
        prompts = tuple(prompts_in(lines, str(file))[:count])
    if len(prompts) < 4:
        raise PochadeError(f"{file} must hold four prompts or more, one a line: got {len(prompts)}")
    noise = np.random.default_rng(seed).integers(2**31, size=len(prompts))
    return SeededPrompts(prompts=prompts, seeds=tuple(int(each) for each in noise))


def save(wanted: "Wanted", found: "Found", folder: pathlib.Path, named: str) -> "Profile":
    """Write NAMED.json and NAMED-quality.npz; return the profile."""
    from agents.profiling.file import profile_of, render, save_table
    from agents.profiling.machine import provenance

    measured = profile_of(wanted, found)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{named}.json"
    if _has_caching(file):
        click.echo("its caching was measured before, and is left out: repeat `pochade profile --reuse`", err=True)
    file.write_text(render(measured, provenance(), found.missing))
    if found.generated:
        save_table(wanted, found, folder / f"{named}-quality.npz")
    return measured


def _has_caching(file: pathlib.Path) -> bool:
    """Whether a profile that is about to be replaced has measurements of caching, as far as it can be read."""
    try:
        return bool(json.loads(file.read_text()).get("caching"))
    except (OSError, ValueError, AttributeError):
        return False


def _report(measured: "Profile", found: "Found", file: pathlib.Path) -> None:
    from agents.profiling.catalog import snippet

    click.echo(f"\n# measured; {file}\n{snippet(measured)}")
    for name, level in found.measured.items():
        for batch, why in level.failed.items():
            click.echo(f"not measured: {name}, {batch} images a call: {why}", err=True)
    for line in found.missing:
        click.echo(f"not measured: {line}", err=True)


def _tell_besides(wanted: "Wanted", found: "Found") -> None:
    """Print the times of other sizes and steps beside those that the catalog's rule gives, and of cold loads."""
    for name, level in found.measured.items():
        variant = wanted.catalog.level(name)
        own = level.calls[1].ms / (variant.width * variant.height * variant.steps)
        for shape, shaped in wanted.besides.shapes(variant).items():
            if (taken := level.shaped.get(shape)) is None:
                click.echo(f"not measured: {name} {shape}: {level.unshaped.get(shape, 'in no round')}", err=True)
                continue
            rule_ms = own * shaped.width * shaped.height * shaped.steps
            off = f"{taken.ms / rule_ms - 1:+.0%} of the {rule_ms:.4g} ms by pixels and steps alone"
            click.echo(f"# {name} {shaped.width}x{shaped.height}, {shaped.steps} steps: {taken.ms:.4g} ms, {off}")
        if wanted.besides.is_cold and level.disk_load_ms is not None:
            kept = f", but {level.kept_share:.0%} of its files stayed in memory" if level.kept_share > 0.01 else ""
            warm = f"{level.load_ms:.4g} ms from memory"
            click.echo(f"# {name} loads in {level.disk_load_ms:.4g} ms from the disk{kept}, {warm}")


def _has_judged_cascade(measured: "Profile") -> bool:
    """Whether there is anything to sweep."""
    judged = {name for name, level in measured.levels.items() if level.quality is not None}
    return any(cascade.deferral and {cascade.light, cascade.heavy} <= judged for cascade in measured.cascades)


def _write(catalog: str, measured: "Profile") -> None:
    from agents.profiling.catalog import updated
    from streams.catalogs import file_of, text_of

    file = file_of(catalog)
    file.write_text(updated(text_of(catalog), measured))
    click.echo(f"written into {file}")
