"""What only some variants serve gets its workers first, whatever the policy; the levels keep one."""

import random
from dataclasses import replace

import pytest

from planner.catalog.model import Catalog
from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.propose import Rules, propose
from planner.control.reservation import TURN_MS, left_waiting, reserve, with_reserved
from planner.observation.needs import Need
from planner.observation.observation import ANY_LEVEL, Observation
from planner.policies import named
from schemas.messages import Route
from tests.builders import NOW_MS, a_catalog, a_variant, a_worker, composed_variant

POLICIES = ("joint", "diffserve", "clipper-light", "hadis", "argus", "proteus")
STYLES, LIGHT, HEAVY = ("styles",), ("light",), ("heavy",)


def a_composing_catalog() -> Catalog:
    return a_catalog(on_request={"styles": composed_variant(latency_ms={1: 100.0})})


def a_need(
    variants: tuple[str, ...] = STYLES, rps: float = 1.0, run_s: float = 0.1, waiting: int = 1, ago_ms: int = 100,
    tenant: str = "default",
) -> Need:  # fmt: skip
    since_ms = NOW_MS - ago_ms
    return Need(variants, rps, {tenant: rps * run_s}, waiting, since_ms if waiting else 0, since_ms)


def seen(workers: int, *needs: Need, demand_rps: float = 4.0, **homes: str) -> Observation:
    fleet = tuple(a_worker(f"w-{n}", homes.get(f"w{n}", "light")) for n in range(workers))
    return Observation(now_ms=NOW_MS, demand_rps=demand_rps, workers=fleet, needs=needs, hardness=(0.1,) * 10)


def reserved(observed: Observation, served: tuple[str, ...] = ()) -> dict[str, str]:
    return reserve(observed, a_composing_catalog(), served).allocation


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_leaves_workers_to_what_requests_name(policy: str) -> None:
    proposal = propose(named(policy), seen(4, a_need()), a_composing_catalog(), {}, {}, Rules())
    placed = list(proposal.allocation.values())
    assert placed.count("styles") == 1
    assert len(placed) == 4
    assert "1 worker for styles, which 60 requests a minute need" in proposal.reason
    assert list(proposal.reserved.values()) == ["styles"]


def test_a_fleet_that_is_all_reserved_is_not_said_to_have_no_live_worker() -> None:
    proposal = propose(named("joint"), seen(1, a_need(), demand_rps=1.0), a_composing_catalog(), {}, {}, Rules())
    assert list(proposal.allocation.values()) == ["styles"]
    assert proposal.reason == (
        "1 worker for styles, which 60 requests a minute need; other requests wait until it is free: start another "
        "worker to serve both at once"
    )
    words = publish(proposal, None, "joint", NOW_MS).reason
    assert words == f"1 worker of styles; {proposal.reason}", "no route to a level without a worker, nor its busy share"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("variants", [LIGHT, HEAVY])
def test_under_every_policy_a_named_level_has_a_worker_and_takes_none_that_the_policy_gives_it_anyway(
    policy: str, variants: tuple[str, ...]
) -> None:
    own = propose(named(policy), seen(4), a_composing_catalog(), {}, {}, Rules())
    proposal = propose(named(policy), seen(4, a_need(variants, 0.1)), a_composing_catalog(), {}, {}, Rules())
    assert set(variants) <= set(proposal.allocation.values())
    is_served_anyway = set(variants) <= set(own.allocation.values())
    assert len(proposal.reserved) == (not is_served_anyway)
    if is_served_anyway:
        assert proposal.allocation == own.allocation


@pytest.mark.parametrize("policy", POLICIES)
def test_under_every_policy_what_has_waited_longest_has_a_worker_whatever_else_waits(policy: str) -> None:
    """A policy that plans for fewer workers, as one is reserved, may drop the level that something waits for."""
    for seed in range(8 if policy == "joint" else 100):
        draw, catalog = random.Random(seed), a_catalog()
        needs = [
            a_need((name,), draw.choice([0.0, 0.1, 2.0, 9.0]), run_s, ago_ms=draw.randint(100, 90_000))
            for name, run_s in (("light", 0.02), ("heavy", 0.2))
        ]
        demand_rps = sum(need.rps for need in needs) + draw.choice([0.0, 1.0, 30.0, 100.0])
        homes = {f"w{nth}": draw.choice(["light", "heavy"]) for nth in range(4)}
        observed = seen(draw.randint(2, 4), *needs, demand_rps=demand_rps, **homes)
        proposal = propose(named(policy), observed, catalog, {}, {}, Rules())
        assert not left_waiting(observed, proposal.allocation)[0], seed


