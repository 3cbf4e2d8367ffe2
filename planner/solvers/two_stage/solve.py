"""Builds the `Problem` of a pair of levels from an observation, solves it, and makes the proposal.

`solve` looks at every row, pair of batches and split. Of the splits and batches that reach the same score, the one with
the least load on its busier level is taken, then on the other, then the least latency: run times are those of full
batches, and a worker that finds one job begins at once. To put latency first
would leave no room for a burst (planner/policies/SOURCES.md 6.2).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog, Pair
from planner.control.allocation import assign
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation, queue_wait_ms
from planner.solvers.levels.shares import constant
from planner.solvers.two_stage.problem import Answer, Floats, Problem, Row, Stage, latencies, needs, stage
from schemas.messages import Cascade, Expected, Route

MOVE_COST = 0.02  # of utilisation: among plans of one score, what a worker's change of level must gain
NO_DEMAND_RPS = 1e-6  # in place of no demand, so that the split follows the work there would be


@dataclass(frozen=True, slots=True)
class Setup:
    """The parameters of a policy that hold for every pair."""

    overprovision: float
    queue_factor: float = -1.0  # waits are this many run times; below 0: Little's law of the queues seen
    queue_safety: float = 1.0  # alpha of HADIS 3.4: Little's wait times this
    batches: Mapping[str, int] | None = None  # variant -> the one batch size allowed; None: any that was measured


class Offer(NamedTuple):
    """A pair that could be run, with its problem."""

    pair: Pair
    problem: Problem


@dataclass(frozen=True, slots=True)
class PairPlan:
    """A pair with its problem and the answer, or the best that can be done."""

    pair: Pair
    problem: Problem
    answer: Answer
    is_feasible: bool


def problem_of(pair: Pair, rows: Sequence[Row], seen: Observation, catalog: Catalog, setup: Setup) -> Problem:
    """The pair's problem at the demand planned for and the SLO seen; without an SLO latency has no limit."""
    judging_ms = catalog.discriminator(pair.discriminator).judging_ms + (seen.hop_ms or 0.0)
    heavy = catalog.level(pair.heavy)
    return Problem(
        light=_stage(pair.light, seen, catalog, setup),
        heavy=_stage(pair.heavy, seen, catalog, setup),
        rows=tuple(rows),
        demand_rps=setup.overprovision * seen.planning_rps,
        workers=len(seen.workers),
        slo_ms=seen.slo_ms if seen.slo_ms > 0 else math.inf,
        judging_ms=judging_ms,
        over=run_ms(heavy, 1, pair.refine_from_step) / run_ms(heavy, 1),
    )


def _stage(name: str, seen: Observation, catalog: Catalog, setup: Setup) -> Stage:
    variant = catalog.level(name)
    sizes = [setup.batches[name]] if setup.batches is not None else sorted(variant.latency_ms)
    times = {size: run_ms(variant, size) for size in sizes}
    if setup.queue_factor >= 0:
        return stage(name, times, wait_runs=setup.queue_factor)
    return stage(name, times, setup.queue_safety * queue_wait_ms(seen, name))


def planned(offers: Sequence[Offer], seen: Observation) -> PairPlan:
    """The plan of the highest score of all pairs, of equals the least busy; else the most that one can do."""
    rows = [best_row(offer.problem) for offer in offers]
    score = max((row.score for row in rows if row), default=-math.inf)
    best = [offer for offer, row in zip(offers, rows, strict=True) if row and row.score == score]
    plans = [_solved(offer, seen) for offer in best]
    if plans:
        return min(plans, key=lambda plan: max(plan.answer.loads))
    return max((overloaded(offer) for offer in offers), key=light_capacity_rps)


def _solved(offer: Offer, seen: Observation) -> PairPlan:
    homes = [worker.home for worker in seen.workers]
    at_home = homes.count(offer.pair.light), homes.count(offer.pair.heavy)
    answer = solve(offer.problem, at_home, MOVE_COST)
    assert answer, f"a row fits {offer.pair}, but no split does"
    return PairPlan(*offer, answer, is_feasible=True)


def overloaded(offer: Offer) -> PairPlan:
    """Return the plan with all workers on light and no escalation: the most that a pair can do where no row fits.

    The batch is that of the highest throughput of those within the SLO; where the queue alone breaks it, of all, to
    work the queue off; where one image alone does, 1.
    """
    problem, light = offer.problem, offer.problem.light
    alone = {b: light.latency_ms(b) - light.wait_ms + problem.judging_ms for b, _ in light.run_ms}
    within = [b for b in alone if alone[b] + light.wait_ms <= problem.slo_ms]
    bearable = within or [b for b in alone if alone[b] <= problem.slo_ms] or list(alone)[:1]
    batch = max(bearable, key=light.throughput_rps, default=1)
    busy = problem.demand_rps / light.throughput_rps(batch) if light.run_ms else 0.0
    answer = Answer(
        row=next((row for row in problem.rows if row.heavy == 0), Row(-math.inf, 0.0, 0.0)),
        workers=(problem.workers, 0),
        batches=(batch, min((b for b, _ in problem.heavy.run_ms), default=1)),
        loads=(busy / max(1, problem.workers), 0.0),
        latency_ms=light.latency_ms(batch) + problem.judging_ms if light.run_ms else 0.0,
    )
    return PairPlan(*offer, answer, is_feasible=False)


def light_capacity_rps(plan: PairPlan) -> float:
    """Requests a second that the light workers generate; without a worker, what one would."""
    if not plan.problem.light.run_ms:
        return 0.0
    return max(1, plan.problem.workers) * plan.problem.light.throughput_rps(plan.answer.batches[0])


