"""Shares of a crowded backlog: by weight among the configured, evenly among the others, who together are as one."""

from collections.abc import Mapping
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from planner.serving.tenants.crowd import Party
from planner.serving.tenants.shares import OpenWork

NAMES = ["a", "b", "x", "y", "z", None]
WEIGHTS = {"a": 3.0, "b": 1.0}  # x, y, z and None are not configured


def open_work(
    open_ms: Mapping[Party, float], weights: Mapping[str, float] | None = None, others: float = 1.0
) -> OpenWork:
    work = OpenWork(weights or {}, others)
    for party, ms in open_ms.items():
        work.add(party, ms)
    return work


def test_an_uncrowded_backlog_is_anybodys() -> None:
    assert not open_work({"a": 30, "b": 5}).exceeds_share("a", 10, 100)


def test_a_lone_tenant_may_fill_the_backlog() -> None:
    for weights in ({}, {"a": 2.0}):
        assert not open_work({"a": 90}, weights).exceeds_share("a", 10, 100)
        assert open_work({"a": 90}, weights).exceeds_share("a", 11, 100)


def test_a_crowded_backlog_is_shared_by_weight() -> None:
    assert not open_work({"a": 70, "b": 10}, WEIGHTS).exceeds_share("a", 5, 100)
    assert open_work({"a": 70, "b": 10}, WEIGHTS).exceeds_share("a", 6, 100)
    assert open_work({"a": 50, "b": 20}, WEIGHTS).exceeds_share("b", 6, 100)


def test_a_newcomer_gets_in_while_another_fills_the_backlog() -> None:
    assert not open_work({"old": 80}).exceeds_share("new", 20, 100)
    assert open_work({"old": 80, "new": 20}).exceeds_share("old", 1, 100)


def test_a_backlog_is_no_reason_to_refuse_those_whose_it_is_not() -> None:
    assert open_work({"old": 80}).is_crowded_out("new", 100)
    assert not open_work({"old": 80}).is_crowded_out("old", 100), "alone it may fill the backlog, and no more"
    assert not open_work({"old": 40}).is_crowded_out("new", 100), "the other has its share"
    assert not open_work({"old": 80, "new": 50}).is_crowded_out("new", 100), "so has this one"
    assert open_work({"old": 80, "new": 10}, {"old": 3.0}).is_crowded_out("new", 100)
    assert not open_work({"old": 70, "new": 10}, {"old": 3.0}).is_crowded_out("new", 100)


@given(st.lists(st.sampled_from("abc"), max_size=300), st.integers(1, 20))
def test_those_let_in_beside_a_flood_have_no_more_than_twice_what_is_allowed(tenants: list[str], cost: int) -> None:
    """Nothing ends, and whoever is crowded out or within its share is let in, as the router does."""
    work = open_work({"flood": 100.0})
    for tenant in tenants:
        if work.is_crowded_out(tenant, 100) and not work.exceeds_share(tenant, cost, 100):
            work.add(tenant, cost)
    assert sum(work.by_party().values()) <= 200


@given(st.dictionaries(st.text(), st.floats(1, 1000), max_size=50), st.floats(0, 300), st.floats(1, 100))
def test_a_configured_tenant_is_never_refused_because_of_others_names(
    others: dict[str, float], own_ms: float, cost_ms: float
) -> None:
    """Whether they send all of it under one name or under fifty: its answer is the same."""
    names = {f"-{name}": ms for name, ms in others.items()}
    many = open_work({"a": own_ms, **names}, WEIGHTS)
    one = open_work({"a": own_ms, "-": sum(names.values())} if names else {"a": own_ms}, WEIGHTS)
    assert many.exceeds_share("a", cost_ms, 500) == one.exceeds_share("a", cost_ms, 500)
    assert many.is_crowded_out("a", 500) == one.is_crowded_out("a", 500)
    if own_ms + cost_ms <= 500 * 3 / 4 * 0.999:  # of weight 3 beside all others together
        assert not many.exceeds_share("a", cost_ms, 500)


def test_all_others_weigh_what_they_are_told_to() -> None:
    work = open_work({"a": 70, "x": 10}, {"a": 1.0}, others=3.0)
    assert not work.exceeds_share("x", 65, 100)
    assert work.exceeds_share("x", 66, 100)
    assert work.exceeds_share("a", 1, 100)


def shares_by_hand(party: Party, open_ms: dict[Party, int]) -> dict[Party, Fraction]:
    active = {name for name, ms in open_ms.items() if ms} | {party}
    crowd = [name for name in active if name not in WEIGHTS]
    total = sum(Fraction(WEIGHTS[name]) for name in active if name in WEIGHTS) + (1 if crowd else 0)
    return {
        name: Fraction(WEIGHTS[name]) / total if name in WEIGHTS else Fraction(1) / total / len(crowd)
        for name in active
    }


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 40), st.booleans()), max_size=80), st.sampled_from(NAMES)
)
def test_sums_that_are_kept_say_what_looking_at_everybody_would(
    steps: list[tuple[Party, int, bool]], party: Party
) -> None:
    work, open_ms = OpenWork(WEIGHTS), dict.fromkeys(NAMES, 0)
    for name, ms, ends in steps:
        change = -min(ms, open_ms[name]) if ends else ms
        if change:
            open_ms[name] += change
            work.add(name, change)
    assert work.by_party() == {name: ms for name, ms in open_ms.items() if ms}
    shares, allowed = shares_by_hand(party, open_ms), 100
    crowded = sum(open_ms.values()) + 5 > allowed / 2
    assert work.exceeds_share(party, 5, allowed) == (crowded and open_ms[party] + 5 > shares[party] * allowed)
    crowd_ms = sum(ms for name, ms in open_ms.items() if name not in WEIGHTS)
    over = any(
        open_ms[name] > share * allowed for name, share in shares.items() if name in WEIGHTS or party not in WEIGHTS
    )
    crowd_share = sum((share for name, share in shares.items() if name not in WEIGHTS), start=Fraction(0))
    over = over or (party in WEIGHTS and crowd_ms > crowd_share * allowed and crowd_ms > 0)
    assert work.is_crowded_out(party, allowed) == (over and open_ms[party] < shares[party] * allowed)


def test_the_memory_of_who_had_the_most_does_not_grow_with_requests() -> None:
    work = OpenWork({})
    for n in range(5000):
        work.add(f"t-{n % 50}", 10)
        work.add(f"t-{n % 50}", -5)
    assert len(work._crowd._heap) <= 4 * 50 + 64 + 1
    for n in range(50):
        work.add(f"t-{n}", -work.of(f"t-{n}"))
    assert work.by_party() == {}
    assert (work._crowd.ms, work._crowd.weight) == (0, 0)
    assert not work.exceeds_share("t-1", 99, 100)
