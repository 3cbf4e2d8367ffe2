"""`pochade bench guarantee`: whether what a catalog promises of kept drafts holds, on splits of one pool."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from replay.bench.commands.measuring import OUTPUT
from replay.commands.options import seed_option
from schemas.errors import PochadeError
from streams.commands.options import FILE_IN, FOLDER, Number
from streams.shipped import MODELS

if TYPE_CHECKING:  # loaded when a bench runs: --help need not wait for Kafka's client
    from streams.settings import Settings

CHILD: Final = "agents.lab.guarantee_bench"  # `replay` is a client, and imports no models
SHARE = Number(0, 1, min_open=True, max_open=True)


@click.command()
@click.option("--seeds", type=click.IntRange(1), default=200, show_default=True, help="Number of splits.")
@seed_option("the first split; each next one has the next", 1)
@click.option("--drafts", type=click.IntRange(100), default=40_000, show_default=True, help="Size of the pool.")
@click.option(
    "--calibration", "n", type=click.IntRange(10), default=16_000, show_default=True,
    help="Number of drafts of a split that thresholds are made of; the others test them.",
)  # fmt: skip
@click.option(
    "--alpha", "alphas", type=SHARE, multiple=True, default=(0.1, 0.2), show_default=True,
    help="Largest share of kept drafts that may be wrong; may be repeated.",
)  # fmt: skip
@click.option(
    "--delta", type=SHARE, default=0.05, show_default=True,
    help="Chance that one of a split's promises is wrong: overall and of all bands together.",
)  # fmt: skip
@click.option(
    "--pool-seed",
    type=click.IntRange(0),
    default=20261129,
    show_default=True,
    help="Random seed of the pool's prompts.",
)
@click.option("--folder", type=FOLDER, help="Folder of the pool (default: guarantee, in the deployment's folder).")
@click.option("--jobs", type=click.IntRange(1), help="Number of processes that generate drafts (default: one a core).")
@click.option(
    "--into", "profile", type=FILE_IN,
    help="Profile (NAME.json beside NAME-quality.npz) to write what the whole pool promises into.",
)  # fmt: skip
@click.option("--models", type=FOLDER, default=MODELS, help="Folder of models (default: the shipped ones).")
@OUTPUT
@click.pass_obj
def guarantee(
    load: "Callable[[], Settings]", /, seeds: int, seed: int, drafts: int, n: int, alphas: tuple[float, ...],
    delta: float, pool_seed: int, folder: pathlib.Path | None, jobs: int | None, profile: pathlib.Path | None,
    models: pathlib.Path, output: str,
) -> None:  # fmt: skip
    """Measure in how many splits of judged drafts a promised threshold keeps too many wrong ones, and what it keeps.

    Needs no broker. The pool is generated once, about 15 ms of CPU a draft, and kept: repeat the command to go on after
    an interruption.

    \b
    Examples:
      pochade bench guarantee
      pochade bench guarantee --seeds 200 --seed 7 -o json
    """
    from replay.bench.environment.figures import Conditions

    if n >= drafts:
        raise click.BadParameter(f"--calibration must be below --drafts: got {n} of {drafts}")
    settings, conditions = load(), Conditions()
    asked = {
        "seeds": seeds, "seed": seed, "drafts": drafts, "calibration": n, "alphas": alphas, "delta": delta,
        "pool_seed": pool_seed, "folder": str(folder or settings.home / "guarantee"), "jobs": jobs,
        "into": str(profile or ""), "models": str(models),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-m", CHILD, json.dumps(asked)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise PochadeError(f"the drafts could not be judged (exit status {done.returncode}); see above")
    measured = json.loads(done.stdout)
    report = {"bench": "guarantee", "asked": asked, **measured, **conditions.as_table(settings)}
    click.echo(json.dumps(report) if output == "json" else "\n".join(table(report)))


def table(report: Mapping[str, Any]) -> list[str]:
    """Aligned lines, one a row."""
    columns = ("alpha", "band", "within_share", "refused_share", "kept_share", "true_kept_share", "kept_of_true")
    shown = [[f"{row.get(name, '')}" for name in columns] for row in report["rows"]]
    return ["  ".join(f"{cell:<15}" for cell in cells).rstrip() for cells in [list(columns), *shown]]
