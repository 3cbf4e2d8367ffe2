"""What heartbeats and results show of reuse."""

import pytest

from planner.observation.reuse import MAX_JOBS, ObservedHits, ObservedReuse, ReuseLog
from planner.observation.workers import ReceivedHeartbeat
from schemas.messages import ReuseHealth
from tests.builders import NOW_MS, a_catalog, a_heartbeat

LIVE = ("w-1", "w-2")


def heard(*reports: ReuseHealth | None) -> dict[str, ReceivedHeartbeat]:
    return {
        f"w-{at}": ReceivedHeartbeat(a_heartbeat(worker_id=f"w-{at}", reuse=report), NOW_MS)
        for at, report in enumerate(reports, 1)
    }


def a_health(**changes: object) -> ReuseHealth:
    values = {"breaker": "closed", "lookups": 20, "unanswered": 0.0, "p50_ms": 3.0, "p95_ms": 9.0}
    return ReuseHealth(**(values | changes))


def test_nobody_looked_anything_up() -> None:
    assert ReuseLog().observed(heard(None, None), LIVE) is None


def test_workers_weigh_as_much_as_they_looked_up_and_the_gone_nothing() -> None:
    seen = ReuseLog().observed(
        heard(a_health(), a_health(lookups=60, unanswered=0.5, p50_ms=7.0, breaker="failing"), a_health(p50_ms=1e6)),
        LIVE,
    )
    assert seen == ObservedReuse(lookups=80, unanswered=0.375, failing=0.5, p50_ms=6.0, p95_ms=9.0)


def test_a_breaker_that_is_open_shows_without_a_lookup() -> None:
    assert ReuseLog().observed(heard(a_health(breaker="failing", lookups=0)), LIVE) == ObservedReuse(failing=1.0)


def test_a_level_s_rate_is_the_share_of_its_steps_that_were_saved() -> None:
    log, catalog = ReuseLog(), a_catalog()
    for step, steps, miss in ((10, 25, ""), (5, 25, ""), (20, 50, ""), (0, 25, "floor")):
        log.add("heavy~k10", step, steps, miss, catalog)
    assert log.observed({}, ()).hits == {"heavy~k10": ObservedHits(4, pytest.approx((1 + 0.5 + 1 + 0) / 4))}


@pytest.mark.parametrize("miss", ["timeout", "failed", "breaker", "absent"])
def test_a_store_that_does_not_answer_says_nothing_of_how_prompts_repeat(miss: str) -> None:
    log = ReuseLog()
    log.add("heavy~k10", 0, 25, miss, a_catalog())
    assert log.observed({}, ()) is None


@pytest.mark.parametrize("level", ["heavy", "gone~k4"])
def test_a_level_that_saves_nothing_or_is_no_more_is_ignored(level: str) -> None:
    log = ReuseLog()
    log.add(level, 0, 25, "route", a_catalog())
    assert log.observed({}, ()) is None


def test_only_the_newest_jobs_count() -> None:
    log, catalog = ReuseLog(), a_catalog()
    for at in range(MAX_JOBS + 10):
        log.add("heavy~k10", 10 if at < 10 else 0, 25, "" if at < 10 else "none", catalog)
    assert log.observed({}, ()).hits["heavy~k10"] == ObservedHits(MAX_JOBS, 0.0)
    log.clear()
    assert log.observed({}, ()) is None


@pytest.mark.parametrize(
    "changes",
    [{"lookups": -1}, {"unanswered": 1.5}, {"p50_ms": -1.0}, {"p95_ms": float("nan")}, {"p95_ms": float("inf")}],
)
def test_a_report_of_impossible_figures_counts_for_none(changes: dict[str, float]) -> None:
    log = ReuseLog()
    assert log.observed(heard(a_health(**changes)), LIVE) is None
    assert log.observed(heard(a_health(**changes), a_health()), LIVE) == log.observed(heard(a_health()), LIVE)


def test_a_job_that_says_it_began_before_its_first_step_saved_nothing() -> None:
    log = ReuseLog()
    log.add("heavy~k10", -5, 25, "", a_catalog())
    assert log.observed({}, ()).hits["heavy~k10"] == ObservedHits(1, 0.0)
