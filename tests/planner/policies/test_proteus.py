"""`proteus`: accuracy at the demand, blind, with batches that leave half the SLO to the queue."""

from collections import Counter

import pytest

from planner.control.plans import publish
from planner.control.validity import check
from planner.policies.proteus import by_capacity as carried
from planner.policies.proteus import plan
from tests.builders import a_catalog, a_variant, an_observation, lookups
from tests.planner.solvers.levels.builders import a_ladder, a_reuse_ladder


@pytest.mark.parametrize("n_workers", [0, 1, 2, 7])
@pytest.mark.parametrize("demand", [0, 3, 77, 1e5])
@pytest.mark.parametrize("slo_ms", [0, 1, 900])
def test_any_fleet_demand_and_slo_gets_a_valid_plan_of_one_route(n_workers: int, demand: float, slo_ms: float) -> None:
    seen = an_observation(n_workers, demand_rps=demand, slo_ms=slo_ms, classes={"models": {"light": 1.0}})
    draft = plan(seen, a_ladder(), {}, {})
    check(publish(draft, None, "proteus", 0), a_ladder())
    assert len(draft.routes) == 1
    assert draft.strategy == "models"


def test_batches_take_less_than_half_the_slo_and_raise_the_capacity() -> None:
    assert plan(an_observation(slo_ms=900), a_catalog(), {}, {}).batch == {"light": 4, "heavy": 4}  # 44 and 400 ms
    assert plan(an_observation(slo_ms=800), a_catalog(), {}, {}).batch == {"light": 4, "heavy": 2}
    assert plan(an_observation(slo_ms=100), a_catalog(), {}, {}).batch == {"light": 4, "heavy": 1}
    single, batched = (plan(an_observation(4, demand_rps=35, slo_ms=slo), a_catalog(), {}, {}) for slo in (0, 900))
    assert single.batch == {"light": 1, "heavy": 1}
    assert Counter(single.allocation.values()) == {"heavy": 3, "light": 1}
    assert Counter(batched.allocation.values()) == {"heavy": 4}  # 4 x 10/s


def test_a_batch_that_is_given_counts_whatever_the_slo() -> None:
    assert set(plan(an_observation(slo_ms=10), a_catalog(), {}, {"batch": 4}).batch.values()) == {4}


def test_every_worker_gets_an_even_share_or_what_it_can_carry() -> None:
    """As HADIS and ARGUS run it, and as its own program has it."""
    seen = an_observation(4, demand_rps=30)
    draft, by_capacity = (plan(seen, a_ladder(), {}, {"overprovision": 1, "even": even}) for even in (1, 0))
    assert draft.allocation == by_capacity.allocation
    counts = Counter(draft.allocation.values())
    assert draft.routes[0].levels == pytest.approx({level: count / 4 for level, count in counts.items()})
    assert carried(draft, a_ladder(), 30).routes == by_capacity.routes, "without another integer program"
    assert by_capacity.routes[0].levels == pytest.approx({"heavy": 1 / 3, "middle": 2 / 3})
    assert draft.routes != by_capacity.routes
    assert draft.expected
    assert by_capacity.expected
    assert draft.expected.utilization > 1 > by_capacity.expected.utilization - 1e-9, "the slow workers are too busy"


def test_a_batch_that_nobody_measured_is_not_used() -> None:
    """So that a catalog whose models gain nothing by batches has none."""
    alone = a_catalog(variants={name: a_variant(name=name, latency_ms={1: 20.0}) for name in ("light", "heavy")})
    assert plan(an_observation(slo_ms=10_000), alone, {}, {}).batch == {"light": 1, "heavy": 1}


def test_it_never_uses_past_images() -> None:
    assert plan(an_observation(4, reuse=lookups(1.0)), a_reuse_ladder(), {}, {}).strategy == "models"
