"""How well lookups do: what a heartbeat says."""

from typing import Any

from planner.reuse.lookups.breaker import Breaker, Call, Probe
from planner.reuse.lookups.health import CallWindow
from schemas.messages import ReuseHealth


def health(**changes: Any) -> ReuseHealth:
    values = {"breaker": "closed", "lookups": 10, "unanswered": 0.0, "p50_ms": 4.0, "p95_ms": 9.0}
    return ReuseHealth(**(values | changes))


def test_a_report_says_how_many_were_answered_and_how_soon() -> None:
    window, breaker = CallWindow(), Breaker()
    for took_ms in (1.0, 2.0, 3.0, 100.0):
        call = Call(took_ms, has_failed=took_ms == 100)
        breaker = breaker.after_call(call, 0)
        window.add(call, breaker)
    report = window.report(3, {"floor": 2})
    assert report == health(lookups=4, unanswered=0.25, p50_ms=2.0, p95_ms=100.0, hits=3, misses={"floor": 2})


def test_what_was_before_the_breaker_opened_or_closed_says_nothing_any_more() -> None:
    window, breaker = CallWindow(), Breaker()
    for took_ms, has_failed in [(1.0, False)] * 50 + [(100.0, True)] * 5:
        call = Call(took_ms, has_failed=has_failed)
        breaker = breaker.after_call(call, 0)
        window.add(call, breaker)
    assert (breaker.is_open, window.report(0, {})) == (
        True, health(breaker="failing", lookups=5, unanswered=1.0, p50_ms=100.0, p95_ms=100.0),
    )  # fmt: skip
    for _ in range(5):
        breaker = breaker.after_probe(Probe(2.0, 100.0), 0)
        window.add(Call(2.0), breaker)
    assert window.report(0, {}) == health(lookups=5, p50_ms=2.0, p95_ms=2.0)


def test_a_few_failures_that_opened_no_breaker_are_forgotten_after_five_probes_in_a_row() -> None:
    window, breaker = CallWindow(), Breaker()
    for _ in range(4):
        breaker = breaker.after_call(Call(100.0, has_failed=True), 0)
        window.add(Call(100.0, has_failed=True), breaker)
    for _ in range(4):
        breaker = breaker.after_probe(Probe(2.0, 100.0), 0)
        window.add(Call(2.0), breaker, is_probe=True)
    assert not breaker.is_open
    assert window.report(0, {}).unanswered == 0.5
    window.add(Call(2.0), breaker, is_probe=True)
    assert window.report(0, {}) == health(lookups=5, p50_ms=2.0, p95_ms=2.0)


def test_a_lookup_between_probes_keeps_what_jobs_met() -> None:
    window, breaker = CallWindow(), Breaker()
    window.add(Call(100.0, has_failed=True), breaker)
    for number in range(12):
        window.add(Call(2.0), breaker, is_probe=number % 4 != 0)
    assert window.report(0, {}).lookups == 13
