"""The times at which a live planner looked at the pipeline: by its plans where they show it, else drawn.

What it forecasts near the border between two plans falls on either side by the moment at which it looks, so that a
simulation must look when the live planner did, or say how much hangs on it. A plan shows the moment that it was made
for, and when it was written. A look that changed nothing left no trace, but follows from the one before: the planner
asks five times a second whether its period is over, and while it solves it does not ask.

    look ...... solving, s ...... asks, asks, asks ... asks: the period is over, look
    |<------------------- period_ms ------------->|<- over ->|      over = s + n TICK_MS - period_ms, the least >= 0
"""

import itertools
from collections.abc import Sequence

import numpy as np

from replay.simulation.draws.chance import uniform
from replay.simulation.draws.hop_latencies import Slots, sample
from replay.simulation.setup import PlanningTime

TICK_MS = 202.0  # from one question to the next: 200 (agents/planner/loop.py), and what asking takes (measured)
SOLVES_MS = (25.0, 200.0)  # where the time of planning was not measured
TRIES = 256  # ways in which what is unknown between two plans may have come about, of which the likeliest is taken


def planning_times(
    plans: Sequence[PlanningTime], takes: Slots, period_ms: float, until_ms: float, seed: int
) -> tuple[PlanningTime, ...]:
    """The looks as periods ended, after the first plan and up to a moment; the seed is of what is unknown.

    `plans`: those that made the live plans, in order, in ms of the trace. `takes`: what looking takes, as measured of
    plans. A plan that came before its period was over was called for by something else, which the simulation must find
    by itself.
    """
    if not plans:
        return ()
    looks: list[PlanningTime] = []
    for number, (before, after) in enumerate(itertools.pairwise(plans)):
        count = int((after.at_ms - before.at_ms) // period_ms)
        if count:
            ways = _ways(before, count, takes, period_ms, f"looks-{number}", seed)
            looks += [*(PlanningTime(at_ms) for at_ms in _likeliest(ways, after.at_ms)[:-1]), after]
    count = max(1, int((until_ms - plans[-1].at_ms) // period_ms))
    last = _ways(plans[-1], count, takes, period_ms, "looks", seed, tries=1)[0].tolist()
    return tuple(look for look in (*looks, *map(PlanningTime, last)) if look.at_ms <= until_ms)


def over_ms(solving_ms: np.ndarray, period_ms: float) -> np.ndarray:
    """Return by how many ms a period is longer than asked for, after planning that took so long."""
    ticks = np.maximum(1, np.ceil((period_ms - solving_ms) / TICK_MS))
    return np.asarray(solving_ms + ticks * TICK_MS - period_ms)


def _ways(
    first: PlanningTime, count: int, takes: Slots, period_ms: float, salt: str, seed: int, tries: int = TRIES
) -> np.ndarray:
    """[tries, count] ends of the periods after a plan, one way a row."""
    ranks = uniform(seed, salt, 0, tries * count)
    solving_ms = _solving(takes, ranks).reshape(tries, count)
    if first.takes_ms is not None:
        solving_ms[:, 0] = first.takes_ms
    return np.asarray(first.at_ms + np.cumsum(period_ms + over_ms(solving_ms, period_ms), axis=1))


def _solving(takes: Slots, ranks: np.ndarray) -> np.ndarray:
    if not takes:
        return np.asarray(np.interp(ranks, (0, 1), SOLVES_MS))
    return np.asarray(np.mean([sample(each, ranks) for each in takes], axis=0))


def _likeliest(ways: np.ndarray, after_ms: float) -> list[float]:
    """The way that comes nearest to the plan that is known to follow; what it misses it by is spread over its looks."""
    missed = after_ms - ways[:, -1]
    best = int(np.argmin(np.abs(missed)))
    count = ways.shape[1]
    found: list[float] = (ways[best] + missed[best] * np.arange(1, count + 1) / count).tolist()
    return found
