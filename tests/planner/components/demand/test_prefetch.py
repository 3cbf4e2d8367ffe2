"""What is loaded ahead: adapters that come with a base, warm components by time of day, a user's next variant."""

import json
import random
from collections.abc import Callable, Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.components.component import Kind
from planner.components.demand.bandit import PrefetchBandit
from planner.components.demand.cohesion import Cohesion
from planner.components.demand.cooccurrence import CoOccurrence, fitting, prefetch_set, theta
from tests.planner.components.build import a_component, some

DAY_MS, HOUR_MS, SLOTS = 86_400_000, 3_600_000, 24
COUNTS = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.1, 100))


def test_of_counts_10_3_1_the_first_two_are_loaded_with_the_base_at_a_threshold_of_a_fifth() -> None:
    counts = {"adapter:c": 1.0, "adapter:a": 10.0, "adapter:b": 3.0}
    assert prefetch_set(counts, 0.2, limit=10) == ("adapter:a", "adapter:b")
    assert prefetch_set(counts, 0.2, limit=1) == ("adapter:a",)
    assert prefetch_set({}, 0.2, limit=10) == ()


@given(COUNTS, st.floats(0, 1), st.integers(0, 9))
def test_the_prefetch_set_is_the_head_above_the_threshold(counts: dict[str, float], free: float, limit: int) -> None:
    chosen = prefetch_set(counts, theta(free), limit)
    above = [each for each in counts if counts[each] > theta(free) * max(counts.values())]
    assert len(chosen) == min(limit, len(above))
    assert all(counts[a] >= counts[b] for a in chosen for b in set(above) - set(chosen))


def test_the_threshold_falls_from_30_to_15_percent_the_more_memory_is_free() -> None:
    assert [theta(free) for free in (-1, 0, 0.5, 1, 2)] == pytest.approx([0.3, 0.3, 0.225, 0.15, 0.15])


def test_pairs_are_counted_by_base_fade_and_survive_a_restart() -> None:
    pairs = CoOccurrence(half_life_ms=100.0)
    pairs.on_request("base:a", ["adapter:x", "adapter:x", "control:o"], 0)
    pairs.on_request("base:b", ["adapter:y"], 0)
    pairs.on_request("base:b", [], 0)
    assert pairs.counts("base:a", 0) == {"adapter:x": 1.0, "control:o": 1.0}
    assert pairs.counts("base:a", 100) == pytest.approx({"adapter:x": 0.5, "control:o": 0.5})
    again = CoOccurrence(half_life_ms=100.0)
    again.restore(json.loads(json.dumps(pairs.snapshot())))
    assert again.counts("base:a", 50) == pairs.counts("base:a", 50)
    assert again.counts("base:c", 50) == {}


def test_a_room_takes_what_fits_in_the_given_order() -> None:
    components = some("adapter:a", "adapter:c") | {"adapter:b": a_component("adapter:b", size=100)}
    assert fitting(["adapter:a", "adapter:b", "adapter:gone", "adapter:c"], components, 25) == (
        "adapter:a",
        "adapter:c",
    )


NAMES = [f"base:{n}" for n in range(48)]
COMPONENTS = some(*NAMES)
ROOM = 40  # bytes: four components of 48


def periodic(day: int, hour: int, dice: random.Random) -> set[str]:
    """Two components of each hour, every day but one in ten, among others at random; an hour later from day 40 on."""
    at = hour if day < 40 else (hour + 1) % SLOTS
    habit = {f"base:{2 * at}", f"base:{2 * at + 1}"}
    return {each for each in habit if dice.random() < 0.9} | {dice.choice(NAMES) for _ in range(2)}


def steady(day: int, hour: int, dice: random.Random) -> set[str]:
    """Four components that are asked for at any hour, among others at random."""
    del day, hour
    return {each for each in NAMES[:4] if dice.random() < 0.9} | {dice.choice(NAMES)}


def _hits(
    days: range, choose: Callable[[float], Collection[str]], trace: Callable[[int, int, random.Random], set[str]],
    learn: Callable[[float, Collection[str], Collection[str]], None] | None = None,
) -> float:  # fmt: skip
    """The share of requested components that had been prefetched, over days; the trace of a day is always the same."""
    hits = asked = 0
    for day in days:
        for hour in range(SLOTS):
            now_ms = day * DAY_MS + hour * HOUR_MS
            chosen, requested = choose(now_ms), trace(day, hour, random.Random(100 * day + hour))
            hits += len(requested & set(chosen))
            asked += len(requested)
            if learn:
                learn(now_ms, chosen, requested)
    return hits / asked


