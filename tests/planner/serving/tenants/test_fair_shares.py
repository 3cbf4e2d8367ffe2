"""What is shed is shed from those who flood: who asks for little is let in whole."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.tenants.fair_shares import WINDOW_MS, Asking, Need, level
from planner.serving.tenants.quotas import Quota

AMOUNTS = st.floats(0.01, 1000)


def asked(quotas: dict[str, Quota] | None = None, **counts: int) -> Asking:
    """Everybody's requests, evenly within a second."""
    asking = Asking(quotas or {})
    for name, count in counts.items():
        for n in range(count):
            asking.heard(name, 1000 * n / count)
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


def test_what_was_long_ago_counts_for_nothing() -> None:
    asking = asked(greedy=190, modest=10)
    for n in range(3):
        asking.heard("modest", (n + 1) * WINDOW_MS)
    assert asking.part("modest", 0.5, 3 * WINDOW_MS) == 0.5, "alone again"


def test_a_clock_that_jumps_back_begins_anew() -> None:
    asking = asked(greedy=190, modest=10)
    asking.heard("modest", -5000.0)
    asking.heard("other", -5000.0)
    assert asking.part("other", 0.5, -5000.0) == 0.5
