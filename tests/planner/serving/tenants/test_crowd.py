"""Names that anybody may choose: a few, or busy ones, are each a party; a new one each time is one with all such."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from planner.serving.tenants.crowd import FEW, MOST_NAMES, MOST_PARTIES, WINDOW_MS, Crowd


def heard(counts: Counter[str], within_ms: float = 5000) -> Crowd:
    crowd = Crowd()
    order = [name for name, count in counts.items() for _ in range(count)]
    for n, name in enumerate(order):
        crowd.heard(name, 1000 + within_ms * n / len(order))
    crowd.heard(order[-1], 1000 + within_ms + 200)
    return crowd


def parties(crowd: Crowd, names: Counter[str]) -> set[str]:
    return {name for name in names if crowd.party(name) == name}


def test_a_few_names_are_each_a_party_however_rarely_they_ask() -> None:
    counts = Counter({f"t-{n}": 1 for n in range(FEW)})
    assert parties(heard(counts), counts) == counts.keys()


def test_a_new_name_each_time_is_one_party_and_who_asks_again_is_himself() -> None:
    counts = Counter({f"sybil-{n}": 1 for n in range(400)}) + Counter({"fair": 20})
    assert parties(heard(counts), counts) == {"fair"}
    counts = Counter({f"sybil-{n}": 3 for n in range(400)}) + Counter({"fair": 20, "rare": 2})
    assert parties(heard(counts), counts) == {"fair"}


@given(st.lists(st.integers(1, 100), min_size=FEW + 1, max_size=150))
def test_many_parties_take_as_many_names_with_as_many_requests(asked: list[int]) -> None:
    counts = Counter({f"t-{n}": count for n, count in enumerate(asked)})
    own = parties(heard(counts), counts)
    assert len(own) <= MOST_PARTIES
    assert all(counts[name] + 1 >= len(own) for name in own)  # one was heard once more
    rest = [counts[name] for name in counts if name not in own]
    assert not own or max(rest, default=0) <= min(counts[name] for name in own) + 1, "the busiest"


def test_what_was_long_ago_counts_for_nothing() -> None:
    crowd = heard(Counter({f"sybil-{n}": 1 for n in range(400)}))
    assert crowd.party("sybil-1") is None
    for n in range(1, 4):
        crowd.heard("fair", 10_000 + n * WINDOW_MS)
    assert crowd.party("sybil-1") == "sybil-1"


def test_a_clock_that_jumps_back_begins_anew() -> None:
    crowd = heard(Counter({f"sybil-{n}": 1 for n in range(400)}))
    crowd.heard("fair", -1000.0)
    assert crowd.party("sybil-1") == "sybil-1"


def test_names_without_end_take_bounded_memory_and_do_not_push_out_the_busy() -> None:
    crowd = Crowd()
    for n in range(10 * MOST_NAMES):
        crowd.heard(f"sybil-{n}", n / 20)
        if n % 20 == 0:
            crowd.heard("fair", n / 20)
    assert len(crowd._now) + len(crowd._before) <= 2 * MOST_NAMES + 2
    assert crowd.party("fair") == "fair"
    assert crowd.party("sybil-7") is None