def _bandit() -> tuple[PrefetchBandit, Callable[[float], Collection[str]]]:
    bandit = PrefetchBandit(DAY_MS, SLOTS)
    return bandit, lambda now_ms: bandit.choose(COMPONENTS.values(), ROOM, now_ms)


def _best_fixed(days: range, trace: Callable[[int, int, random.Random], set[str]]) -> list[str]:
    """The components that a fixed prefetch does best with on these very days: no fixed choice can know more."""
    counts = dict.fromkeys(NAMES, 0)
    for day in days:
        for hour in range(SLOTS):
            for each in trace(day, hour, random.Random(100 * day + hour)):
                counts[each] += 1
    return sorted(counts, key=lambda each: -counts[each])[:4]


def test_the_bandit_beats_the_best_fixed_prefetch_of_hindsight_on_a_periodic_trace() -> None:
    bandit, choose = _bandit()
    _hits(range(10), choose, periodic, bandit.end_slot)
    learnt = _hits(range(10, 30), choose, periodic, bandit.end_slot)
    fixed = _best_fixed(range(10, 30), periodic)
    assert _hits(range(10, 30), lambda _: fixed, periodic) < 0.15
    assert learnt > 0.45  # half of what is asked for is at random


def test_the_bandit_follows_a_habit_that_moves_to_another_hour() -> None:
    bandit, choose = _bandit()
    _hits(range(40), choose, periodic, bandit.end_slot)
    first = _hits(range(40, 43), choose, periodic, bandit.end_slot)
    _hits(range(43, 60), choose, periodic, bandit.end_slot)
    later = _hits(range(60, 70), choose, periodic, bandit.end_slot)
    assert first < later
    assert later > 0.4


def test_where_nothing_is_periodic_the_bandit_does_about_as_well_as_the_best_fixed_prefetch() -> None:
    bandit, choose = _bandit()
    _hits(range(10), choose, steady, bandit.end_slot)
    learnt = _hits(range(10, 30), choose, steady, bandit.end_slot)
    fixed = _best_fixed(range(10, 30), steady)
    assert learnt > 0.85 * _hits(range(10, 30), lambda _: fixed, steady)


def test_a_bandit_goes_on_after_a_restart_and_equal_histories_choose_equally() -> None:
    bandit, choose = _bandit()
    _hits(range(5), choose, periodic, bandit.end_slot)
    again, choose_again = _bandit()
    again.restore(**json.loads(json.dumps(bandit.snapshot())))
    for hour in range(SLOTS):
        assert choose(hour * HOUR_MS) == choose_again(hour * HOUR_MS)


def test_a_bandit_takes_no_more_than_fits() -> None:
    _, choose = _bandit()
    assert len(choose(0.0)) <= 4


def test_nothing_is_extended_beyond_the_window_or_before_there_is_evidence() -> None:
    cohesion = Cohesion(window_ms=100.0)
    cohesion.on_request("u", ["adapter:x"], 0)
    assert cohesion.probability("adapter:x", 1) == 0.0
    for n in range(1, 200):
        cohesion.on_request("u", ["adapter:x"], 50 * n)
    assert cohesion.probability("adapter:x", 50 * 199) > 0.8
    assert cohesion.probability("adapter:x", 50 * 199 + 50) == pytest.approx(
        cohesion.probability("adapter:x", 50 * 199) / 2
    )
    assert cohesion.probability("adapter:x", 50 * 199 + 100) == 0.0
    assert cohesion.follow_up(Kind.BASE) == 0.0


def test_users_who_do_not_come_back_extend_nothing() -> None:
    cohesion = Cohesion(window_ms=100.0)
    for n in range(200):
        cohesion.on_request(f"u{n}", ["adapter:x"], 10 * n)
    assert cohesion.probability("adapter:x", 2000) == 0.0


def test_a_habit_of_a_hundred_days_is_forgotten_within_thirty_days_without_it() -> None:
    bandit = PrefetchBandit(DAY_MS, SLOTS, exploration=0.0)
    for day in range(100):
        bandit.end_slot(day * DAY_MS, ["base:0"], ["base:0"])
    assert bandit.index("base:0", 0) > 0.9
    for day in range(100, 130):
        bandit.end_slot(day * DAY_MS, ["base:0"], [])
    assert bandit.index("base:0", 0) < 0.3
