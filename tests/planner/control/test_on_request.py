"""Variants on request get their workers first, whatever the policy; the levels keep one."""

from dataclasses import replace

import pytest

from planner.catalog.model import Catalog
from planner.control.on_request import reserve
from planner.control.propose import Rules, propose
from planner.observation.observation import Observation
from planner.policies import named
from tests.builders import NOW_MS, a_catalog, a_worker, composed_variant

POLICIES = ("joint", "diffserve", "clipper-light", "hadis", "argus", "proteus")


def a_composing_catalog() -> Catalog:
    return a_catalog(on_request={"styles": composed_variant(latency_ms={1: 100.0})})


def seen(workers: int, on_request_rps: float | None, demand_rps: float = 4.0, **homes: str) -> Observation:
    fleet = tuple(a_worker(f"w-{n}", homes.get(f"w{n}", "light")) for n in range(workers))
    asked = {} if on_request_rps is None else {"styles": on_request_rps}
    return Observation(now_ms=NOW_MS, demand_rps=demand_rps, workers=fleet, on_request=asked, hardness=(0.1,) * 10)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_leaves_workers_to_what_requests_name(policy: str) -> None:
    proposal = propose(named(policy), seen(4, 1.0), a_composing_catalog(), {}, {}, Rules())
    placed = list(proposal.allocation.values())
    assert placed.count("styles") == 1
    assert len(placed) == 4
    assert "1 on styles for 1/s that name what it alone honours" in proposal.reason


def test_a_worker_is_there_for_what_was_asked_of_late_and_more_for_more() -> None:
    counts = [len(reserve(seen(6, rps, demand_rps=40.0), a_composing_catalog()).allocation) for rps in (0.0, 7.0, 20.0)]
    assert counts == [1, 1, 3]
    assert reserve(seen(6, None), a_composing_catalog()).allocation == {}


def test_who_serves_it_stays_and_one_worker_is_left_to_the_levels() -> None:
    catalog = a_composing_catalog()
    assert reserve(seen(3, 0.1, w2="styles"), catalog).allocation == {"w-2": "styles"}
    short = reserve(seen(2, 30.0, demand_rps=31.0), catalog)
    assert len(short.allocation) == 1
    assert "1 of 4 wanted on styles" in short.reason
    assert short.without.demand_rps == pytest.approx(1.0)
    assert reserve(seen(1, 1.0, demand_rps=2.0), catalog).allocation == {}
    assert reserve(seen(1, 1.0, demand_rps=1.0), catalog).allocation == {"w-0": "styles"}


@pytest.mark.parametrize("workers", [1, 3])
def test_what_waits_for_it_has_a_worker_though_nobody_asked_of_late_and_no_worker_has_it(workers: int) -> None:
    """Its last worker was killed, or its jobs lay there while it loaded: no heartbeat shows them."""
    waiting = replace(seen(workers, None, demand_rps=0.0), in_flight={"ann": {"styles": 0.3, "": 1.0}})
    assert list(reserve(waiting, a_composing_catalog()).allocation.values()) == ["styles"]
    others = replace(waiting, in_flight={"ann": {"": 1.0, "heavy": 2.0}})
    assert reserve(others, a_composing_catalog()).allocation == {}


def test_what_waits_leaves_the_only_worker_to_levels_that_are_asked_for() -> None:
    waiting = replace(seen(1, None), in_flight={"ann": {"styles": 0.3}})
    assert reserve(waiting, a_composing_catalog()).allocation == {}