def test_a_level_that_the_policy_drops_for_a_reserved_worker_is_reserved_instead_where_that_serves_all() -> None:
    levels, routes = {3: ("light", "light", "heavy"), 2: ("light", "middle")}, (Route(levels={"light": 1.0}),)

    def by_number(seen: Observation) -> PlanProposal:
        names = [worker.worker_id for worker in seen.workers]
        allocation = dict(zip(names, levels[len(names)], strict=True))
        return PlanProposal(routes=routes, allocation=allocation, batch={}, reason="by number")

    catalog = a_catalog(
        variants={name: a_variant(name=name) for name in ("light", "middle", "heavy")}, discriminators={}, cascades=(),
        class_cuts={},
    )  # fmt: skip
    waiting = seen(3, a_need(HEAVY, 0.1, ago_ms=300), a_need(("middle",), 0.1, ago_ms=400), demand_rps=40.0)
    proposal = with_reserved(by_number, waiting, catalog, lambda proposal, _: proposal)
    assert sorted(proposal.allocation.values()) == ["heavy", "light", "middle"]
    assert list(proposal.reserved.values()) == ["heavy"]
    assert proposal.reason == "by number; 1 worker for heavy, which 6 requests a minute need"


def test_work_for_more_than_a_worker_has_as_many_and_one_is_left_to_the_levels() -> None:
    assert len(reserved(seen(6, a_need(rps=20.0), demand_rps=40.0))) == 3
    assert reserved(seen(6)) == {}
    assert reserved(seen(3, a_need(rps=0.1), w2="styles")) == {"w-2": "styles"}
    short = reserve(seen(2, a_need(rps=30.0), demand_rps=31.0), a_composing_catalog(), ())
    assert len(short.allocation) == 1
    assert "1 of 2 workers for styles" in short.reason
    assert short.without.demand_rps == pytest.approx(1.0)
    assert reserved(seen(1, a_need(), demand_rps=2.0)) == {}
    assert reserved(seen(1, a_need(), demand_rps=1.0)) == {"w-0": "styles"}


def test_no_more_is_reserved_than_its_share_of_all_work_rounded_up() -> None:
    """Half of the work at three times the fleet's rate: half of the workers."""
    busy = seen(8, a_need(LIGHT, rps=600.0, run_s=0.02), demand_rps=1200.0)
    assert len(reserved(busy)) == 4


def test_a_tenants_work_counts_up_to_its_part_of_the_fleet() -> None:
    flood = a_need(HEAVY, rps=100.0, run_s=0.2, tenant="mallory")
    alone = seen(8, flood, demand_rps=101.0)
    shared = replace(alone, in_flight={name: {"": 1.0} for name in ("mallory", "ann", "bob", "eve")})
    assert (len(reserved(alone)), len(reserved(shared))) == (7, 2)


def test_names_with_little_work_take_one_worker_in_all_and_what_waits_longest_has_it() -> None:
    first, second = a_need(HEAVY, 0.02, ago_ms=300), a_need(STYLES, 0.02, ago_ms=400)
    assert list(reserved(seen(4, first, second)).values()) == ["styles"]
    assert list(reserved(seen(4, first, second), served=("styles",)).values()) == ["heavy"]
    assert reserved(seen(4, first, second), served=("styles", "heavy")) == {}


def test_each_name_has_a_worker_at_once_where_their_share_of_the_work_allows_it() -> None:
    first, second = a_need(HEAVY, 0.02, ago_ms=300), a_need(STYLES, 0.02, ago_ms=400)
    assert sorted(reserved(seen(4, first, second, demand_rps=0.04)).values()) == ["heavy", "styles"]


def test_work_for_many_workers_leaves_one_to_each_name_that_has_waited_for_longer() -> None:
    flood, waiting = a_need(HEAVY, rps=100.0, run_s=0.2), a_need(STYLES, 0.02, ago_ms=90_000)
    observed = seen(4, flood, waiting, demand_rps=101.0)
    assert sorted(reserved(observed).values()) == ["heavy", "heavy", "styles"]
    alone = reserve(seen(2, flood, waiting, demand_rps=101.0), a_composing_catalog(), ())
    assert list(alone.allocation.values()) == ["styles"]
    assert (
        alone.reason == "1 worker for styles, which 1.2 requests a minute need; "
        "requests for heavy wait, as this fleet can reserve 1 worker at once"
    )


