"""`nirvana`: the large model everywhere, past images by similarity, deaf to the load."""

import pytest

from planner.control.plans import publish
from planner.control.validity import check
from planner.policies.nirvana import plan
from tests.builders import an_observation
from tests.planner.solvers.levels.builders import a_ladder, a_reuse_ladder


@pytest.mark.parametrize("n_workers", [0, 1, 7])
@pytest.mark.parametrize("catalog", [a_ladder(), a_reuse_ladder()], ids=["models", "reuse"])
def test_any_fleet_gets_a_valid_plan_that_the_demand_does_not_change(n_workers: int, catalog: object) -> None:
    quiet, busy = (plan(an_observation(n_workers, demand_rps=d), catalog, {}, {}) for d in (0, 1e5))
    check(publish(busy, None, "nirvana", 0), catalog)
    assert quiet.routes == busy.routes
    assert quiet.allocation == busy.allocation
    assert set(busy.allocation.values()) <= {"heavy"}


@pytest.mark.parametrize(
    ("similar", "levels"),
    [
        (0, {"heavy": 1.0}),
        (0.5, {"heavy": 0.5, "heavy~k10": 0.25, "heavy~k20": 0.25}),
        (1, {"heavy~k10": 0.5, "heavy~k20": 0.5}),
    ],
)
def test_similar_prompts_are_spread_over_the_reuse_steps(similar: float, levels: dict[str, float]) -> None:
    draft = plan(an_observation(4), a_reuse_ladder(), {}, {"similar_share": similar})
    assert draft.strategy == "reuse"
    assert draft.routes[0].levels == levels


def test_reuse_saves_work_and_a_catalog_without_it_is_generated_from_noise() -> None:
    blank, begun = (plan(an_observation(4, demand_rps=10), c, {}, {}) for c in (a_ladder(), a_reuse_ladder()))
    assert blank.strategy == "models"
    assert "begun from noise" in blank.reason
    assert blank.expected.utilization == pytest.approx(10 * 0.2 / 4)
    assert begun.expected.utilization == pytest.approx(10 * 0.2 * (0.5 + 0.25 * 0.6 + 0.25 * 0.2) / 4)
