"""The rights of tenants: what is refused takes nothing, what was let in is open until it ends, and who shares what."""

import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.admission.quotas import Quota
from planner.serving.admission.tenants import (
    CROWD_WINDOW_MS,
    MAX_NAMES,
    MAX_PARTIES,
    MAX_SEPARATE,
    OPEN_MS,
    WINDOW_MS,
    Asking,
    Crowd,
    Need,
    OpenWork,
    Party,
    Rights,
    level,
)
from planner.serving.requests import Work

NAMES = ["a", "b", "x", "y", "z", None]
WEIGHTS = {"a": 3.0, "b": 1.0}  # x, y, z and None are not configured
AMOUNTS = st.floats(0.01, 1000)


def work(number: int, tenant: str = "a", ms: float = 10.0, images: int = 1) -> Work:
    return Work(f"r-{number}", tenant, images, ms)


def test_what_the_crowded_backlog_refuses_takes_no_tokens() -> None:
    rights = Rights({"a": Quota(rate_rps=1, burst=2)})
    refused = rights.refuse(work(0, ms=1000), 100, 0)
    assert refused is not None
    assert (refused.code, refused.retry_after_ms) == ("overloaded", 1001)
    assert [rights.refuse(work(n), 100, 0) is None for n in (1, 2, 3)] == [True, True, False]


def test_what_has_no_tokens_is_not_open() -> None:
    rights = Rights({"a": Quota(rate_rps=1, burst=1)})
    assert rights.refuse(work(0, ms=40), 100, 0) is None
    for n in range(1, 50):
        refused = rights.refuse(work(n, ms=40), 100, 0)
        assert refused is not None
        assert "images a second" in refused.reason
    assert rights.refuse(work(50, ms=40), 100, 1000) is None


def test_what_is_open_is_let_in_again_for_nothing_as_long_as_its_job_can_be_there() -> None:
    rights = Rights({"a": Quota(rate_rps=0.001, burst=1)})
    assert rights.refuse(work(0), 100, 0) is None
    assert rights.refuse(work(0), 100, OPEN_MS - 1) is None
    assert rights.is_open("r-0", OPEN_MS - 1)
    assert not rights.is_open("r-0", OPEN_MS)
    assert rights.refuse(work(0), 100, OPEN_MS) is None, "3.6 tokens have come, one at most is kept"
    assert rights.refuse(work(1), 100, OPEN_MS) is not None


def test_a_tenant_without_a_name_is_one_too() -> None:
    rights = Rights({})
    for n in range(100):
        assert rights.refuse(work(n, tenant="", ms=60), 100, 0) is None
        rights.ended(f"r-{n}")


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab"), st.floats(0.1, 50), st.booleans()), max_size=100))
def test_when_all_has_ended_nothing_is_open(steps: list[tuple[int, str, float, bool]]) -> None:
    rights = Rights({})
    for number, tenant, ms, ends in steps:
        rights.refuse(work(number, tenant, ms), 100, 0)
        if ends:
            rights.ended(f"r-{number}")
    for number in range(10):
        rights.ended(f"r-{number}")
    assert rights.refuse(work(0, "b", 99), 100, 0) is None


def counted(counts: Counter[str], within_ms: float = 5000) -> Crowd:
    crowd = Crowd()
    order = [name for name, count in counts.items() for _ in range(count)]
    for n, name in enumerate(order):
        crowd.count(name, 1000 + within_ms * n / len(order))
    crowd.count(order[-1], 1000 + within_ms + 200)
    return crowd


def parties(crowd: Crowd, names: Counter[str]) -> set[str]:
    return {name for name in names if crowd.party(name) == name}


def test_a_few_names_are_each_a_party_however_rarely_they_ask() -> None:
    counts = Counter({f"t-{n}": 1 for n in range(MAX_SEPARATE)})
    assert parties(counted(counts), counts) == counts.keys()


def test_a_new_name_each_time_is_one_party_and_who_asks_again_is_himself() -> None:
    counts = Counter({f"sybil-{n}": 1 for n in range(400)}) + Counter({"fair": 20})
    assert parties(counted(counts), counts) == {"fair"}
    counts = Counter({f"sybil-{n}": 3 for n in range(400)}) + Counter({"fair": 20, "rare": 2})
    assert parties(counted(counts), counts) == {"fair"}