def solve(problem: Problem, at_home: tuple[int, int] = (0, 0), move_cost: float = 0.0) -> Answer | None:
    """The fitting answer of the highest score; None where no row fits, which is an answer too.

    `at_home` workers are on light and heavy already: among equal scores, each that must move counts as `move_cost` of
    utilisation. All workers are used. Exact: every row, pair of batches and split is looked at.
    """
    costed = [_split(problem, fit, at_home, move_cost) for fit in _fits(problem)]
    return min(costed, key=lambda answer: answer[0])[1] if costed else None


def best_row(problem: Problem) -> Row | None:
    """The row of `solve`, at a fraction of its time: the first of the highest score that fits."""
    fits = _fits(problem)
    return fits[0].row if fits else None


class _Fit(NamedTuple):
    """A row and a pair of batches that fit."""

    row: Row
    batches: tuple[int, int]
    least: tuple[int, int]  # workers that light and heavy need
    latency_ms: float


def _fits(problem: Problem) -> list[_Fit]:
    """Return every choice of the highest score that fits."""
    if not (problem.rows and problem.light.run_ms and problem.heavy.run_ms):
        return []
    light, heavy = needs(problem)
    latency = latencies(problem)
    fits = (light[:, :, None] + heavy[:, None, :] <= problem.workers) & (latency <= problem.slo_ms)
    score = np.where(fits.any(axis=(1, 2)), [row.score for row in problem.rows], -np.inf)
    return [
        _Fit(
            problem.rows[row],
            (problem.light.run_ms[b1][0], problem.heavy.run_ms[b2][0]),
            (int(light[row, b1]), int(heavy[row, b2])),
            float(latency[row, b1, b2]),
        )
        for row, b1, b2 in np.argwhere(fits & (score == score.max())[:, None, None]).tolist()
    ]


def _split(problem: Problem, fit: _Fit, at_home: tuple[int, int], move_cost: float) -> tuple[tuple[float, ...], Answer]:
    """The best way to divide all workers, with what orders it among others."""
    ones = _splits(problem, fit.least, at_home)
    twos = problem.workers - ones
    demand = max(problem.demand_rps, NO_DEMAND_RPS)
    light = _load(demand * fit.row.light / problem.light.throughput_rps(fit.batches[0]), ones)
    heavy = _load(demand * problem.work(fit.row) / problem.heavy.throughput_rps(fit.batches[1]), twos)
    moved = np.maximum(0, ones - at_home[0]) + np.maximum(0, twos - at_home[1])
    busier, other = np.maximum(light, heavy) + move_cost * moved, np.minimum(light, heavy)
    best = int(np.lexsort((moved, other, busier))[0])
    workers, loads = (int(ones[best]), int(twos[best])), (float(light[best]), float(heavy[best]))
    order = (float(busier[best]), float(other[best]), fit.latency_ms, float(moved[best]), *fit.batches)
    return order, Answer(fit.row, workers, fit.batches, loads, fit.latency_ms)


def _splits(problem: Problem, least: tuple[int, int], at_home: tuple[int, int]) -> NDArray[np.int64]:
    """Numbers of workers on light to compare. A level that gets no share keeps spare workers for its backlog alone."""
    light, heavy = least
    if light and heavy:
        return np.arange(light, problem.workers - heavy + 1)
    idle, home = (problem.heavy, at_home[1]) if light else (problem.light, at_home[0])
    kept = min(home, problem.workers - light - heavy) if idle.wait_ms > 0 else 0
    return np.array([problem.workers - kept if light else kept])


def _load(busy: float, workers: NDArray[np.int64]) -> Floats:
    """Utilisation of each number of workers; 0 without work."""
    found: Floats = busy / np.maximum(workers, 1) if busy > 0 else np.zeros(len(workers))
    return found


def draft(
    plan: PairPlan, seen: Observation, reason: str, memory: Mapping[str, Any] | None = None, is_random: bool = False
) -> PlanProposal:
    """Return the proposal of a plan. `is_random`: requests go to heavy by chance, whatever the prompt and image."""
    pair, answer, row = plan.pair, plan.answer, plan.answer.row
    cascade = Cascade(
        level=pair.light,
        next_level=pair.heavy,
        discriminator=pair.discriminator,
        threshold=row.threshold if answer.workers[1] else 0.0,
        refine_from_step=pair.refine_from_step,
    )
    planned = seen.planning_rps / plan.problem.demand_rps if plan.problem.demand_rps > 0 else 0.0
    return PlanProposal(
        routes=constant({pair.light: 1 - row.heavy, pair.heavy: row.heavy}) if is_random else _routes(plan),
        cascades=() if is_random else (cascade,),
        allocation=assign({pair.light: answer.workers[0], pair.heavy: answer.workers[1]}, seen.workers),
        batch={pair.light: answer.batches[0], pair.heavy: answer.batches[1]},
        expected=Expected(
            demand_rps=seen.planning_rps,
            utilization=planned * max(answer.loads),
            heavy_share=row.heavy,
            quality=row.quality,
        ),
        reason=reason,
        memory=dict(memory or {}),
        is_feasible=plan.is_feasible,
    )


def _routes(plan: PairPlan) -> tuple[Route, ...]:
    """Return the routes: hard prompts straight to heavy; all to light if no worker serves heavy or none is hard."""
    light, heavy, hardness = {plan.pair.light: 1.0}, {plan.pair.heavy: 1.0}, plan.answer.row.hardness
    if hardness >= 1 or not plan.answer.workers[1]:
        return (Route(levels=light),)
    if hardness <= 0 or not plan.answer.workers[0]:
        return (Route(levels=heavy),)
    return Route(levels=light, hardness_to=hardness), Route(levels=heavy, hardness_from=hardness)
