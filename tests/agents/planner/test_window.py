"""What the planner remembers of prompts and results."""

import json
import math
from dataclasses import asdict

import pytest

from agents.planner.window import Arrivals, Ends
from planner.observation.observation import SERVED_MS, Served, hardness_shares
from planner.serving.outcomes import completed, rejected, result_of
from schemas.messages import Outcome, Result, Step
from streams.operator.explain import steps_of
from tests.builders import NOW_MS, a_catalog, a_classified, a_job, a_plan, a_request, an_image, an_outcome


def a_result(confidence: float | None = 0.4, ended_ms: int = NOW_MS + 100, hardness: float = 0.5) -> Result:
    image = an_image(a_job(a_classified(hardness=hardness)))
    return result_of(completed(image, confidence, 0.3, reason="kept", by="discriminator", policy="p", now_ms=ended_ms))


def taken(ends: Ends, *results: Result) -> Ends:
    for result in results:
        ends.add(result, steps_of(result))
    return ends


def test_what_is_remembered_of_a_prompt_is_its_own_and_the_rest_is_shared() -> None:
    arrivals = Arrivals()
    for n in range(5000):  # as they are read: each with a mapping of its own
        request = a_request(request_id=f"r-{n}", tier="".join(["stand", "ard"]))
        arrivals.add(a_classified(request, classes={"models": f"level-{n % 7}"}))
    remembered = [arrival for arrival in arrivals._known.values() if arrival]
    assert len({id(arrival.classes) for arrival in remembered}) == 7
    assert len({id(arrival.tier) for arrival in remembered}) == 1
    for n in range(5000):
        arrivals.add(a_classified(a_request(request_id=f"odd-{n}"), classes={"models": f"of-its-own-{n}"}))
    assert len(arrivals._classes) <= 1001


def test_demand_counts_and_histograms_come_from_the_prompts() -> None:
    arrivals = Arrivals()
    for n in range(30):
        easy = n % 3 < 2
        arrivals.add(
            a_classified(
                a_request(request_id=f"r-{n}"),
                received_ms=NOW_MS - 1000 * n,
                hardness=0.05 if easy else 0.95,
                classes={"models": "light" if easy else "heavy", "reuse": "heavy~k4"},
            )
        )
    assert arrivals.demand_rps(NOW_MS) == pytest.approx(1.0)
    assert arrivals.counts(NOW_MS) == (0,) * 30 + (1,) * 30
    assert arrivals.hardness() == hardness_shares([0.05] * 20 + [0.95] * 10)
    assert arrivals.classes() == {
        "models": {"heavy": pytest.approx(1 / 3), "light": pytest.approx(2 / 3)}, "reuse": {"heavy~k4": 1.0},
    }  # fmt: skip
    arrivals.clear()
    assert (arrivals.demand_rps(NOW_MS), arrivals.hardness(), arrivals.classes()) == (0.0, (), {})


def test_a_storm_of_retries_is_no_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    arrivals = Arrivals()
    monkeypatch.setattr("agents.planner.window.MOST_ARRIVALS", 3)
    for name in "aabbaab":
        arrivals.add(a_classified(a_request(request_id=name), received_ms=NOW_MS - 1))
    assert arrivals.demand_rps(NOW_MS) == pytest.approx(2 / 30)
    for name in "cda":
        arrivals.add(a_classified(a_request(request_id=name), received_ms=NOW_MS - 1))
    assert arrivals.demand_rps(NOW_MS) == pytest.approx(3 / 30), "a was so long ago that it is one more; b is forgotten"


