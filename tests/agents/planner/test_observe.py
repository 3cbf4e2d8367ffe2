"""The one observation that the planner makes of its topics, what it remembers of them, and what it does without one."""

import pytest

from agents.planner import observe as sources
from agents.planner.observe import Sources
from planner.observation.hops import ENOUGH
from planner.observation.observation import Observation, Queue, Served, hardness_shares
from planner.observation.reuse import ObservedHits
from planner.observation.run_times import MIN_CALLS
from planner.observation.workers import live_workers
from planner.serving.decisions import SHED
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed, rejected, step_of
from schemas.avro import Message
from schemas.errors import PochadeError
from schemas.messages import (
    CallTimes,
    GenerateOptions,
    GenerateRequest,
    Result,
    ReuseHealth,
    StageReuse,
    WorkerComponents,
)
from schemas.topics import RESULTS
from streams import metrics
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
    sized_variant,
)


def opened(fleet: StubFleet, **planner: object) -> Sources:
    return Sources(load({"planner": {"slo_s": 2.5, **planner}}), a_catalog(), fleet)


def observed(sources: Sources, fleet: StubFleet) -> Observation:
    return sources.observation(NOW_MS, live_workers(fleet.heartbeats, NOW_MS, 3000), a_plan())


def missed(source: str) -> float:
    return metrics.FALLBACKS.labels("planner", f"no-{source}")._value.get()


def test_everything_that_is_seen_is_in_one_observation() -> None:
    fleet = StubFleet().receive(a_heartbeat(partitions=(owned(0, 9, 100),)), NOW_MS)
    sources = opened(fleet)
    for n in range(60):
        sources.on_classified(
            a_record(a_classified(a_request(request_id=f"r-{n}"), received_ms=NOW_MS - 500 * n, hardness=0.55))
        )
    image = an_image(a_job(a_classified()))
    outcome = completed(
        image, 0.9, 0.3, reason="", by="discriminator", policy="p", now_ms=NOW_MS - 10, discriminator="look"
    )
    for _ in range(100):
        sources.on_result(a_record(result_of(outcome)))
    seen = observed(sources, fleet)
    assert (seen.now_ms, seen.slo_ms, seen.demand_rps, seen.forecast_rps) == (NOW_MS, 2500.0, 2.0, None)
    assert (len(seen.counts), seen.hardness[5], seen.classes) == (60, pytest.approx(0.775), {"models": {"light": 1.0}})
    assert [worker.worker_id for worker in seen.workers] == ["w-1"]
    assert seen.queues == (Queue("light", 5.0, 0.0),)
    assert [(each.level, each.images) for each in seen.deferral] == [("light", 100)]
    assert (seen.served.requests, seen.served.in_time) == (100, 1.0)


def test_without_an_slo_it_is_planned_for_the_one_that_routers_decide_by() -> None:
    sources = Sources(load({"admission": {"max_backlog_s": 40}}), a_catalog(), StubFleet())
    assert observed(sources, StubFleet()).slo_ms == 32_000
    sources = Sources(load({"admission": {"max_backlog_s": 40}}), a_catalog(slo_s=3.0), StubFleet())
    assert observed(sources, StubFleet()).slo_ms == 3000


def test_a_fleet_that_nobody_hears_of_is_counted_each_time_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    fleet, before = StubFleet(), missed("fleet")
    sources = opened(fleet)
    for _ in range(3):
        observed(sources, fleet)
    assert missed("fleet") == before + 3
    assert len(caplog.records) == 1
    fleet.receive(a_heartbeat(), NOW_MS)
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
    monkeypatch.setattr(sources, "TopicTailer", LateFollower)
    fleet = StubFleet().receive(a_heartbeat(), NOW_MS)
    late, before = opened(fleet), missed("results")
    late.open()
    assert late.missing() == (RESULTS,)
    observed(late, fleet)
    assert missed("results") == before + 1
    late.close()
    assert late.missing() == ()


# what records say of prompts and results


