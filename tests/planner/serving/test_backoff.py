"""How long roles wait between two tries of a store that is away."""

from planner.serving.backoff import MAX_RETRY_S, backoff_s


def test_each_failure_in_a_row_doubles_the_wait_up_to_a_limit() -> None:
    assert [backoff_s(failures) for failures in (1, 2, 3, 6, 7, 1000)] == [0.1, 0.2, 0.4, 3.2, MAX_RETRY_S, MAX_RETRY_S]
