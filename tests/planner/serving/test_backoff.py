"""The simulator waits for a store as the live roles do: their library's waits are this rule's."""

import tenacity

from planner.serving.backoff import MAX_RETRY_S, RETRY_S, backoff_s


def test_waits_are_those_of_the_library_that_live_roles_use() -> None:
    live, state = tenacity.wait_exponential(RETRY_S, max=MAX_RETRY_S), tenacity.RetryCallState(None, None, (), {})  # type: ignore[arg-type]
    for failures in range(1, 50):
        state.attempt_number = failures
        assert backoff_s(failures) == live(state)
    assert [backoff_s(failures) for failures in (1, 2, 7, 1000)] == [0.1, 0.2, 5.0, 5.0]
