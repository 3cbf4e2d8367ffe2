"""Quotas: rates hold in the long run, and bursts pass."""

from hypothesis import given
from hypothesis import strategies as st

from planner.serving.admission.quotas import Bucket, Quota, take_tokens

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


def test_after_a_clock_was_put_back_tokens_come_again_by_the_new_time() -> None:
    emptied, retry = take_tokens(Bucket(0, 3_600_000), RATE, 1, 0)
    assert retry == 500
    assert take_tokens(emptied, RATE, 1, 500)[1] is None


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0.5, 4)), max_size=200))
def test_in_the_long_run_no_more_is_taken_than_rate_and_burst_allow(arrivals: list[tuple[int, float]]) -> None:
    bucket, taken, now = None, 0.0, 0
    for gap_ms, cost in arrivals:
        now += gap_ms
        bucket, retry = take_tokens(bucket, RATE, cost, now)
        taken += 0 if retry is not None else cost
    assert taken <= RATE.burst + RATE.rate_rps * now / 1000 + 1e-6