def a_result(confidence: float | None = 0.4, ended_ms: int = NOW_MS - 100, hardness: float = 0.5) -> Result:
    image = an_image(a_job(a_classified(a_request(created_ms=NOW_MS - 1000), hardness=hardness)))
    judged = {"by": "discriminator", "discriminator": "look", "policy": "p", "now_ms": ended_ms}
    return result_of(completed(image, confidence, 0.3, reason="kept", **judged))


def a_refusal(request: GenerateRequest, code: str = "invalid") -> Result:
    return result_of(rejected(request, reason="", by="r", now_ms=NOW_MS - 1, code=code))


def after(*messages: Message, slo_s: float = 2.5) -> Observation:
    """What is seen after these records."""
    sources = opened(StubFleet(), slo_s=slo_s)
    for message in messages:
        take = sources.on_result if isinstance(message, Result) else sources.on_classified
        take(a_record(message))
    return observed(sources, StubFleet())


def test_what_a_quota_refuses_is_no_demand_in_whatever_order_its_prompt_and_its_end_are_read() -> None:
    asked = [a_request(request_id=name, tier="batch" if name == "a" else "standard") for name in "abcd"]
    prompts = [
        a_classified(request, received_ms=NOW_MS - 1, hardness=0.9 if request.request_id in "bc" else 0.1)
        for request in asked
    ]
    full = a_refusal(asked[3], "overloaded")
    seen = after(a_refusal(asked[2], "quota"), full, *prompts, a_refusal(asked[1], "quota"))
    assert seen.demand_rps == pytest.approx(2 / 30), "more workers would serve what is refused as too much"
    assert seen.hardness == hardness_shares([0.1, 0.1])
    assert seen.tiers == {"batch": 0.5, "standard": 0.5}
    assert seen.served == Served(1, 0.0), "more workers would have served it in time"


def test_answers_within_the_slo_are_in_time_and_what_was_never_to_be_served_does_not_count() -> None:
    others = [
        a_refusal(a_request(request_id="bad")),
        a_refusal(a_request(request_id="busy"), "overloaded"),
        a_refusal(a_request(request_id="shed"), "shed"),
        result_of(an_outcome(ended_ms=NOW_MS)),
    ]
    answers = [a_result(ended_ms=NOW_MS - 100), a_result(ended_ms=NOW_MS)]
    assert after(*answers, *others, slo_s=0.95).served == Served(5, 0.2, None)
    assert after(*answers, *others).served == Served(5, 0.4, None)


def test_the_deferral_curve_is_that_of_the_confidences_on_the_results_paths() -> None:
    (curve,) = after(*(a_result(n / 200) for n in range(200))).deferral
    assert (curve.level, curve.discriminator, curve.images) == ("light", "look", 200)
    assert after(a_result(None)).deferral == ()


def test_the_time_between_two_levels_is_what_escalated_requests_take_longer_beside_the_second_wait_and_call() -> None:
    draft = step_of(an_image(), 0.1, 0.3, "look")
    asked = a_classified(a_request(created_ms=NOW_MS - 1170))
    again = an_image(a_job(asked, stage=1, level="heavy", path=(draft,)))
    ended = completed(again, None, None, reason="", by="discriminator", policy="p", now_ms=NOW_MS - 100)
    kept = [a_result() for _ in range(ENOUGH)]  # each 170 ms sooner
    assert after(*kept).hop_ms is None
    assert after(*kept, *[result_of(ended)] * ENOUGH).hop_ms == 170 - draft.queue_ms - draft.generate_ms


def test_run_times_as_served_are_those_without_loads_of_components() -> None:
    fleet, factors = StubFleet().receive(a_heartbeat(), NOW_MS), []
    for load_ms in (0.0, 12.0):
        sources = opened(fleet)
        image = an_image(a_job(a_classified()), times=CallTimes(load_ms=load_ms))
        outcome = completed(image, None, None, reason="", by="worker", policy="p", now_ms=NOW_MS - 10)
        for _ in range(MIN_CALLS):
            sources.on_result(a_record(result_of(outcome)))
        (seen,) = observed(sources, fleet).run_times
        factors.append(seen.factor)
    assert factors[1] == pytest.approx(factors[0] * (20 - 12) / 20)


