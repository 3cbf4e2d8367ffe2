"""`pochade train TARGET`: train the tiny family and its learned parts, all of them or one."""

import os
import pathlib

import click

from agents.lab.training.plan import ABOUT, STEPS, TARGETS, Folders
from agents.lab.training.schedule import wall_minutes
from streams.commands.options import FOLDER, Number

SIDE_BY_SIDE = 2  # processes on two cores: measured faster than one with two threads


def _table() -> str:
    rows = [
        f"  {name:<14}{round(wall_minutes(name, SIDE_BY_SIDE)):>4} min  {ABOUT.get(name, '')}".rstrip()
        for name in TARGETS
    ]
    singles = ", ".join(name for name in STEPS if name not in TARGETS)
    return "\n".join([*rows, "", f"  Single steps: {singles}."])


HELP = f"""Train TARGET from scratch, in steps that can be interrupted and resumed.

What a step needs is taken from the work folder, else from the models that ship, else it is trained first. Finished
steps are skipped. The minutes below were measured on two CPU cores, with two steps side by side:

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
    "--work",
    type=FOLDER,
    default="build/models",
    show_default=True,
    help="Folder for checkpoints, logs and parts of models.",
)
@click.option(
    "--models",
    type=FOLDER,
    help="Folder to write finished models to (default: the models of this installation; with --scale, WORK/models).",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random seed of the training; another seed gives another family of models.",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Device to train on; auto takes CUDA where there is one.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    help="Number of training steps that run side by side (default: 2, or 1 on a single core).",
)
@click.option("--again", is_flag=True, help="Train every step of the target again, finished ones too.")
@click.option(
    "--scale",
    type=Number(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Share of the training to do, above 0 and up to 1; a small share only tests that training works.",
)
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

    from agents.lab.training.ledger import Ledger
    from agents.lab.training.progress import ProgressDisplay
    from agents.lab.training.runner import Resources
    from agents.lab.training.session import run
    from streams.shipped import MODELS

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    at_once = processes or min(SIDE_BY_SIDE, cores)
    resources = Resources(processes=at_once, threads=max(1, cores // at_once), device=device)
    folders = Folders(work=work, models=models or (MODELS if scale == 1 else work / "models"))
    with ProgressDisplay(Console(), scale) as display:
        run(target, Ledger(folders, seed, scale), resources, display, again=again)
    click.echo(f"{target}: trained; models are in {folders.models}, parts and logs in {folders.work}")
