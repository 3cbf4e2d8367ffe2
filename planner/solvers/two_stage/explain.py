"""What keeps a two-stage plan from being better, in words for operators."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.catalog.model import Pair
from planner.control.wording.format import counted, number, rate
from planner.solvers.two_stage.problem import Problem, Row
from planner.solvers.two_stage.solve import Offer, PairPlan, best_row, light_capacity_rps

DescribeThresholds = Callable[[Pair, Row], str]  # a row's thresholds in words


def reason(plan: PairPlan, offers: Sequence[Offer], planning_rps: float, describe: DescribeThresholds) -> str:
    """Describe the plan's binding constraints, or what could not be met; "" without a worker.

    `offers`: the plan's own and those it was chosen from.
    """
    if not plan.problem.workers:
        return ""
    return _bound(plan, offers, describe) if plan.is_feasible else _unmet(plan, planning_rps)


def shed_share(plan: PairPlan, planning_rps: float) -> float:
    """Return the share of requests that is rejected as even all workers cannot generate it, over-provisioning apart."""
    if plan.is_feasible or not planning_rps > 0:
        return 0.0
    return max(0.0, 1 - light_capacity_rps(plan) / planning_rps)


def _bound(plan: PairPlan, offers: Sequence[Offer], describe: DescribeThresholds) -> str:
    problem, score = plan.problem, plan.answer.row.score
    if score >= max(row.score for offer in offers for row in offer.problem.rows):
        return "no limit is reached"
    light, heavy = (f"{load:.0%}" for load in plan.answer.loads)
    busy = f"{plan.pair.light} is {light} busy, {plan.pair.heavy} {heavy}"
    gains: list[tuple[str, Callable[[Problem], Problem]]] = [
        (f"one more worker would allow {{}} ({busy})", lambda p: replace(p, workers=p.workers + 1)),
        (
            f"without the SLO of {number(problem.slo_ms / 1000)} s there would be {{}}",
            lambda p: replace(p, slo_ms=math.inf),
        ),
    ]
    better = {what: _best(offers, relaxed, score) for what, relaxed in gains}
    binding = [what.format(describe(*found)) for what, found in better.items() if found]
    return ", and ".join(binding) or f"the number of workers is the limit ({busy})"


def _best(offers: Sequence[Offer], relaxed: Callable[[Problem], Problem], score: float) -> tuple[Pair, Row] | None:
    """The best row above a score that then fits, and its pair; of equal ones the first."""
    found: tuple[Pair, Row] | None = None
    for pair, problem in offers:
        above = tuple(row for row in problem.rows if row.score > (found[1].score if found else score))
        if above and (row := best_row(relaxed(replace(problem, rows=above)))):
            found = pair, row
    return found


def _unmet(plan: PairPlan, planning_rps: float) -> str:
    problem, answer, slo = plan.problem, plan.answer, f"the SLO of {number(plan.problem.slo_ms / 1000)} s"
    where, verb = f"all requests go to {plan.pair.light}", "generates" if problem.workers == 1 else "generate"
    carried = f"where {counted(problem.workers, 'worker')} {verb} {rate(light_capacity_rps(plan), 'images')}"
    shed = shed_share(plan, planning_rps)
    if shed > 0:
        return f"{where}, {carried}: {shed:.1%} of the requests are shed"
    if answer.latency_ms > problem.slo_ms:
        wait = f", {problem.light.wait_ms:.0f} of it in the queue" if problem.light.wait_ms else ""
        return f"{where}, where an image takes {answer.latency_ms:.0f} ms{wait}, beyond {slo}"
    return f"{where}, {carried}, fewer than the {rate(problem.demand_rps, 'requests')} that are planned for"
