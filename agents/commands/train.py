"""`pochade train TARGET`: make the tiny family and its learned parts, all of them or one."""

import os
import pathlib

import click

from agents.lab.training.plan import ABOUT, STEPS, TARGETS, Folders
from agents.lab.training.schedule import wall_minutes

SIDE_BY_SIDE = 2  # processes on two cores: measured faster than one with two threads


def _table() -> str:
    rows = [
        f"  {name:<14}{round(wall_minutes(name, SIDE_BY_SIDE)):>4} min  {ABOUT.get(name, '')}".rstrip()
        for name in TARGETS
    ]
    singles = ", ".join(name for name in STEPS if name not in TARGETS)
    return "\n".join([*rows, "", f"  Single steps: {singles}."])


HELP = f"""Train TARGET from scratch, in steps that can be broken off and gone on with.

What a step needs comes from the work folder, else from the models that are shipped, else it is trained first. Finished
steps are skipped. Minutes are on two cores of a CPU, two steps side by side:

\b
{_table()}

\b
Examples:
  pochade train all
  pochade train lora --work build/models
  pochade train all --scale 0.01 --work build/look
"""


@click.command(help=HELP)
@click.argument(
    "target", type=click.Choice([*TARGETS, *(name for name in STEPS if name not in TARGETS)]), metavar="TARGET"
)
@click.option(
    "--work", type=click.Path(path_type=pathlib.Path, file_okay=False), default="build/models", show_default=True,
    help="Folder of checkpoints, logs and parts.",
)  # fmt: skip
@click.option(
    "--models", type=click.Path(path_type=pathlib.Path, file_okay=False),
    help="Folder to put the models into (default: those of this installation; with --scale, WORK/models).",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Another seed makes another family.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--processes", type=click.IntRange(1), help="Steps side by side (default: 2, or 1 on a single core).")
@click.option("--again", is_flag=True, help="Train the target's steps anew, even those that are finished.")
@click.option(
    "--scale", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True,
    help="Share of the training to do, for a quick look.",
)  # fmt: skip
def train(
    target: str,
    work: pathlib.Path,
    models: pathlib.Path | None,
    seed: int,
    device: str,
    processes: int | None,
    again: bool,
    scale: float,
) -> None:
    from rich.console import Console

    from agents.lab.training.board import Board
    from agents.lab.training.crew import Places
    from agents.lab.training.ledger import Ledger
    from agents.lab.training.session import run
    from streams.shipped import MODELS

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    at_once = processes or min(SIDE_BY_SIDE, cores)
    places = Places(processes=at_once, threads=max(1, cores // at_once), device=device)
    folders = Folders(work=work, models=models or (MODELS if scale == 1 else work / "models"))
    with Board(Console(), scale) as board:
        run(target, Ledger(folders, seed, scale), places, board, again=again)
    click.echo(f"{target}: trained; models are in {folders.models}, parts and logs in {folders.work}")
