"""Small changes to a plan, as long as its value grows."""

import math
from collections import Counter

from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from planner.solvers.joint.improve import Valued, _shares, improved
from planner.solvers.joint.value import Model, Outlook, Prices
from schemas.messages import Route
from streams.catalogs import measured

HOMES = {f"w{i:02}": "sd35-large" if i < 11 else "sd35-medium" for i in range(16)}


def a_model(outlook: Outlook) -> Model:
    workers = tuple(WorkerView(worker, home, "ready", 0, 0.0) for worker, home in HOMES.items())
    sight = Observation(now_ms=0, demand_rps=outlook.mean_rps, slo_ms=60_000.0, workers=workers)
    return Model(measured("hadis-l40s"), sight, outlook, Prices(7.0), 60.0)


def a_plan(levels: dict[str, float]) -> PlanProposal:
    route = Route(hardness_from=0.0, hardness_to=1.0, levels=levels)
    return PlanProposal(routes=(route,), allocation=dict(HOMES), batch={}, reason="")


def test_a_plan_that_jumps_would_make_late_gets_a_worker_for_a_level_that_it_has_none_of() -> None:
    """No request is sent there by the plan: the routers send who would be late."""
    model, plan = a_model(Outlook(0.5, jumps=((6.0, 0.2),))), a_plan({"sd35-large": 0.5, "sd35-medium": 0.5})
    begun = Valued(plan, model.evaluate(plan))
    better = improved(model, begun)
    counts = Counter(better.plan.allocation.values())
    assert better.value.total > begun.value.total
    assert counts["sdxl-lightning"] + counts["sd35-turbo"] >= 1
    assert begun.value.late > 0.1
    assert better.value.late < begun.value.late / 5


def test_shares_that_are_moved_stay_shares() -> None:
    """Their sum may be a little more than 1: a plan with such a share was refused."""
    plan = a_plan({"sd35-large": 0.9674428387885393, "sd35-medium": 0.03255716121146091})
    assert math.fsum((0.9674428387885393, 0.03255716121146091)) > 1
    moved = [share for changed in _shares(plan) for share in changed.routes[0].levels.values()]
    assert moved
    assert max(moved) == 1.0
