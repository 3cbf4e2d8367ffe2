"""The papers' made workloads that only studies use: phases of easy and of hard prompts, and sparse combinations."""

import dataclasses
from typing import Final

import numpy as np

from replay.bench.traces.combinations import combined
from replay.simulation.draws.chance import uniform
from replay.traces.rates import POISSON, Knot, along
from replay.traces.trace import Trace, of_arrivals

EASY, HARD = "easy", "hard"
PHASES: Final = (EASY, HARD, EASY, HARD)  # of equal length
SPLIT: Final = 0.5  # hardness below which a prompt is easy


def phased(seconds: float, seed: int, rate_rps: float = 2.0) -> Trace:
    """Return a trace of one rate whose prompts are easy and hard in turn; hardness is drawn, uniform in a half.

    Source: HADIS 4.7, where demand stands still while the phases change; its rate is not given.
    """
    trace = _level("phases", rate_rps, seconds, POISSON, seed)
    phase = np.minimum(trace.arrival_ms / (1000 * seconds) * len(PHASES), len(PHASES) - 1).astype(np.int64)
    is_hard = np.array([name == HARD for name in PHASES])[phase]
    dice = uniform(seed, "phases", 0, len(trace))
    return dataclasses.replace(trace, hardness=np.where(is_hard, SPLIT + dice * (1 - SPLIT), dice * SPLIT))


def sparse(seconds: float, seed: int, rate_rps: float, spacing: str = POISSON) -> Trace:
    """Return a trace of one rate of requests for components. Source: MLoRA 5.3; it gives no rate of a GPU."""
    return combined(_level("combinations", rate_rps, seconds, spacing, seed), seed)


def _level(name: str, rate_rps: float, seconds: float, spacing: str, seed: int) -> Trace:
    times_ms = along([Knot(0, rate_rps), Knot(seconds, rate_rps)], spacing, seed)
    return of_arrivals(times_ms, name, f"made: {rate_rps:g} a second for {seconds:g} s, {spacing}, seed {seed}")
