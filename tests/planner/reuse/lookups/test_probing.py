"""When a worker tests the stores in the background."""

from planner.reuse.lookups.breaker import Breaker, Call
from planner.reuse.lookups.probing import probe_due


def test_behind_a_closed_breaker_a_probe_is_due_where_nothing_was_asked_for_a_period() -> None:
    assert not probe_due(Breaker(), 0.0, 4999.0)
    assert probe_due(Breaker(), 0.0, 5000.0)
    assert probe_due(Breaker(), 9000.0, 5000.0), "a clock that jumps back probes at once"


def test_behind_an_open_breaker_the_breaker_says_when() -> None:
    breaker = Breaker()
    for _ in range(5):
        breaker = breaker.after_call(Call(100.0, has_failed=True), 1000.0)
    assert not probe_due(breaker, 0.0, 5999.0)
    assert probe_due(breaker, 5999.0, 6000.0)