def test_what_a_quota_refuses_is_no_demand_in_whatever_order_its_prompt_and_its_end_are_read() -> None:
    arrivals = Arrivals()
    asked = [a_request(request_id=name, tier="batch" if name == "a" else "standard") for name in "abcd"]
    refused = {n: result_of(rejected(asked[n], reason="", by="r", now_ms=NOW_MS, code="quota")) for n in (1, 2)}
    full = result_of(rejected(asked[3], reason="full", by="router", now_ms=NOW_MS, code="overloaded"))
    for result in (refused[2], full):
        arrivals.on_result(result)
    for request in asked:
        arrivals.add(a_classified(request, received_ms=NOW_MS - 1, hardness=0.9 if request.request_id in "bc" else 0.1))
    arrivals.on_result(refused[1])
    assert arrivals.demand_rps(NOW_MS) == pytest.approx(2 / 30), "more workers would serve what is refused as too much"
    assert arrivals.hardness() == hardness_shares([0.1, 0.1])
    assert arrivals.tiers() == {"batch": 0.5, "standard": 0.5}


def test_tiers_and_what_was_shed_are_seen() -> None:
    arrivals = Arrivals()
    for n, tier in enumerate(("batch", "standard", "standard", "standard")):
        arrivals.add(a_classified(a_request(request_id=f"r-{n}", tier=tier)))
    assert arrivals.tiers() == {"batch": 0.25, "standard": 0.75}
    shed = rejected(a_request(), reason="shed: ...", by="router", now_ms=NOW_MS, code="shed")
    assert taken(Ends(slo_ms=300), result_of(shed)).served(NOW_MS + 1) == Served(1, 0.0, None), "shed is not in time"


def test_answers_within_the_slo_are_in_time_and_what_was_never_to_be_served_does_not_count() -> None:
    refusals: list[Outcome] = [
        rejected(a_request(request_id="bad"), reason="no prompt", by="classifier", now_ms=NOW_MS),
        rejected(a_request(request_id="busy"), reason="full", by="router", now_ms=NOW_MS, code="overloaded"),
        an_outcome(ended_ms=NOW_MS),
    ]
    results = [a_result(ended_ms=NOW_MS + 300), a_result(ended_ms=NOW_MS + 301), *map(result_of, refusals)]
    assert taken(Ends(slo_ms=300), *results).served(NOW_MS + 400) == Served(4, 0.25, None)
    assert taken(Ends(slo_ms=0), *results).served(NOW_MS + 400) == Served(4, 0.5, None)


def test_results_older_than_the_window_are_forgotten() -> None:
    assert taken(Ends(0), a_result(ended_ms=NOW_MS)).served(NOW_MS + SERVED_MS) == Served()


def test_a_reader_that_begins_again_has_forgotten_results_and_confidences() -> None:
    ends = taken(Ends(0), a_result(ended_ms=NOW_MS))
    ends.clear()
    assert (ends.served(NOW_MS), ends.deferral(a_plan(), a_catalog(), (0.0, 1.0))) == (Served(), ())


def test_the_deferral_curve_is_that_of_the_confidences_on_the_results_paths() -> None:
    ends = taken(Ends(0), *(a_result(n / 200) for n in range(200)))
    (seen,) = ends.deferral(a_plan(), a_catalog(), (0.0, 1.0))
    assert (seen.level, seen.discriminator, seen.images) == ("light", "look", 200)
    assert seen.curves[0] is not None
    assert {round(p.threshold, 2): p.deferred for p in seen.curves[0]}[0.5] == pytest.approx(0.5)


def test_pictures_that_nobody_scored_say_nothing_and_nonsense_is_counted() -> None:
    ends = taken(Ends(0), a_result(None))
    assert ends.deferral(None, a_catalog(), (0.0, 1.0)) == ()
    step = Step(
        stage=0, level="light", worker_id="w", plan_version=1, queue_ms=0, paint_ms=1, batch=1, attempt=1,
        confidence=math.nan,
    )  # fmt: skip
    ends.add(a_result(), [step])
    (seen,) = ends.deferral(None, a_catalog(), (0.0, 1.0))
    assert (seen.images, seen.ignored) == (0, 1)
    assert json.dumps(asdict(step))
