"""From a pair of levels and what is seen of them to a `Problem`, and to the plan that it allows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planner.catalog.parse import Catalog, Pair, run_ms
from planner.observation.observation import Observation, queue_wait_ms
from planner.solvers.two_stage.enumeration import best_row, solve
from planner.solvers.two_stage.problem import Answer, Problem, Row, Stage, stage

MOVE_COST = 0.02  # of utilisation: among plans of one score, what a worker's change of level must gain


@dataclass(frozen=True, slots=True)
class Setup:
    """What a policy's parameters say of every pair."""

    overprovision: float
    hop_ms: float = 0.0  # between light's picture and heavy's job, beside the discriminator
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


def planned(offers: Sequence[Offer], seen: Observation) -> PairPlan:
    """The plan of the highest score of all pairs, of equals the least busy; else the most that one can do."""
    rows = [best_row(offer.problem) for offer in offers]
    score = max((row.score for row in rows if row), default=-math.inf)
    best = [offer for offer, row in zip(offers, rows, strict=True) if row and row.score == score]
    plans = [_solved(offer, seen) for offer in best]
    if plans:
        return min(plans, key=lambda plan: max(plan.answer.loads))
    return max((overloaded(offer) for offer in offers), key=carried_rps)


def carried_rps(plan: PairPlan) -> float:
    """Requests a second that the light workers paint; without a worker, what one would."""
    if not plan.problem.light.run_ms:
        return 0.0
    return max(1, plan.problem.workers) * plan.problem.light.throughput_rps(plan.answer.batches[0])


def problem_of(pair: Pair, rows: Sequence[Row], seen: Observation, catalog: Catalog, setup: Setup) -> Problem:
    """The pair's problem at the demand planned for and the SLO seen; without an SLO latency has no limit."""
    judging_ms, heavy = catalog.discriminator(pair.discriminator).latency_ms + setup.hop_ms, catalog.level(pair.heavy)
    return Problem(
        light=_stage(pair.light, seen, catalog, setup),
        heavy=_stage(pair.heavy, seen, catalog, setup),
        rows=tuple(rows),
        demand_rps=setup.overprovision * seen.planning_rps,
        workers=len(seen.workers),
        slo_ms=seen.slo_ms if seen.slo_ms > 0 else math.inf,
        judging_ms=judging_ms,
        over=run_ms(heavy, 1, pair.paint_over_step) / run_ms(heavy, 1),
    )


def _stage(name: str, seen: Observation, catalog: Catalog, setup: Setup) -> Stage:
    variant = catalog.level(name)
    sizes = [setup.batches[name]] if setup.batches is not None else sorted(variant.latency_ms)
    times = {size: run_ms(variant, size) for size in sizes}
    if setup.queue_factor >= 0:
        return stage(name, times, wait_runs=setup.queue_factor)
    return stage(name, times, setup.queue_safety * queue_wait_ms(seen, name))


def _solved(offer: Offer, seen: Observation) -> PairPlan:
    homes = [worker.home for worker in seen.workers]
    at_home = homes.count(offer.pair.light), homes.count(offer.pair.heavy)
    answer = solve(offer.problem, at_home, MOVE_COST)
    assert answer, f"a row fits {offer.pair}, but no split does"
    return PairPlan(*offer, answer, is_feasible=True)


def overloaded(offer: Offer) -> PairPlan:
    """All workers on light and nothing painted again: the most that the pair can do where no row fits.

    The batch is that of the highest throughput of those within the SLO; where the queue alone breaks it, of all, to
    work the queue off; where one picture alone does, 1.
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
