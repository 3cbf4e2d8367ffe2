"""Plans kept for the range of demand they were made for, in place of solving anew. Source: HADIS 4.5, its baselines.

Cache-D looks a plan up by the range of demand, Cache-D+Q by that and the range of what waits; a hit is applied,
a miss solves and is kept. The paper gives no ranges: here each is a fifth wider than the one before, and twice as long.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from planner.catalog.parse import Pair
from planner.observation.observation import Observation
from planner.solvers.two_stage.problem import Answer, latencies
from planner.solvers.two_stage.solve import Offer, PairPlan

DEMAND_STEP = 1.2  # a range of demand is this much wider than the one before
MOST = 256  # plans kept; one more and all are forgotten

Kept = dict[str, list[Any]]  # key -> light, heavy, step, row, its threshold and hardness, workers, batches


def key_of(seen: Observation, with_queues: bool) -> str:
    """The ranges an observation lies in. A plan is for as many workers as there are, so their number is part of it."""
    demand = math.floor(math.log(seen.planning_rps, DEMAND_STEP)) if seen.planning_rps > 0 else "none"
    waiting = math.floor(math.log2(1 + sum(queue.waiting for queue in seen.queues)))
    return f"{len(seen.workers)} workers, demand {demand}" + (f", queue {waiting}" if with_queues else "")


def recalled(offers: Sequence[Offer], kept: Mapping[str, Any], key: str) -> PairPlan | None:
    """The plan kept under a key, fit or not for the demand of today; None where the catalog no longer has it."""
    if key not in kept:
        return None
    *way, at, threshold, hardness, x1, x2, b1, b2 = kept[key]
    offer = next((offer for offer in offers if _way(offer.pair) == way), None)
    if offer is None or at >= len(offer.problem.rows):
        return None
    problem, row = offer.problem, offer.problem.rows[at]
    sizes = [b for b, _ in problem.light.run_ms], [b for b, _ in problem.heavy.run_ms]
    if (row.threshold, row.hardness) != (threshold, hardness) or b1 not in sizes[0] or b2 not in sizes[1]:
        return None
    light_load = problem.demand_rps * row.light / problem.light.throughput_rps(b1) / max(1, x1)
    heavy_load = problem.demand_rps * problem.work(row) / problem.heavy.throughput_rps(b2) / max(1, x2)
    latency_ms = float(latencies(problem)[at, sizes[0].index(b1), sizes[1].index(b2)])
    is_feasible = max(light_load, heavy_load) <= 1 and latency_ms <= problem.slo_ms
    return PairPlan(*offer, Answer(row, (x1, x2), (b1, b2), (light_load, heavy_load), latency_ms), is_feasible)


def with_plan(kept: Mapping[str, Any], key: str, plan: PairPlan) -> Kept:
    """What is kept from now on; a plan for want of any that fits is not."""
    if not plan.is_feasible:
        return dict(kept)
    row, answer = plan.answer.row, plan.answer
    made = [*_way(plan.pair), plan.problem.rows.index(row), row.threshold, row.hardness]
    return (dict(kept) if len(kept) < MOST else {}) | {key: [*made, *answer.workers, *answer.batches]}


def _way(pair: Pair) -> list[Any]:
    return [pair.light, pair.heavy, pair.paint_over_step]
