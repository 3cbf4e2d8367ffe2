"""`pochade learn`: a classifier and a discriminator for the levels of a catalog, from prompts and a scorer."""

import json
import os
import pathlib
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import click

from agents.commands.options import CATALOG, MODELS_FOLDER
from agents.commands.profile_cascades import swept
from agents.learning.kinds import CLASSIFIERS, DISCRIMINATORS
from streams.cli import LazySettings
from streams.commands.options import FILE_IN, FOLDER, Number, indices_of
from streams.extras import need

if TYPE_CHECKING:
    from agents.learning.learning import Asked, Learned
    from agents.profiling.seeded_prompts import SeededPrompts
    from streams.settings import Settings

NONE = "none"


@click.command(
    epilog="\b\nExamples:\n  pochade learn --prompt-file prompts.txt --scorer openai/clip-vit-base-patch32\n"
    "  pochade learn --prompt-file prompts.txt --images to-label\n"
    "  pochade learn --prompt-file prompts.txt --scorer labels:to-label/labels.csv"
)
@CATALOG
@click.option(
    "--prompt-file", type=FILE_IN,
    help="List of prompts (default: those on the deployment's topics).",
)  # fmt: skip
@click.option(
    "--prompts", "count", type=click.IntRange(1), default=2000, show_default=True, help="Largest number of prompts."
)
@click.option(
    "--scorer", default="",
    help="What judges the images: labels:FILE, the name of a discriminator of the catalog, or a folder or hub id of a "
    "CLIP model.",
)  # fmt: skip
@click.option(
    "--standard", type=Number(),
    help="Score from which an image is good enough (default: .5 of labels, else what nine of ten images of the best "
    "level reach).",
)  # fmt: skip
@click.option(
    "--pairs", type=click.IntRange(1), default=1_000_000, show_default="all",
    help="Number of the prompts to learn from that the dearer levels generate, too; the held-out ones are beside.",
)  # fmt: skip
@click.option(
    "--discriminator", type=click.Choice([*DISCRIMINATORS, NONE]), default="pixels", show_default=True,
    help="Kind of discriminator to fit.",
)  # fmt: skip
@click.option(
    "--classifier", type=click.Choice([*CLASSIFIERS, NONE]), default="words", show_default=True,
    help="Kind of classifier to fit.",
)  # fmt: skip
@click.option(
    "--encoder", default="", metavar="MODEL",
    help="Folder or hub id of the model that all kinds but pixels and words read with; network takes a name of timm's, "
    "too.",
)  # fmt: skip
@click.option(
    "--real", default="", metavar="FOLDER",
    help="Folder of real images, or the name of a better level: the discriminator is fitted to tell the first level's "
    "images from these, and not by the scorer.",
)  # fmt: skip
@click.option("--out", type=FOLDER, default="learned", show_default=True, help="Folder to write everything to.")
@click.option(
    "--images", type=FOLDER, metavar="FOLDER",
    help="Write the images of all levels and an empty labels.csv there, for people to fill in, and end.",
)  # fmt: skip
@click.option(
    "--follow", is_flag=True,
    help="Wait until the images of the deployment become worse, learn its classifier again from the prompts on its "
    "topics, and put it in place if it is better; go on for ever.",
)  # fmt: skip
@MODELS_FOLDER
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Random seed of noise and parts.")
@click.option("--device", default="", help="Device to fit on (default: CUDA where there is one).")
@click.option(
    "--jobs", type=click.IntRange(1), help="Number of processes that generate (default: one per core, one on CUDA)."
)
@click.option(
    "--devices", default="", metavar="N,N-M", callback=lambda _ctx, _param, text: indices_of(text),
    help="Cards to generate on side by side, as nvidia-smi counts them.",
)  # fmt: skip
@click.pass_obj
def learn(
    obj: LazySettings, name: str | None, prompt_file: pathlib.Path | None, count: int, scorer: str,
    standard: float | None, pairs: int, discriminator: str, classifier: str, encoder: str, real: str, out: pathlib.Path,
    images: pathlib.Path | None, follow: bool, models: pathlib.Path, seed: int, device: str, jobs: int | None,
    devices: list[int],
) -> None:  # fmt: skip
    """Learn a classifier of prompts and a discriminator of images for the levels of a catalog.

    Every level generates the prompts, the scorer judges the images, and both judges are fitted, calibrated and measured
    on prompts that were held out. Writes OUT/CATALOG.toml, which names the judges that are better than random, its
    profile, the judges and a card, OUT/README.md. Repeat the command to go on after an interruption. Exit status 1 says
    that no judge is better than random.
    """
    need("torch", "diffusers", "transformers", "scipy", "tomlkit")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from agents.commands.profile import open_catalog
    from agents.learning.exporting import export
    from agents.learning.kinds import Fitting
    from agents.learning.learning import Asked
    from agents.learning.learning import learn as run
    from agents.learning.prompts import NO_PROMPTS
    from agents.profiling.generation.quality import scorer_of
    from agents.profiling.machine import usual_jobs
    from streams.catalogs import text_of

    if not scorer and images is None:
        raise click.UsageError("give a --scorer, or --images FOLDER to have people label the images")
    catalog_name = name or obj().catalog
    catalog = open_catalog(catalog_name, models)
    asked = Asked(
        catalog=catalog,
        text=text_of(catalog_name),
        prompts=NO_PROMPTS if follow else _prompts(obj, prompt_file, count, seed),
        scorer=scorer_of(scorer, catalog),
        standard=standard,
        pairs=pairs,
        fitting=Fitting(discriminator.replace(NONE, ""), classifier.replace(NONE, ""), encoder, real, device),
        seed=seed,
        out=out,
        models=models,
        jobs=jobs or usual_jobs(),
        devices=tuple(devices),
    )
    if follow:
        _follow(asked, obj(), count)
    if images is not None:
        click.echo(f"{export(asked, images)}: fill in the column right, 1 for good enough and 0 for not, then:")
        click.echo(f"  pochade learn --scorer labels:{images}/labels.csv, the other options as now, no --images")
        return
    _write(asked, run(asked), catalog_name)


