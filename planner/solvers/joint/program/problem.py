"""The joint problem as one value: who asks, ways to serve, what workers carry, what is in force. Arrays and counts.

Indices: c bands (or classes) of requests, o options, g gates, l or v levels: each is served by the variant of its name.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from planner.control.renewal.replan import HOLD_S

SHED = 1000.0  # what a shed request costs, in spans of quality: no quality is worth a request
SPENT = 1e-6  # below it a share is rounding
BUSY = 1e-3  # cost of keeping all workers busy, in spans of quality: of equal plans the cheaper one wins


class Gate(NamedTuple):
    """The rule for a level's images: all are kept, or they are judged and some escalated. One a level is in force."""

    level: int
    next_level: int = -1  # -1: all are kept
    discriminator: str = ""
    threshold: float = 0.0
    refine_from_step: int = 0
    extra_s: float = 0.0  # judging, hops and stores on the way of a request that goes all the way


class Option(NamedTuple):
    """A way to serve a request: first to the gate's level, but hard prompts straight to another."""

    gate: int
    straight_to: int = -1  # level; -1: all prompts go to the gate's
    hardness: float = 1.0  # from here on straight
    reuse_step: int = 0  # of the gate's level: up to it a stored latent may save its steps; 0: begun from noise


class Line(NamedTuple):
    """The capacity of `least` .. `most` workers: slope * workers - lost images a second, in calls of `batch`."""

    least: int
    most: int
    slope: float
    lost: float
    batch: int


class Mode(NamedTuple):
    """A variant's latency target, its max time for an image with its wait, and its capacity under it."""

    sojourn_s: float
    lines: tuple[Line, ...]
    has_draft: bool = False  # only for escalated images, whose draft is kept if they would wait longer

    @property
    def first_s(self) -> float:
        """The latency target of requests that have no draft yet, in s."""
        return math.inf if self.has_draft else self.sojourn_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """All that `joint` decides on. Asserts that the parts fit each other."""

    levels: tuple[str, ...]
    shares: np.ndarray  # [C] of demand, sum to 1
    shed_weights: np.ndarray  # [C] >= 0, how much a shed request of the band counts: its tier
    gates: tuple[Gate, ...]
    options: tuple[Option, ...]
    load: np.ndarray  # [O, C, V] images generated per request, in calls without a draft
    quality: np.ndarray  # [O, C] of the answer, any scale, higher is better
    modes: tuple[tuple[Mode, ...], ...]  # per variant, by latency target
    demand_rps: float  # requests a second
    slo_s: float  # max time of a request's whole path
    workers: int
    before: tuple[int, ...]  # workers per variant of the plan in force
    switch_s: tuple[float, ...]  # per variant: seconds that a worker is away before it serves it
    hold_s: float = HOLD_S  # how long a plan is expected to hold
    least: float = field(init=False)  # quality of the worst option on the Pareto front
    unit: float = field(init=False)  # of quality: the span of the front
    merit: np.ndarray = field(init=False)  # [O, C] quality above the worst of the front, in units
    seconds: np.ndarray = field(init=False)  # [V] least worker-seconds of an image; inf if it can serve none
    possible: np.ndarray = field(init=False)  # [O] whether workers can serve all images of an option

    def __post_init__(self) -> None:
        n_options, n_bands, n_variants = len(self.options), len(self.shares), len(self.levels)
        assert self.load.shape == (n_options, n_bands, n_variants), self.load.shape
        assert self.quality.shape == (n_options, n_bands), self.quality.shape
        assert len(self.modes) == len(self.before) == len(self.switch_s) == n_variants, "one entry a variant"
        assert np.isfinite(self.quality).all(), self.quality
        assert (self.load >= 0).all(), "no negative work"
        object.__setattr__(self, "seconds", self._seconds())
        object.__setattr__(self, "possible", ~(self.load[:, :, ~np.isfinite(self.seconds)] > 0).any(axis=(1, 2)))
        self._rate()

    def _seconds(self) -> np.ndarray:
        best = [max((line.slope for mode in modes for line in mode.lines), default=0.0) for modes in self.modes]
        return np.array([1 / rate if rate > 0 else np.inf for rate in best])

    def _rate(self) -> None:
        low, high = self._reachable()
        object.__setattr__(self, "least", low)
        object.__setattr__(self, "unit", high - low if high > low else 1.0)
        object.__setattr__(self, "merit", (self.quality - low) / self.unit)

    def _reachable(self) -> tuple[float, float]:
        """Return the worst and the best mean quality on the Pareto front of work and quality.

        So a dominated option changes no plan.
        """
        options = np.flatnonzero(self.possible)
        if not len(options):
            return 0.0, 0.0
        quality = self.quality[options] @ self.shares
        work = self.load[options] @ np.where(np.isfinite(self.seconds), self.seconds, 0.0) @ self.shares
        order = np.lexsort((-quality, work))
        best = np.maximum.accumulate(quality[order])
        return float(best[0]), float(best[-1])

    def without_refining(self, step: int) -> "Problem":
        """Return the problem without the options that refine from this step of a draft."""
        kept = [g for g, gate in enumerate(self.gates) if gate.next_level < 0 or gate.refine_from_step != step]
        options = [o for o, option in enumerate(self.options) if option.gate in kept]
        return replace(
            self,
            gates=tuple(self.gates[g] for g in kept),
            options=tuple(self.options[o]._replace(gate=kept.index(self.options[o].gate)) for o in options),
            load=self.load[options],
            quality=self.quality[options],
        )

    def levels_of(self, gate: Gate) -> tuple[int, ...]:
        """The levels that a gate's requests may go through."""
        return (gate.level,) if gate.next_level < 0 else (gate.level, gate.next_level)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """A solution. Shares are of a band's requests."""

    given: np.ndarray  # [C, O] share of a band served by an option
    shed: np.ndarray  # [C] share of a band that is not served
    counts: tuple[int, ...]  # workers per variant
    lines: tuple[Line | None, ...]  # per variant, its workers' capacity; None if no worker serves it
    sojourns_s: tuple[float, ...]  # per variant, its latency target
    gates: tuple[int, ...]  # in force, one a level at most
    trouble: str = ""  # the solver's failure, after which a better solution may exist; for operators


