"""Workers that are reserved for a level serve other requests too, in the share that they have time for."""

from dataclasses import replace
from functools import partial

import pytest

from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.control.propose import Rules, propose
from planner.control.sharing import MAX_UTILIZATION, scaled, spare_of, with_shares
from planner.observation.needs import Need
from planner.observation.observation import Observation, Queue
from planner.policies import named
from schemas.messages import Expected, Route
from streams.catalogs import measured
from tests.builders import NOW_MS, a_catalog, a_variant, a_worker

QUALITY = {"light": 0.5, "middle": 0.8, "heavy": 0.9}
RUN_MS = {"light": 10.0, "middle": 50.0, "heavy": 100.0}


def three_levels() -> Catalog:
    variants = {name: a_variant(name=name, quality=QUALITY[name], latency_ms={1: RUN_MS[name]}) for name in QUALITY}
    return a_catalog(variants=variants, discriminators={}, cascades=(), class_cuts={})


def on_one(level: str, seen: Observation) -> PlanProposal:
    """Stand in for a policy: all workers serve a level."""
    busy = seen.planning_rps * RUN_MS[level] / 1000 / max(1, len(seen.workers))
    return PlanProposal(
        routes=(Route(levels={level: 1.0}),),
        allocation={worker.worker_id: level for worker in seen.workers},
        batch={},
        expected=Expected(demand_rps=seen.planning_rps, utilization=busy, heavy_share=0.0, quality=QUALITY[level]),
    )


def planned(level: str, spare: str, demand_rps: float, workers: int = 1, busy: float = 0.0) -> PlanProposal:
    catalog = three_levels()
    seen = Observation(
        now_ms=NOW_MS, demand_rps=demand_rps, workers=tuple(a_worker(f"w-{n}", level) for n in range(workers))
    )
    spares = [spare_of(catalog.level(spare), [a_worker("r-0", level)], busy, 0.0)]
    return with_shares(partial(on_one, level), lambda proposal, _: proposal, seen, spares, catalog)


def test_a_reserved_best_level_takes_what_it_has_time_for_beside_those_that_name_it() -> None:
    proposal = planned("middle", "heavy", demand_rps=16.0, busy=0.4)
    assert proposal.allocation == {"w-0": "middle", "r-0": "heavy"}
    assert proposal.routes[0].levels == pytest.approx({"middle": 0.75, "heavy": 0.25})
    assert proposal.expected is not None
    assert proposal.expected.quality == pytest.approx(0.75 * 0.8 + 0.25 * 0.9)
    assert proposal.expected.demand_rps == pytest.approx(16.0)
    assert proposal.expected.utilization == pytest.approx(MAX_UTILIZATION)
    few = planned("middle", "heavy", demand_rps=1.0, busy=0.4)
    assert few.routes[0].levels == {"heavy": 1.0}


def test_a_reserved_poorer_level_relieves_the_others_and_takes_nothing_while_they_have_time() -> None:
    assert planned("heavy", "light", demand_rps=4.0).routes[0].levels == {"heavy": 1.0}
    full = planned("heavy", "light", demand_rps=16.0)
    assert full.routes[0].levels == pytest.approx({"heavy": 0.625, "light": 0.375})


def test_without_other_workers_the_reserved_ones_serve_all_requests() -> None:
    assert planned("middle", "heavy", demand_rps=40.0, workers=0).routes[0].levels == {"heavy": 1.0}
    assert planned("middle", "light", demand_rps=0.0, workers=0).routes[0].levels == {"light": 1.0}


@pytest.mark.parametrize("policy", ["joint", "clipper-light", "proteus", "diffserve", "hadis"])
@pytest.mark.parametrize("workers", [2, 8])
def test_no_policy_plans_worse_or_later_answers_for_requests_that_name_nothing_as_few_name_a_level(
    policy: str, workers: int
) -> None:
    catalog = a_catalog()
    for demand_rps in (1.0, 10.0 * workers):
        seen = Observation(
            now_ms=NOW_MS, demand_rps=demand_rps, workers=tuple(a_worker(f"w-{n}", "heavy") for n in range(workers)),
            hardness=(0.1,) * 10,
        )  # fmt: skip
        need = Need(("heavy",), demand_rps / 50, {"ann": demand_rps / 50 * 0.1}, 1, NOW_MS - 100, NOW_MS - 100)
        plain, kept = (
            propose(named(policy), each, catalog, {}, {}, Rules()) for each in (seen, replace(seen, needs=(need,)))
        )
        assert plain.expected is not None
        assert kept.expected is not None
        assert (kept.expected.quality or 0) >= (plain.expected.quality or 0) - 0.01
        assert kept.expected.utilization <= max(1.0, plain.expected.utilization + 0.05)


def test_joint_plans_a_cascade_from_or_to_a_reserved_level_and_counts_what_is_named_there() -> None:
    """Two workers of heavy carry 16 a second; one without the other would leave all to a poorer level."""
    workers = (a_worker("w-0", "heavy"), a_worker("w-1", "heavy"))
    seen = Observation(now_ms=NOW_MS, demand_rps=16.0, workers=workers, slo_ms=2000.0)
    need = Need(("light",), 0.3, {"ann": 0.003}, 1, NOW_MS - 100, NOW_MS - 100)
    proposal = propose(named("joint"), replace(seen, needs=(need,)), measured("tiny"), {}, {"improve": 1.0}, Rules())
    assert sorted(proposal.allocation.values()) == ["heavy", "light"]
    assert [(cascade.level, cascade.next_level) for cascade in proposal.cascades] == [("light", "heavy")]
    assert proposal.expected is not None
    assert proposal.expected.quality is not None
    assert proposal.expected.quality > 0.88
    busy = need._replace(work={"ann": 0.5}, variants=("heavy",), rps=3.5)
    plain, counted = (
        propose(
            named("joint"), replace(seen, demand_rps=24.0, needs=needs), measured("tiny"), {}, {"improve": 1.0}, Rules()
        )
        for needs in ((), (busy,))
    )
    assert plain.expected is not None
    assert counted.expected is not None
    assert counted.expected.demand_rps == pytest.approx(20.5)
    assert counted.expected.utilization > plain.expected.utilization * 20.5 / 24


def test_the_seconds_of_a_scaled_observation_keep_their_sum_in_whole_requests() -> None:
    seen = Observation(now_ms=NOW_MS, demand_rps=3.0, counts=(3,) * 30, forecast_rps=6.0)
    less = scaled(seen, 0.5)
    assert (less.demand_rps, less.forecast_rps, sum(less.counts)) == (1.5, 3.0, 45)
    assert set(less.counts) == {1, 2}


def test_jobs_that_wait_at_a_reserved_level_are_not_late_for_want_of_another_worker_there() -> None:
    need = Need(("heavy",), 0.1, {"ann": 0.01}, 1, NOW_MS - 100, NOW_MS - 100)
    seen = Observation(
        now_ms=NOW_MS, demand_rps=0.1, needs=(need,), queues=(Queue("heavy", 1.0, 0.1),), slo_ms=1000.0,
        workers=(a_worker("w-0", "heavy"), a_worker("w-1", "light")), hardness=(0.1,) * 10,
    )  # fmt: skip
    assert "late" not in propose(named("joint"), seen, a_catalog(), {}, {}, Rules()).reason
