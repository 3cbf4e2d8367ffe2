"""What is remembered of results and of the confidences on their paths."""

import json
import math
from dataclasses import asdict

import pytest

from planner.observation.observation import SERVED_MS, Served
from planner.observation.results import Results
from planner.serving.deadlines import MAX_STEP_BACK_MS
from planner.serving.decisions import OVERLOADED, QUOTA, SHED, UNHONOURED
from schemas.messages import Status
from tests.builders import NOW_MS, a_catalog, a_plan

ALL = (0.0, 1.0)


def results(*latencies_ms: float, slo_ms: float = 0.0) -> Results:
    """So many completed requests that ended together."""
    made = Results(slo_ms)
    for latency_ms in latencies_ms:
        made.add(Status.COMPLETED, NOW_MS, latency_ms)
    return made


def test_an_answer_beyond_the_slo_is_late() -> None:
    assert results(300.0, 301.0, slo_ms=300.0).served(NOW_MS) == Served(2, 0.5)
    assert results(300.0, 301.0).served(NOW_MS) == Served(2, 1.0)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.COMPLETED])
@pytest.mark.parametrize("code", [OVERLOADED, SHED, QUOTA, UNHONOURED, "invalid", ""])
def test_only_what_more_workers_would_have_served_counts(status: Status, code: str) -> None:
    made = results(1.0)
    made.add(status, NOW_MS, 1.0, code)
    counts = status is not Status.CANCELLED and (status is not Status.REJECTED or code in (OVERLOADED, SHED))
    counts = counts and (status, code) != (Status.FAILED, "invalid")  # bytes that are no request
    assert made.served(NOW_MS) == (Served(2, 0.5) if counts else Served(1, 1.0))


def test_the_last_minute_counts_even_after_the_clock_jumped_back_for_as_long_as_it_is_waited_for() -> None:
    made = results(1.0)
    assert made.served(NOW_MS - 1) == made.served(NOW_MS + SERVED_MS) == Served()
    made.served(NOW_MS + SERVED_MS + MAX_STEP_BACK_MS - 1)
    assert made.served(NOW_MS + SERVED_MS - 1) == Served(1, 1.0)


def test_a_reader_that_begins_again_has_forgotten_results_and_confidences() -> None:
    made = results(1.0)
    made.add_score("light", "look", 0.5, 0.5)
    made.clear()
    assert (made.served(NOW_MS), made.deferral(a_plan(), a_catalog(), ALL)) == (Served(), ())


def test_the_deferral_curve_of_a_level_is_that_of_its_scores_by_the_discriminator_that_judges_it_now() -> None:
    made = results()
    for n in range(200):
        made.add_score("light", "look", 0.5, n / 200)
        made.add_score("light", "before", 0.5, 0.5)
        made.add_score("heavy", "look", 0.5, 0.5)
    (seen,) = made.deferral(a_plan(), a_catalog(), ALL)
    assert (seen.level, seen.discriminator, seen.images) == ("light", "look", 200)
    assert seen.curves[0] is not None
    assert {round(p.threshold, 2): p.deferred for p in seen.curves[0]}[0.5] == pytest.approx(0.5)


def test_a_confidence_that_is_no_number_is_counted_apart() -> None:
    made = results()
    made.add_score("light", "look", 0.5, math.nan)
    (seen,) = made.deferral(None, a_catalog(), ALL)
    assert (seen.images, seen.ignored) == (0, 1)
    assert json.dumps(asdict(seen))
