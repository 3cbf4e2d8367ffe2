"""`sommelier`: each worker looks at itself alone."""

from collections import Counter

import pytest

from planner.control.plans import publish
from planner.control.validity import check
from planner.policies.sommelier import choose, plan
from tests.builders import a_worker, an_observation
from tests.planner.solvers.levels.builders import a_ladder, offers

THREE = offers((5, 1.0), (12.5, 0.9), (50, 0.8))


@pytest.mark.parametrize("n_workers", [0, 1, 2, 7])
@pytest.mark.parametrize("demand", [0, 3, 77, 1e5])
def test_any_fleet_and_demand_gets_a_valid_plan_of_one_route(n_workers: int, demand: float) -> None:
    draft = plan(an_observation(n_workers, demand_rps=demand), a_ladder(), {}, {})
    check(publish(draft, None, "sommelier", 0), a_ladder())
    assert len(draft.routes) == 1
    assert len(draft.allocation) == n_workers


@pytest.mark.parametrize(
    ("own_rps", "variant"), [(0, "v0"), (5, "v0"), (5.1, "v1"), (12.5, "v1"), (13, "v2"), (99, "v2")]
)
def test_an_idle_worker_takes_the_best_variant_that_keeps_up(own_rps: float, variant: str) -> None:
    assert choose(a_worker(), own_rps, THREE, 10_000) == variant


def test_a_worker_with_a_queue_takes_a_faster_variant_than_its_idle_neighbour() -> None:
    workers = (
        a_worker("w-1", "heavy"),
        a_worker("w-2", "heavy", remaining_ms=5000.0),
        a_worker("w-3", remaining_ms=9e9),
    )
    seen = an_observation(workers=workers, demand_rps=12)
    draft = plan(seen, a_ladder(), {}, {"overprovision": 1, "drain_s": 10})
    assert draft.allocation == {"w-1": "heavy", "w-2": "middle", "w-3": "light"}
    alike = plan(seen, a_ladder(), {}, {"overprovision": 1})
    assert set(alike.allocation.values()) == {"heavy"}, "as published only the workload counts"


def test_every_worker_gets_an_even_share_whatever_it_can_carry() -> None:
    workers = tuple(a_worker(f"w-{i}", remaining_ms=9e9 if i else 0.0) for i in range(4))
    draft = plan(an_observation(workers=workers, demand_rps=8), a_ladder(), {}, {"drain_s": 10})
    assert Counter(draft.allocation.values()) == {"light": 3, "heavy": 1}
    assert draft.routes[0].levels == {"heavy": 0.25, "light": 0.75}


def test_all_change_together_when_the_demand_does_as_nobody_plans_for_all() -> None:
    quiet, busy = (plan(an_observation(4, demand_rps=d), a_ladder(), {}, {"overprovision": 1}) for d in (20, 21))
    assert set(quiet.allocation.values()) == {"heavy"}
    assert set(busy.allocation.values()) == {"middle"}
