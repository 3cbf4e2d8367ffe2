"""Quotas: rates hold in the long run, bursts pass, and crowded backlogs are shared by weight."""

from hypothesis import given
from hypothesis import strategies as st

from planner.quotas import Bucket, Quota, exceeds_share, is_crowded_out, take_tokens

RATE = Quota(rate_rps=2, burst=4)


def test_a_burst_passes_and_the_next_waits_for_its_token() -> None:
    bucket = None
    for _ in range(4):
        bucket, retry = take_tokens(bucket, RATE, 1, 1000)
        assert retry is None
    bucket, retry = take_tokens(bucket, RATE, 1, 1000)
    assert retry == 500
    _, retry = take_tokens(bucket, RATE, 1, 1500)
    assert retry is None


def test_a_tenant_without_a_rate_is_never_refused() -> None:
    assert take_tokens(None, Quota(), 1000, 0)[1] is None


def test_a_request_larger_than_the_burst_is_served_from_a_full_bucket_and_paid_back() -> None:
    bucket, retry = take_tokens(None, RATE, 8, 0)
    assert retry is None
    assert bucket.tokens == -4
    assert take_tokens(bucket, RATE, 1, 0)[1] == 2500


def test_a_clock_that_jumps_back_gives_nothing() -> None:
    assert take_tokens(Bucket(0, 10_000), RATE, 1, 0) == (Bucket(0, 10_000), 500)


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0.5, 4)), max_size=200))
def test_in_the_long_run_no_more_is_taken_than_rate_and_burst_allow(arrivals: list[tuple[int, float]]) -> None:
    bucket, taken, now = None, 0.0, 0
    for gap_ms, cost in arrivals:
        now += gap_ms
        bucket, retry = take_tokens(bucket, RATE, cost, now)
        taken += 0 if retry is not None else cost
    assert taken <= RATE.burst + RATE.rate_rps * now / 1000 + 1e-6


def test_an_uncrowded_backlog_is_anybodys() -> None:
    assert not exceeds_share("a", 10, {"a": 30, "b": 5}, {}, 100)


def test_a_lone_tenant_may_fill_the_backlog() -> None:
    assert not exceeds_share("a", 10, {"a": 90}, {}, 100)
    assert exceeds_share("a", 11, {"a": 90}, {}, 100)


def test_a_crowded_backlog_is_shared_by_weight() -> None:
    weights = {"a": 3.0, "b": 1.0}
    assert not exceeds_share("a", 5, {"a": 70, "b": 10}, weights, 100)
    assert exceeds_share("a", 6, {"a": 70, "b": 10}, weights, 100)
    assert exceeds_share("b", 6, {"a": 50, "b": 20}, weights, 100)


def test_a_newcomer_gets_in_while_another_fills_the_backlog() -> None:
    assert not exceeds_share("new", 20, {"old": 80}, {}, 100)
    assert exceeds_share("old", 1, {"old": 80, "new": 20}, {}, 100)


def test_a_backlog_is_no_reason_to_refuse_those_whose_it_is_not() -> None:
    assert is_crowded_out("new", {"old": 80}, {}, 100)
    assert not is_crowded_out("old", {"old": 80}, {}, 100), "alone it may fill the backlog, and no more"
    assert not is_crowded_out("new", {"old": 40}, {}, 100), "the other has its share"
    assert not is_crowded_out("new", {"old": 80, "new": 50}, {}, 100), "so has this one"
    assert is_crowded_out("new", {"old": 80, "new": 10}, {"old": 3.0}, 100)
    assert not is_crowded_out("new", {"old": 70, "new": 10}, {"old": 3.0}, 100)


@given(st.lists(st.sampled_from("abc"), max_size=300), st.integers(1, 20))
def test_those_let_in_beside_a_flood_have_no_more_than_twice_what_is_allowed(tenants: list[str], cost: int) -> None:
    """Nothing ends, and whoever is crowded out or within its share is let in, as the router does."""
    open_ms: dict[str, float] = {"flood": 100.0}
    for tenant in tenants:
        is_let_in = is_crowded_out(tenant, open_ms, {}, 100) and not exceeds_share(tenant, cost, open_ms, {}, 100)
        open_ms[tenant] = open_ms.get(tenant, 0.0) + cost * is_let_in
    assert sum(open_ms.values()) <= 200
