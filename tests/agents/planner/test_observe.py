"""The one observation that the planner makes of its topics, what it remembers of them, and what it does without one."""

import json
import math
from dataclasses import asdict

import pytest

from agents.planner import observe as sources
from agents.planner.observe import QUEUE_WINDOW_MS, Arrivals, Ends, QueueWatch, Sources
from planner.observation.observation import SERVED_MS, Observation, Queue, Seen, Served, hardness_shares, live_workers
from planner.serving.outcomes import completed, rejected, result_of
from schemas.errors import PochadeError
from schemas.messages import Heartbeat, Outcome, Result, Step
from schemas.topics import RESULTS
from streams import metrics
from streams.operator.explain import steps_of
from streams.settings import load
from tests.agents.stubs import StubFleet, a_record
from tests.builders import (
    NOW_MS,
    a_catalog,
    a_classified,
    a_heartbeat,
    a_job,
    a_plan,
    a_request,
    an_image,
    an_outcome,
    owned,
)


def opened(fleet: StubFleet, **planner: object) -> Sources:
    return Sources(load({"planner": {"slo_s": 2.5, **planner}}), a_catalog(), fleet)


def observed(sources: Sources, fleet: StubFleet) -> Observation:
    return sources.observation(NOW_MS, live_workers(fleet.heartbeats, NOW_MS, 3000), a_plan())


def missed(source: str) -> float:
    return metrics.FALLBACKS.labels("planner", f"no-{source}")._value.get()


def test_everything_that_is_seen_is_in_one_observation() -> None:
    fleet = StubFleet().hear(a_heartbeat(partitions=(owned(0, 9, 100),)), NOW_MS)
    sources = opened(fleet, forecast="last")
    for n in range(60):
        sources.on_classified(
            a_record(a_classified(a_request(request_id=f"r-{n}"), received_ms=NOW_MS - 500 * n, hardness=0.55))
        )
    image = an_image(a_job(a_classified()))
    outcome = completed(image, 0.9, 0.3, reason="", by="discriminator", policy="p", now_ms=NOW_MS - 10)
    for _ in range(100):
        sources.on_result(a_record(result_of(outcome)))
    seen = observed(sources, fleet)
    assert (seen.now_ms, seen.slo_ms, seen.demand_rps, seen.forecast_rps) == (NOW_MS, 2500.0, 2.0, 2.0)
    assert (len(seen.counts), seen.hardness[5], seen.classes) == (60, pytest.approx(0.775), {"models": {"light": 1.0}})
    assert [worker.worker_id for worker in seen.workers] == ["w-1"]
    assert seen.queues == (Queue("light", 5.0, 0.0),)
    assert [(each.level, each.images) for each in seen.deferral] == [("light", 100)]
    assert (seen.served.requests, seen.served.in_time) == (100, 1.0)


@pytest.mark.parametrize("forecast", ["last", "ewma", "trend"])
def test_each_forecast_may_be_chosen(forecast: str) -> None:
    seen = observed(opened(StubFleet(), forecast=forecast), StubFleet())
    assert seen.forecast_rps is not None
    assert seen.forecast_rps >= 0


def test_a_fleet_that_nobody_hears_of_is_counted_each_time_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    fleet, before = StubFleet(), missed("fleet")
    sources = opened(fleet)
    for _ in range(3):
        observed(sources, fleet)
    assert missed("fleet") == before + 3
    assert len(caplog.records) == 1
    fleet.hear(a_heartbeat(), NOW_MS)
    observed(sources, fleet)
    assert missed("fleet") == before + 3


class LateFollower:
    """A follower of a topic that cannot be read to its end, if it is `results`."""

    def __init__(self, _settings: object, names: list[str], *_: object, **__: object) -> None:
        self.is_late = names == [RESULTS]
        self.is_caught_up = self

    def start(self) -> "LateFollower":
        return self

    def is_set(self) -> bool:
        return not self.is_late

    def wait_caught_up(self, timeout_s: float) -> None:
        if self.is_late:
            raise PochadeError(f"not within {timeout_s:g} s")

    def close(self) -> None:
        pass


def test_a_topic_that_cannot_be_read_in_time_is_gone_without_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "Follower", LateFollower)
    fleet = StubFleet().hear(a_heartbeat(), NOW_MS)
    late, before = opened(fleet), missed("results")
    late.open()
    assert late.missing() == (RESULTS,)
    observed(late, fleet)
    assert missed("results") == before + 1
    late.close()
    assert late.missing() == ()


# what the planner remembers of prompts and results


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
    monkeypatch.setattr("agents.planner.observe.MOST_ARRIVALS", 3)
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


# waiting jobs and arrival rates of variants, from heartbeats


def beats(after_ms: int, *heartbeats: Heartbeat) -> dict[str, Seen]:
    return {beat.worker_id: Seen(beat, NOW_MS + after_ms) for beat in heartbeats}


def test_a_partition_that_grows_tells_how_fast_jobs_join_whatever_is_in_flight() -> None:
    watch = QueueWatch()
    for second in range(11):
        watch.look(beats(1000 * second, a_heartbeat(partitions=(owned(0, 100 + 7 * second), owned(1, 3 * second)))))
    (queue,) = watch.queues(beats(10_000, a_heartbeat()), ["w-1"], a_catalog())
    assert queue == Queue("light", 0.0, pytest.approx(10.0))


def test_only_the_window_counts() -> None:
    watch = QueueWatch()
    for second in range(0, 100):
        end = 1000 * second if second < 50 else 50_000
        watch.look(beats(1000 * second, a_heartbeat(partitions=(owned(0, end),))))
    (queue,) = watch.queues(beats(99_000, a_heartbeat()), ["w-1"], a_catalog())
    assert queue.arriving_rps == 0.0
    assert QUEUE_WINDOW_MS < 49_000


def test_remaining_work_is_told_in_jobs_and_the_one_in_hand_does_not_wait() -> None:
    heard = beats(
        0,
        a_heartbeat(partitions=(owned(0, remaining_ms=100),)),
        a_heartbeat(worker_id="w-2", state="painting", partitions=(owned(1, remaining_ms=60),)),
        a_heartbeat(worker_id="w-3", variant="heavy", partitions=(owned(0, remaining_ms=400),)),
        a_heartbeat(worker_id="w-4", variant="", partitions=()),
    )
    queues = QueueWatch().queues(heard, heard, a_catalog())
    assert queues == (Queue("heavy", 2.0, 0.0), Queue("light", 5.0 + 2.0, 0.0))


def test_a_worker_that_is_not_live_any_more_does_not_count() -> None:
    heard = beats(0, a_heartbeat(partitions=(owned(0, remaining_ms=100),)))
    assert QueueWatch().queues(heard, [], a_catalog()) == ()


def test_one_look_tells_no_rate() -> None:
    watch = QueueWatch()
    heard = beats(0, a_heartbeat(partitions=(owned(0, 500),)))
    watch.look(heard)
    watch.look(heard)
    assert watch.queues(heard, ["w-1"], a_catalog()) == (Queue("light", 0.0, 0.0),)