@given(st.lists(st.integers(1, 100), min_size=MAX_SEPARATE + 1, max_size=150))
def test_many_parties_take_as_many_names_with_as_many_requests(asked: list[int]) -> None:
    counts = Counter({f"t-{n}": count for n, count in enumerate(asked)})
    own = parties(counted(counts), counts)
    assert len(own) <= MAX_PARTIES
    assert all(counts[name] + 1 >= len(own) for name in own)  # one was counted once more
    rest = [counts[name] for name in counts if name not in own]
    assert not own or max(rest, default=0) <= min(counts[name] for name in own) + 1, "the busiest"


def test_what_was_long_ago_counts_for_nothing() -> None:
    crowd = counted(Counter({f"sybil-{n}": 1 for n in range(400)}))
    assert crowd.party("sybil-1") is None
    for n in range(1, 4):
        crowd.count("fair", 10_000 + n * CROWD_WINDOW_MS)
    assert crowd.party("sybil-1") == "sybil-1"


def test_a_clock_that_jumps_back_begins_anew() -> None:
    crowd = counted(Counter({f"sybil-{n}": 1 for n in range(400)}))
    crowd.count("fair", -1000.0)
    assert crowd.party("sybil-1") == "sybil-1"


def test_names_without_end_take_bounded_memory_and_do_not_push_out_the_busy() -> None:
    crowd = Crowd()
    for n in range(10 * MAX_NAMES):
        crowd.count(f"sybil-{n}", n / 20)
        if n % 20 == 0:
            crowd.count("fair", n / 20)
    assert len(crowd._now) + len(crowd._before) <= 2 * MAX_NAMES + 2
    assert crowd.party("fair") == "fair"
    assert crowd.party("sybil-7") is None


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


def test_all_others_weigh_what_they_are_asked_to() -> None:
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


def asked(quotas: dict[str, Quota] | None = None, **counts: int) -> Asking:
    """Everybody's requests, evenly within a second."""
    asking = Asking(quotas or {})
    for name, count in counts.items():
        for n in range(count):
            asking.count(name, 1000 * n / count)
    return asking


@given(st.lists(st.builds(Need, AMOUNTS, st.floats(0.1, 10)), min_size=1, max_size=20), st.floats(0, 1))
def test_a_level_gives_out_what_there_is_and_nobody_gets_more_than_it_asks_for(needs: list[Need], share: float) -> None:
    amount = share * math.fsum(need.amount for need in needs)
    found = level(needs, amount)
    given_out = math.fsum(min(need.amount, found * need.weight) for need in needs)
    assert given_out == pytest.approx(amount, abs=1e-6)


def test_enough_for_all_has_no_level() -> None:
    assert level([Need(1, 1), Need(2, 1)], 4) == math.inf


def test_who_asks_for_little_is_let_in_whole_and_the_flood_has_the_rest() -> None:
    asking = asked(greedy=190, modest=10)
    assert asking.part("modest", 0.5, 1000) == 1.0
    assert asking.part("greedy", 0.5, 1000) == pytest.approx(90 / 190)


def test_who_ask_alike_are_let_in_alike_or_by_their_weights() -> None:
    asking = asked(a=100, b=100)
    assert (asking.part("a", 0.3, 1000), asking.part("b", 0.3, 1000)) == (pytest.approx(0.3), pytest.approx(0.3))
    weighted = asked({"a": Quota(weight=3)}, a=100, b=100)
    assert weighted.part("a", 0.4, 1000) == pytest.approx(0.6)
    assert weighted.part("b", 0.4, 1000) == pytest.approx(0.2)


def test_one_alone_has_the_plan_s_share_to_the_bit() -> None:
    assert asked(a=7).part("a", 0.1 + 0.2, 1000) == 0.1 + 0.2


def test_what_a_quota_refuses_anyway_is_left_to_the_others() -> None:
    bounded = {"bounded": Quota(rate_rps=1)}
    assert asked(bounded, bounded=100, free=100).part("free", 0.5, 1000) == pytest.approx(0.9)


def test_nobody_is_let_in_where_nothing_of_a_tier_is() -> None:
    assert asked(a=10, b=1).part("b", 0.0, 1000) == 0.0


def test_what_was_asked_long_ago_takes_no_part() -> None:
    asking = asked(greedy=190, modest=10)
    for n in range(3):
        asking.count("modest", (n + 1) * WINDOW_MS)
    assert asking.part("modest", 0.5, 3 * WINDOW_MS) == 0.5, "alone again"


def test_a_clock_that_jumps_back_begins_a_new_window_of_asking() -> None:
    asking = asked(greedy=190, modest=10)
    asking.count("modest", -5000.0)
    asking.count("other", -5000.0)
    assert asking.part("other", 0.5, -5000.0) == 0.5
