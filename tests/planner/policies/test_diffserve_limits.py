"""DiffServe where nothing fits, at its ends, and with a part of it replaced as in its own ablations."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog.model import Catalog
from planner.observation.observation import Observation, Queue, Served
from planner.policies import InvalidParameter, PlanProposal
from planner.policies.diffserve import plan
from schemas.errors import Unknown
from streams import catalogs
from tests.planner.policies.cascades import a_fine_catalog, counts, planned, seen


def drafted(observation: Observation, catalog: Catalog | None = None, **parameters: float) -> PlanProposal:
    return planned(plan, observation, catalog or a_fine_catalog(), **parameters)


def test_where_the_published_allocator_crashed_the_rest_is_shed() -> None:
    """Its controller dies of an infeasible model from 40/s on (SOURCES.md 3.3); 16 workers generate 36/s."""
    draft = drafted(seen(16, 50, slo_ms=15_000.0), catalogs.load("diffserve-sdxlltn"))
    assert set(draft.allocation.values()) == {"sdxl-lightning"}
    assert draft.cascades[0].threshold == 0
    assert "27.9% of the requests are shed" in draft.reason


def test_a_queue_beyond_the_slo_is_worked_off_by_all_workers_and_said() -> None:
    draft = drafted(seen(queues=(Queue("light", waiting=40, arriving_rps=8),)))
    assert counts(draft) == (4, 0)
    assert draft.batch["light"] == 4
    assert "5000 of it in the queue, beyond the SLO of 1 s" in draft.reason


def test_an_slo_below_one_image_is_served_one_by_one_and_said() -> None:
    draft = drafted(seen(slo_ms=15.0))
    assert draft.batch["light"] == 1
    assert "an image takes 21 ms, beyond the SLO of 0.015 s" in draft.reason


def test_without_an_slo_latency_has_no_limit() -> None:
    assert drafted(seen(slo_ms=0.0)).cascades == drafted(seen(slo_ms=1e9)).cascades


def test_demand_beyond_all_workers_is_shed_and_said() -> None:
    draft = drafted(seen(demand_rps=500.0))
    assert counts(draft) == (4, 0)
    assert draft.expected
    assert draft.expected.utilization == pytest.approx(500 / (4 * 4 / 0.044))
    assert "27.3% of the requests are shed" in draft.reason
    assert not draft.is_feasible
    assert drafted(seen()).is_feasible


def test_what_only_the_over_provisioning_does_not_fit_is_not_shed() -> None:
    draft = drafted(seen(demand_rps=350.0), overprovision=1.2)
    assert counts(draft) == (4, 0)
    assert "shed" not in draft.reason
    assert "fewer than the 420 requests/s that are planned for" in draft.reason


@settings(max_examples=25)
@given(n_workers=st.integers(0, 6), demand=st.one_of(st.just(0.0), st.floats(0, 1e9)), slo_ms=st.floats(0, 1e6))
def test_any_fleet_and_demand_have_a_plan(n_workers: int, demand: float, slo_ms: float) -> None:
    draft = drafted(seen(n_workers, demand, slo_ms=slo_ms))
    assert len(draft.allocation) == n_workers
    assert draft.cascades[0].threshold == 0 or "heavy" in draft.allocation.values()
    assert draft.expected
    assert math.isfinite(draft.expected.utilization)


def test_no_demand_has_the_highest_threshold_with_workers_by_the_work() -> None:
    draft = drafted(seen(11, 0.0))
    assert draft.cascades[0].threshold == 1
    assert counts(draft) == (1, 10)


def test_no_worker_and_one_worker_are_plans() -> None:
    assert drafted(seen(0)).allocation == {}
    assert counts(drafted(seen(1))) == (1, 0)


def test_a_static_threshold_leaves_the_rest_to_the_optimum() -> None:
    """DiffServe 4.5: off-peak it forgoes the quality that a higher threshold would have."""
    static = drafted(seen(demand_rps=1.0), threshold=0.4)
    assert static.cascades[0].threshold == pytest.approx(0.4)
    assert static.expected
    assert static.expected.heavy_share == pytest.approx(0.4)
    assert drafted(seen(demand_rps=1.0)).cascades[0].threshold == 1


def test_a_static_threshold_that_does_not_fit_gives_way() -> None:
    assert drafted(seen(4, 60.0), threshold=0.9).cascades[0].threshold == pytest.approx(0.5)


def test_a_wait_reckoned_in_run_times_needs_smaller_batches() -> None:
    """Proteus's rule, twice the execution in all, is a factor of 1: half the SLO for generation."""
    assert drafted(seen(slo_ms=450.0)).batch["heavy"] == 4
    assert drafted(seen(slo_ms=450.0), queue_factor=1.0).batch["heavy"] == 1


def test_aimd_adds_one_while_all_is_in_time_and_halves_after_a_late_answer() -> None:
    good, late, nothing = Served(10, in_time=1.0), Served(10, in_time=0.9), Served()
    memory: dict[str, Any] = {}
    sizes: list[int] = []
    for served in (nothing, good, good, good, good, late, nothing, late):
        draft = plan(seen(served=served), a_fine_catalog(), memory, {"aimd": 1})
        assert draft.batch == json.loads(json.dumps(draft.memory))["batch"]
        memory, sizes = draft.memory, [*sizes, draft.batch["heavy"]]
    assert sizes == [1, 2, 3, 4, 4, 2, 2, 1]  # 4 is the largest measured


def test_a_fixed_batch_is_on_both_levels() -> None:
    assert drafted(seen(), batch=2).batch == {"light": 2, "heavy": 2}


def test_unknown_and_impossible_parameters_are_refused() -> None:
    with pytest.raises(Unknown, match=r"did you mean 'threshold'"):
        drafted(seen(), treshold=0.5)
    with pytest.raises(InvalidParameter, match=r"overprovision must be in \[0.01, 100\]: got nan"):
        drafted(seen(), overprovision=math.nan)