def test_a_turn_is_kept_until_something_else_has_waited_much_longer() -> None:
    holder, other = a_need(HEAVY, 0.02, ago_ms=300), a_need(STYLES, 0.02, ago_ms=300 + TURN_MS)
    assert list(reserved(seen(4, holder, other, w1="heavy")).items()) == [("w-1", "heavy")]
    longer = other._replace(oldest_ms=other.oldest_ms - 1)
    assert list(reserved(seen(4, holder, longer, w1="heavy")).values()) == ["styles"]


def test_a_turn_is_given_back_once_nothing_waits_and_at_once_where_something_else_does() -> None:
    for ago_ms, has_it in ((TURN_MS, True), (TURN_MS + 1, False)):
        ended = a_need(HEAVY, 0.02, waiting=0, ago_ms=ago_ms)
        assert bool(reserved(seen(4, ended, w1="heavy"))) == has_it
        assert reserved(seen(4, ended)) == {}, "it has no turn, and nothing waits"
        other = a_need(STYLES, 0.02, ago_ms=1)
        assert list(reserved(seen(4, ended, other, w1="heavy")).values()) == ["styles"]


def test_a_turn_outlasts_a_moment_in_which_nothing_waits_though_the_policy_would_move_the_worker() -> None:
    ended = a_need(HEAVY, 0.02, waiting=0, ago_ms=TURN_MS)
    proposal = propose(named("clipper-light"), seen(4, ended, w1="heavy"), a_composing_catalog(), {}, {}, Rules())
    assert proposal.reserved == {"w-1": "heavy"}


def test_any_of_the_variants_that_honour_a_request_will_do() -> None:
    either = a_need(("light", "heavy"), 0.1)
    assert reserved(seen(2, either, demand_rps=0.1), served=("heavy",)) == {}
    assert list(reserved(seen(2, either, demand_rps=0.1, w1="heavy", w0="styles")).items()) == [("w-1", "heavy")]


@pytest.mark.parametrize("workers", [1, 3])
def test_what_waits_for_it_has_a_worker_though_nothing_came_of_late(workers: int) -> None:
    """Its last worker was killed, or its jobs lay there while it loaded: no heartbeat shows them."""
    waiting = seen(workers, Need(STYLES, 0.0, {"ann": 0.0}, 1, NOW_MS - 90_000, NOW_MS - 90_000), demand_rps=0.0)
    assert list(reserved(waiting).values()) == ["styles"]
    gone = seen(workers, Need(("dropped",), 0.0, {"ann": 0.0}, 1, NOW_MS - 90_000, NOW_MS - 90_000), demand_rps=0.0)
    assert reserved(gone) == {}, "a variant of another catalog"


def test_what_waits_leaves_the_only_worker_to_levels_that_are_asked_for() -> None:
    assert reserved(seen(1, a_need(rps=0.0))) == {}


def test_the_only_worker_is_lent_to_a_level_that_serves_all_requests_and_plans_say_what_is_expected() -> None:
    waiting = seen(1, a_need(LIGHT, 0.1, run_s=0.02), demand_rps=4.1, w0="heavy")
    proposal = propose(named("joint"), waiting, a_composing_catalog(), {}, {}, Rules())
    assert (proposal.allocation, proposal.reserved) == ({"w-0": "light"}, {"w-0": "light"})
    assert [route.levels for route in proposal.routes] == [{"light": 1.0}]
    assert proposal.expected is not None
    assert 0 < proposal.expected.utilization < 1
    assert reserved(replace(waiting, demand_rps=400.0)) == {}, "light has no time for so many"


@pytest.mark.parametrize(
    ("others", "load_s", "unserved", "is_lent"),
    [(1 / 30, 0.1, 0.0, True), (1 / 30, 0.1, 1.0, False), (3.0, 0.1, 0.0, False), (1 / 30, 60.0, 0.0, False)],
    ids=["idle", "others wait", "busy", "away for long"],
)
def test_the_only_worker_is_lent_to_what_no_level_serves_while_hardly_any_other_request_comes(
    others: float, load_s: float, unserved: float, is_lent: bool
) -> None:
    catalog = a_catalog(on_request={"styles": replace(composed_variant(), load_ms=1000 * load_s)})
    waiting = replace(seen(1, a_need(rps=1 / 30), demand_rps=1 / 30 + others), unserved={ANY_LEVEL: unserved})
    assert bool(reserve(waiting, catalog, ()).allocation) == is_lent
