"""One step of training, in a process of its own: what `pochade train` starts, its lines going to a log."""

import importlib
import os
import sys
import threading
import time
import warnings
from pathlib import Path

import click
import torch
from transformers.utils import logging

from agents.lab.training import loop
from agents.lab.training.ledger import Ledger
from agents.lab.training.plan import STEPS, Folders
from schemas.errors import PochadeError


@click.command(epilog="Example: python -m agents.lab.training.step decoder --work build/models --scale 0.01")
@click.argument("name", type=click.Choice(list(STEPS)))
@click.option("--work", type=click.Path(path_type=Path), required=True)
@click.option("--models", type=click.Path(path_type=Path), required=True)
@click.option("--seed", default=0, show_default=True, help="Another one makes another family.")
@click.option("--scale", default=1.0, show_default=True, help="Share of the steps and images to train for.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--tied", is_flag=True, help="End when standard input ends, as when the parent process has ended.")
def main(name: str, work: Path, models: Path, seed: int, scale: float, device: str, threads: int, tied: bool) -> None:
    """Run one step to its end, going on from its checkpoint if there is one."""
    if tied:
        threading.Thread(target=_end_with_input, daemon=True).start()
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # read at the first question for a device
    elif device == "cuda" and not torch.cuda.is_available():
        raise PochadeError("--device cuda: torch finds no CUDA device here; use cpu or auto")
    torch.set_num_threads(threads)
    warnings.filterwarnings("ignore", category=UserWarning)  # libraries' advice and bars, between the lines of the log
    logging.disable_progress_bar()
    loop.set_scale(scale)
    step, ledger = STEPS[name], Ledger(Folders(work=work, models=models), seed, scale)
    models.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    ledger.begin(step)
    module = importlib.import_module(f"agents.lab.training.{step.module}")
    module.train(work, models, ledger.seed_of(step), **step.arguments)
    ledger.end(step, (time.monotonic() - began) / 60)


def _end_with_input() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock would be held when this process ends by itself
        pass
    os._exit(1)  # nothing to save: checkpoints are written whole, or not at all


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except (PochadeError, click.ClickException) as error:
        print(f"error: {error}", flush=True)
        sys.exit(1)