class Running(NamedTuple):
    """A variant with workers."""

    workers: int
    line: Line
    sojourn_s: float


def solution_of(
    problem: Problem,
    given: np.ndarray,
    shed: np.ndarray,
    running: Mapping[int, Running],
    trouble: str = "",
) -> Solution:
    """What a solver's shares ([C, O], [C]) and workers come to: without rounding, with the gates that are used."""
    given, shed = np.where(given > SPENT, given, 0.0), np.where(shed > SPENT, shed, 0.0)
    total = given.sum(axis=1) + shed
    each = [running.get(v) for v in range(len(problem.levels))]
    return Solution(
        given=given / total[:, None],
        shed=shed / total,
        counts=tuple(one.workers if one else 0 for one in each),
        lines=tuple(one.line if one else None for one in each),
        sojourns_s=tuple(one.sojourn_s if one else 0.0 for one in each),
        gates=tuple(sorted({problem.options[o].gate for o in np.flatnonzero(given.any(axis=0))})),
        trouble=trouble,
    )


class Score(NamedTuple):
    """A solution's worth, in the order in which it counts."""

    shed: float  # weighted share of requests that nothing serves
    quality: float  # merit per request
    busy: float  # share of all workers kept busy
    away: float  # share of the workers' time, while the plan holds, that goes into switching

    @property
    def value(self) -> float:
        """The objective: higher is better."""
        return self.quality - SHED * self.shed - BUSY * self.busy - self.away


def score(problem: Problem, solution: Solution) -> Score:
    """Return the score of a solution of any solver."""
    per_request = problem.shares[:, None] * solution.given  # [C, O]
    images = np.einsum("co,ocv->v", per_request, problem.load)
    staff = max(problem.workers, 1)
    seconds = np.where(images > 0, problem.seconds, 0.0)
    moved = [max(0, n - was) for n, was in zip(solution.counts, problem.before, strict=True)]
    away_s = sum(count * switch_s for count, switch_s in zip(moved, problem.switch_s, strict=True))
    return Score(
        shed=float(problem.shares * problem.shed_weights @ solution.shed),
        quality=float((per_request * problem.merit.T).sum()),
        busy=problem.demand_rps * float(images @ seconds) / staff,
        away=away_s / (staff * problem.hold_s),
    )


class Objective(NamedTuple):
    """The objective of a linear or integer program: the terms of `Score.value` for one of each unknown."""

    given: np.ndarray  # [O, C] all requests of a band served by an option, less the price of the work
    shed: np.ndarray  # [C] all requests of a band that nothing serves
    came: np.ndarray  # [V] a worker more than in the plan in force


def objective(problem: Problem) -> Objective:
    """The terms."""
    staff = max(problem.workers, 1)
    seconds = np.where(np.isfinite(problem.seconds), problem.seconds, 0.0)
    busy = problem.demand_rps * problem.shares * (problem.load @ seconds) / staff
    return Objective(
        given=problem.shares * problem.merit - BUSY * busy,
        shed=-SHED * problem.shares * problem.shed_weights,
        came=-np.array(problem.switch_s) / (staff * problem.hold_s),
    )