def _prompts(obj: LazySettings, file: pathlib.Path | None, count: int, seed: int) -> "SeededPrompts":
    from agents.learning import prompts

    return prompts.of_file(file, count, seed) if file else prompts.of_deployment(obj(), count, seed)


def _follow(asked: "Asked", settings: "Settings", count: int) -> NoReturn:
    """Learn again at each drift. An error is told, and the classifier in force goes on."""
    from agents.learning.prompts import of_deployment
    from agents.learning.retraining import drifts, retrain, served_folder
    from planner.observation.drift import DriftWatch
    from schemas.errors import PochadeError

    click.echo(f"following the results; the classifier is in {served_folder(asked.catalog)}")
    for drift in drifts(settings, DriftWatch()):
        click.echo(drift.in_words())
        try:
            new, old, is_better = retrain(replace(asked, prompts=of_deployment(settings, count, asked.seed)))
        except PochadeError as error:
            click.echo(f"not learned again: {error}", err=True)
            continue
        click.echo(f"the new one {new.in_words()}; the old one recovers {old.recovery:.2f}")
        click.echo("the new one is in place" if is_better else "the old one goes on")
    raise AssertionError("it follows for ever")


def _write(asked: "Asked", learned: "Learned", catalog: str) -> None:
    """Write the catalog, its profile, the card and the figures; report; exit with 1 where nothing is promoted.

    `catalog`: name of what was learned for, or its file.
    """
    from agents.commands.profile import save
    from agents.learning.card import card
    from agents.learning.learning import figures
    from agents.learning.times import stale_times
    from agents.profiling.cascades.table import Choice
    from agents.profiling.catalog import updated
    from agents.profiling.machine import provenance
    from streams.parsing import catalog as catalog_text

    name, out, made = asked.catalog.name, asked.out, provenance()
    notes = list(stale_times(asked.catalog.variants, learned.found.generated))
    if notes:
        again = f"pochade profile --catalog {catalog} --out {pathlib.Path(catalog).parent} --no-quality --write"
        notes.append(
            f"plans go by latency_ms: time again with `{again}`, then repeat this command; it keeps the images"
        )
    profile = save(learned.wanted, learned.found, out, name)
    text = updated(learned.text, profile)
    (out / f"{name}.toml").write_text(text)
    (out / "README.md").write_text(card(asked, learned, profile.guarantees, made, notes))
    (out / "learned.json").write_text(json.dumps(figures(learned) | made, indent=1) + "\n")
    for level, share in learned.right.items():
        low, high = learned.interval(level)
        click.echo(f"{level}: {share:.3f} [{low:.3f}, {high:.3f}] of the held-out images are at standard")
    for kind, worth in learned.worth.items():
        click.echo(f"{kind}: {worth.in_words()}")
    for note in notes:
        click.echo(f"note: {note}")
    if learned.pair.discriminator:
        swept(catalog_text.parse(text, name), out / f"{name}.json", Choice(), is_kept=True)
    if not any(worth.is_promoted for worth in learned.worth.values()):
        click.echo(f"{out / name}.toml names no judge: none is better than random", err=True)
        raise SystemExit(1)
    click.echo(f"serve it with: pochade --set catalog={(out / name).resolve()}.toml serve ...")
