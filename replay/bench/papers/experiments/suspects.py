"""Deviations that several experiments suspect. Those of a policy are in the table of planner/policies/README.md."""

import dataclasses
from collections.abc import Callable

from replay.bench.papers.experiments.experiment import Suspect
from replay.bench.papers.runs.cells import Cell, with_parameters


def changed(**fields: object) -> Callable[[Cell], Cell]:
    """Return the change of a cell that sets these fields."""
    return lambda cell: dataclasses.replace(cell, **fields)  # type: ignore[arg-type]


def given(policy: str, **parameters: float) -> Callable[[Cell], Cell]:
    """Return the change that sets parameters where this policy plans."""
    return lambda cell: with_parameters(cell, parameters) if cell.policy == policy else cell


def together(*suspects: Suspect) -> Suspect:
    """Return the suspect of all of these at once."""

    def change(cell: Cell) -> Cell:
        for suspect in suspects:
            cell = suspect.change(cell)
        return cell

    causes, switches = ([getattr(each, field) for each in suspects] for field in ("cause", "switch"))
    return Suspect("both: " + ", and ".join(causes), ", ".join(switches), change)


RANDOM_PUSH = Suspect(
    "jobs go to a worker drawn by chance, as in the papers' code, and not to the one with the least work",
    "simulate --dispatch random",
    changed(dispatch="random"),
)
FREE_LOADS = Suspect(
    "changing variant takes no time, as with all models in memory", "simulate --no-load", changed(loads=False)
)
BESIDE = Suspect(
    "a model loads beside serving, as in ARGUS 4.6, and does not block its worker (calls take 1.1 times as long)",
    "Residency(models=2, beside_factor=1.1)",
    changed(beside=1.1),
)
TREND = Suspect(
    "demand is forecast with a margin for bursts, not by a moving average",
    "planner.forecast=trend",
    changed(forecast="trend"),
)
NO_HOP_LATENCY = Suspect(
    "nothing takes time between processes, as in the papers' simulations", "simulate --no-hops", changed(hops=False)
)
