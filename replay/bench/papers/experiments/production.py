"""Experiments of two reports from production: OctoAI's operators, and MLoRA's study at Alibaba."""

import dataclasses
from typing import Final

from replay.bench.papers.cells import Cell
from replay.bench.papers.claims import P99, VIOLATIONS, Claim
from replay.bench.papers.experiments.experiment import Check, Experiment, Runs, Suspect
from replay.bench.papers.experiments.suspects import changed
from replay.bench.papers.names import DIFFSERVE, HEAVY

OCTOAI, MLORA = "OctoAI", "MLoRA"
DISPATCHES: Final = ("pull", "least-work", "round-robin", "random")  # its answer, ours, and what it left
PULL, LEAST, ROBIN, CHANCE = DISPATCHES
LOADS: Final = (0.6, 0.9)  # of eight workers that generate one image in 4.2 s
IMAGE_S, WORKERS = 4.2, 8

UNLIKE = Suspect(
    "all images take the same time here, and OctoAI's differ in steps and size: run times vary by half",
    "simulate --run-cv 0.5",
    changed(run_cv=0.5),
)


def bases() -> dict[str, Cell]:
    """Return what is dispatched: one model at two loads, and a cascade."""
    one = Cell(catalog="argus-a100", trace="", policy=HEAVY, slo_s=60, workers=WORKERS, parameters=(("batch", 1),))
    rates = {load: load * WORKERS / IMAGE_S for load in LOADS}
    cells = {
        f"one model, {load:.0%} busy": dataclasses.replace(one, trace=f"constant-{rate:.3f}")
        for load, rate in rates.items()
    }
    cascade = Cell(catalog="diffserve-sdturbo", trace="azure-4to32", policy=DIFFSERVE, slo_s=5)
    return cells | {"a cascade, 4 to 32 a second": cascade}


def dispatch_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of request routing: each base under four ways of dispatch."""
    del is_quick
    return {
        f"{what}/{how}": dataclasses.replace(base, dispatch=how) for what, base in bases().items() for how in DISPATCHES
    }


def _routing(runs: Runs) -> list[Check]:
    _, busy, cascade = bases()
    said = 'push adds latency, "especially at p-90 and above"'
    return [
        Claim("pulling has a shorter p99 than a random push", said, runs[f"{busy}/{PULL}"], runs[f"{busy}/{CHANCE}"],
              P99),
        Claim("pulling has a shorter p99 than round robin", said, runs[f"{busy}/{PULL}"], runs[f"{busy}/{ROBIN}"], P99),
        Claim("in a cascade pulling violates less than a random push", said, runs[f"{cascade}/{PULL}"],
              runs[f"{cascade}/{CHANCE}"], VIOLATIONS),
        Claim("in a cascade pulling violates less than round robin", said, runs[f"{cascade}/{PULL}"],
              runs[f"{cascade}/{ROBIN}"], VIOLATIONS),
    ]  # fmt: skip


EXPERIMENTS: Final = (
    Experiment(paper=OCTOAI, where="request routing", about="pull against push", cells=dispatch_cells, checks=_routing,
               suspects=(UNLIKE,)),
    Experiment(paper=OCTOAI, where="scaling, cold starts", about="replicas doubled by logical utilisation",
               why_not="the simulated fleet has a fixed number of workers, and the text no figures but minutes"),
    Experiment(paper=MLORA, where="section 3", about="how skewed models and adapters are asked for",
               why_not="a statistic of its own trace: nothing is decided or simulated"),
    Experiment(paper=MLORA, where="Figs. 10-13", about="caches of components, in one comparison in production",
               why_not="no worker here holds components of several models in tiers of memory"),
)  # fmt: skip