@pytest.mark.parametrize(
    ("reuse", "is_seen"),
    [(StageReuse(steps=25, miss="none"), True), (StageReuse(step=10, steps=25, similarity=0.97), False)],
)
def test_what_runs_in_full_after_a_lookup_tells_run_times_and_what_begins_later_does_not(
    reuse: StageReuse, is_seen: bool
) -> None:
    """Until 2026-11-27 a planner that asked for reuse learned no run time at all."""
    fleet = StubFleet().receive(a_heartbeat(), NOW_MS)
    sources, image = opened(fleet), an_image(a_job(a_classified()), reuse=reuse)
    outcome = completed(image, None, None, reason="", by="worker", policy="p", now_ms=NOW_MS - 10)
    for _ in range(MIN_CALLS):
        sources.on_result(a_record(result_of(outcome)))
    assert bool(observed(sources, fleet).run_times) == is_seen


def test_lookups_are_seen_by_heartbeats_and_what_they_save_by_results() -> None:
    health = ReuseHealth(breaker="closed", lookups=40, unanswered=0.25, p50_ms=4.0, p95_ms=9.0)
    fleet = StubFleet().receive(a_heartbeat(variant="heavy", reuse=health), NOW_MS)
    sources = opened(fleet)
    job = a_job(level="heavy~k10", variant="heavy", reuse_share=0.4)
    for reuse in (StageReuse(step=10, steps=25, similarity=0.97), StageReuse(steps=25, miss="timeout"), None):
        image = an_image(job, reuse=reuse)
        outcome = completed(image, None, None, reason="", by="worker", policy="p", now_ms=NOW_MS - 10)
        sources.on_result(a_record(result_of(outcome)))
    seen = observed(sources, fleet).reuse
    assert (seen.lookups, seen.unanswered, seen.p50_ms, seen.p95_ms) == (40, 0.25, 4.0, 9.0)
    assert seen.hits == {"heavy~k10": ObservedHits(1, 1.0)}, "what no store answered says nothing of how prompts repeat"


def test_requests_are_in_flight_until_their_result_and_those_turned_away_for_as_long_as_they_would_run() -> None:
    fleet = StubFleet().receive(a_heartbeat(), NOW_MS)
    sources = opened(fleet)
    named = a_request(request_id="r-named", tenant="u", options=GenerateOptions(model="heavy"))
    for request in (a_request(request_id="r-plain"), named, a_request(request_id="r-shed")):
        sources.on_classified(a_record(a_classified(request, received_ms=NOW_MS - 10_000)))
    assert observed(sources, fleet).in_flight == {"default": {"": 2.0}, "u": {"heavy": 1.0}}
    assert sources.asked(NOW_MS) == {"", "heavy"}
    for name, code in (("r-plain", "unhonoured"), ("r-shed", SHED)):
        outcome = rejected(name, code=code, reason="", by="router", now_ms=NOW_MS)
        sources.on_result(a_record(result_of(outcome)))
    assert sources.asked(NOW_MS + 199) == {"", "heavy"}
    assert sources.asked(NOW_MS + 200) == {"heavy"}, "heavy, the best level, takes 200 ms"


def test_components_that_classified_requests_name_are_counted_once_a_request_with_what_workers_hold() -> None:
    report = WorkerComponents(held={"device": ("base:poster",)})
    fleet = StubFleet().receive(a_heartbeat(variant="styles", components=report), NOW_MS)
    catalog = a_catalog(on_request={"styles": sized_variant()})
    sources = Sources(load({"planner": {"slo_s": 2.5}}), catalog, fleet)
    for n in (1, 1, 2):
        request = a_request(request_id=f"r-{n}", options=GenerateOptions(model="poster"))
        sources.on_classified(a_record(a_classified(request, received_ms=NOW_MS)))
    seen = observed(sources, fleet).components
    assert seen is not None
    assert seen.demand["styles"].requests["base:poster"][0] == 2
    assert seen.workers == {"w-1": report}
