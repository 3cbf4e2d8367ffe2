"""Exploration: every served level is drawn now and then, and nothing else changes."""

from dataclasses import replace

import pytest

from planner.analysis.off_policy import estimate
from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.propose import with_exploration
from planner.control.validity import check
from schemas.messages import Route
from tests.builders import NOW_MS, a_catalog, a_plan
from tests.planner.analysis.test_off_policy import halves, history

ALL_LIGHT = PlanProposal(
    reason="test",
    batch={},
    routes=(Route(levels={"light": 1.0}, hardness_to=0.5), Route(levels={"heavy": 1.0}, hardness_from=0.5)),
    allocation={"w-1": "light", "w-2": "heavy"},
)


def test_every_served_level_is_drawn_in_every_route() -> None:
    first, second = with_exploration(ALL_LIGHT, 0.1).routes
    assert first.levels == pytest.approx({"light": 0.95, "heavy": 0.05})
    assert second.levels == pytest.approx({"light": 0.05, "heavy": 0.95})
    check(publish(with_exploration(ALL_LIGHT, 0.1), None, "test", NOW_MS), a_catalog())


def test_a_level_without_workers_is_never_explored() -> None:
    (route, _) = with_exploration(replace(ALL_LIGHT, allocation={"w-1": "light"}), 0.2).routes
    assert route.levels == {"light": 1.0}


@pytest.mark.parametrize(
    "proposal", [ALL_LIGHT, PlanProposal(reason="", batch={}, allocation={}, routes=(Route(levels={"light": 1.0}),))]
)
def test_without_a_share_or_workers_nothing_changes(proposal: PlanProposal) -> None:
    assert with_exploration(proposal, 0.0) is proposal
    assert with_exploration(replace(proposal, allocation={}), 0.5).routes == proposal.routes


def test_a_past_that_explored_can_answer_for_another_plan() -> None:
    greedy = PlanProposal(
        reason="", batch={}, routes=(Route(levels={"light": 1.0}),), allocation={"w-1": "light", "w-2": "heavy"}
    )
    explored_plan = a_plan(routes=with_exploration(greedy, 0.2).routes, cascades=())
    found = estimate(history(explored_plan, 4000), halves(0.5), slo_ms=500, seed=1)
    assert found.doubts == ()
    assert found.figures["violations"].low < 0.5 < found.figures["violations"].high
