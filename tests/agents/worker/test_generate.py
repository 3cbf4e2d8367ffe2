# ruff: noqa: ARG005  the ports name their arguments
"""What a worker answers to its jobs: an image, a retry, an outcome, or nothing for dead work."""

import hashlib
import io
import itertools
import json
import threading
from typing import Any

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
from prometheus_client import REGISTRY

from agents.worker import driving
from agents.worker.jobs import Taken
from agents.worker.stages import Stage, Stages
from planner.catalog.entries import Variant, run_ms
from planner.catalog.options import resolve_options
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed, step_of
from planner.serving.routing.placement import CHEAPER, Placement
from planner.serving.routing.soft_deadline import Due
from schemas.ids import seed_of
from schemas.messages import CallTimes, Event, GenerateJob, GenerateOptions, ImageGenerated, Outcome, Status
from schemas.record import Outgoing
from schemas.topics import DLQ, EVENTS, IMAGES, OUTCOMES, POISON, jobs_topic, waiting_topic
from streams.clock import now_ms
from streams.codec.headers import ERROR
from streams.kafka.producers.topic_limits import TopicLimits
from streams.operator.dead_letters import ENDED_WORKERS
from streams.store.port import StoreUnavailable
from tests.agents.stubs import StubEngine, a_record, read, topics_of
from tests.agents.worker.driving import StubRefuges, a_driver, answers
from tests.builders import a_classified, a_job, a_plan, a_request, a_variant, an_image
from tests.memory_store import MemoryImageStore
from tests.patience import PATIENCE_S

JOBS = jobs_topic("light", 1).name
SKETCH = Placement("sketch", "sketch", resolve_options(GenerateOptions(), a_variant()), 5.0, 0.0, CHEAPER)


class Studio:
    """A worker with its stubs; `answer` takes jobs by request id."""

    def __init__(
        self, engine: StubEngine | None = None, max_attempts: int = 3, judged_ms: float = 0, stage: Stage | None = None,
        refuge: Placement | None = None, due: Due | None = None, variant: Variant | None = None, **more: Any,
    ) -> None:  # fmt: skip
        self.notes: list[Outgoing] = []
        self.engine, self.store, self.ended = engine or StubEngine(), MemoryImageStore(), set[str]()
        self.driver = a_driver(
            "w-9",
            self.engine,
            variant or a_variant(),
            self.store,
            self.ended,
            max_attempts,
            note=self.notes.append,
            judged_ms=judged_ms,
            refuges=StubRefuges(due, refuge),
            plan=a_plan(),
            stages=Stages([stage] if stage else []),
            **more,
        )


def opened(studio: Studio, uri: str) -> PngImageFile:
    image = Image.open(io.BytesIO(studio.store.get(uri)))
    assert isinstance(image, PngImageFile)
    return image


def taken(request_id: str = "r-1", attempt: int = 1, **asked: Any) -> Taken:
    request = a_request(request_id=request_id, **asked)
    return Taken(a_record(a_job(a_classified(request)), key=request_id.encode()), attempt)


def test_a_job_becomes_a_stored_image() -> None:
    studio = Studio()
    (written,) = answers(studio.driver, [taken()])
    said = read(written, ImageGenerated)
    with Image.open(io.BytesIO(studio.store.get(said.image.uri))) as picture:
        assert picture.size == (said.image.width, said.image.height) == (4, 4)
        assert picture.getpixel((0, 0)) == (seed_of("r-1") % 256, 0, 0)
    assert (written.topic, written.key, said.worker_id, said.batch, said.attempt) == (IMAGES, b"r-1", "w-9", 1, 1)
    assert written.headers["x-own"] == b"travels"


def test_an_image_says_how_it_was_made_in_its_record_and_in_its_file() -> None:
    studio = Studio(variant=a_variant(honours=("steps", "negative_prompt")))
    options = GenerateOptions(n=2, steps=5, negative_prompt="rain")
    (written,) = answers(studio.driver, [taken(prompt="a red heart, \u2661", seed=2**63 - 1, options=options)])
    said = read(written, ImageGenerated)
    assert said.made is not None
    assert (said.made.variant, said.made.seed, said.made.steps) == ("light", 2**63 - 1, 5)
    assert result_of(completed(said, None, None, reason="", by="", policy="", now_ms=1)).made == said.made
    first, second = (opened(studio, each.uri).text for each in (said.image, *said.more))
    assert first["parameters"] == (
        "a red heart, \u2661\nNegative prompt: rain\n"
        f"Steps: 5, CFG scale: 1.0, Seed: {2**63 - 1}, Size: 32x32, Model: light"
    )
    own = {"prompt": "a red heart, \u2661", "seed": 2**63 - 1, "steps": 5, "negative_prompt": "rain", "width": 32}
    assert json.loads(first["pochade"]).items() >= own.items()
    assert json.loads(second["pochade"]) == {**json.loads(first["pochade"]), "seed": 0}, "seeds go round"


def test_a_worker_with_a_price_states_it_in_records_counts_the_cost_and_keeps_it_out_of_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driving, "now_ms", itertools.count(now_ms(), 1000).__next__)
    labels = {"level": "light", "tier": "interactive"}
    before = REGISTRY.get_sample_value("pochade_cost_total", labels) or 0.0
    studio = Studio(price_per_hour=3600.0)
    (written,) = answers(studio.driver, [taken(tier="interactive")])
    said = read(written, ImageGenerated)
    assert said.made is not None
    assert said.made.price_per_hour == 3600.0
    cost = (REGISTRY.get_sample_value("pochade_cost_total", labels) or 0.0) - before
    assert cost == pytest.approx((said.generated_ms - said.started_ms) / 1000)
    assert cost >= 1
    assert "price" not in opened(studio, said.image.uri).text["pochade"]


def test_the_same_request_made_again_has_the_same_bytes() -> None:
    studio = Studio()
    both = answers(studio.driver, [taken("r-1", seed=7), taken("r-2", seed=7)])
    assert len({read(each, ImageGenerated).image.sha256 for each in both}) == 1


def test_a_setting_leaves_out_of_files_how_they_were_made() -> None:
    studio = Studio(png_text=False)
    said = read(answers(studio.driver, [taken()])[0], ImageGenerated)
    assert opened(studio, said.image.uri).text == {}
    assert said.made is not None, "records say it all the same"


def test_a_batch_is_generated_in_one_call_and_answered_in_order() -> None:
    studio = Studio()
    written = answers(studio.driver, [taken("a"), taken("b"), taken("c")])
    assert studio.engine.batches == [["a", "b", "c"]]
    assert [(record.key, read(record, ImageGenerated).batch) for record in written] == [(b"a", 3), (b"b", 3), (b"c", 3)]


def test_a_job_that_a_shared_call_would_make_late_is_generated_before_the_others() -> None:
    studio, judged_ms = Studio(judged_ms=100_000), 100_000
    studio.driver.worker.slowness = 1000.0  # so that the moments of the test itself count for nothing
    between_ms = 1000 * (run_ms(a_variant(), 1) + run_ms(a_variant(), 3)) / 2
    deadline_ms = now_ms() + judged_ms + int(between_ms)
    answers(studio.driver, [taken("a"), taken("urgent", deadline_ms=deadline_ms), taken("c")])
    assert studio.engine.batches == [["urgent"], ["a", "c"]]


def test_what_is_left_of_a_call_is_looked_at_anew_as_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone an image takes 20 ms by the profile, two 30 and three 37; the first call takes 9 ms longer than that."""
    clock = [1_000_000.0]
    monkeypatch.setattr(driving, "now_ms", lambda: int(clock[0]))
    engine, plain = StubEngine(), StubEngine.generate

    def slow(own: StubEngine, tasks: Any, *args: Any, **more: Any) -> Any:
        clock[0] += run_ms(a_variant(), len(tasks)) + (9 if len(own.batches) == 0 else 0)
        return plain(own, tasks, *args, **more)

    monkeypatch.setattr(StubEngine, "generate", slow)
    due = {"urgent": 1_000_030, "next": 1_000_052, "calm": 1_000_100}
    answers(Studio(engine).driver, [taken(name, deadline_ms=at_ms) for name, at_ms in due.items()])
    assert engine.batches == [["urgent"], ["next"], ["calm"]]


def test_an_image_tells_where_the_time_of_its_call_went(monkeypatch: pytest.MonkeyPatch) -> None:
    times = CallTimes(load_ms=1.0, encode_ms=2.0, denoise_ms=3.0, decode_ms=4.0)
    engine, plain = StubEngine(), StubEngine.generate
    monkeypatch.setattr(StubEngine, "generate", lambda *args, **more: plain(*args, **more)._replace(times=times))
    assert [read(each, ImageGenerated).times for each in answers(Studio(engine).driver, [taken()])] == [times]


def test_the_seed_that_a_request_names_is_used() -> None:
    studio = Studio()
    job = a_job(a_classified(a_request(seed=77)))
    (written,) = answers(studio.driver, [Taken(a_record(job), 1)])
    with Image.open(io.BytesIO(studio.store.get(read(written, ImageGenerated).image.uri))) as picture:
        assert picture.getpixel((0, 0)) == (77, 0, 0)


def test_a_job_that_ended_two_workers_is_not_generated_but_failed_kept_and_marked() -> None:
    studio = Studio()
    poison = taken(attempt=3)
    outcome, kept, marked = answers(studio.driver, [poison])
    assert (outcome.topic, read(outcome, Outcome).status) == (OUTCOMES, Status.FAILED)
    assert "ended 2 workers" in read(outcome, Outcome).reason
    assert (kept.topic, kept.value) == (DLQ, poison.record.value)
    assert kept.headers[ERROR + "class"] == ENDED_WORKERS.encode()
    assert (marked.topic, marked.key) == (POISON, b"r-1")
    assert studio.engine.batches == []


def test_a_request_equal_to_one_that_ended_its_workers_is_rejected_as_poison_and_others_are_generated() -> None:
    studio = Studio()
    answers(studio.driver, [taken("killer", attempt=3, prompt="!exit")])
    outcome, image = answers(studio.driver, [taken("again", prompt="!exit"), taken("other", prompt="a star")])
    rejected = read(outcome, Outcome)
    assert (rejected.request_id, rejected.status, rejected.code) == ("again", Status.REJECTED, "poison")
    assert "request killer" in rejected.reason
    assert read(image, ImageGenerated).job.classified.request.request_id == "other"


def test_a_job_whose_calls_failed_is_not_taken_for_one_that_ended_workers() -> None:
    (written,) = answers(Studio().driver, [Taken(a_record(a_job(attempt=3)), 1)])
    assert written.topic == IMAGES


def test_the_last_allowed_attempt_is_still_generated() -> None:
    (written,) = answers(Studio().driver, [taken(attempt=2)])
    assert read(written, ImageGenerated).attempt == 2


def test_when_a_batch_breaks_each_is_generated_alone_and_only_the_cause_is_retried() -> None:
    studio = Studio(StubEngine(lambda tasks: any(task.request_id == "bad" for task in tasks)))
    written = answers(studio.driver, [taken("a"), taken("bad"), taken("c")])
    assert topics_of(written) == [IMAGES, JOBS, IMAGES]
    assert studio.engine.batches == [["a", "bad", "c"], ["a"], ["bad"], ["c"]]


def test_a_job_that_breaks_the_engine_goes_back_with_one_attempt_more() -> None:
    (again,) = answers(Studio(StubEngine(lambda tasks: True)).driver, [taken()])
    said = read(again, GenerateJob)
    assert (again.topic, again.partition, said.attempt, said.job_id) == (JOBS, None, 2, a_job().job_id)


def test_a_job_that_breaks_the_engine_at_its_last_attempt_fails_and_is_kept() -> None:
    last = Taken(a_record(a_job(attempt=3)), 1)
    outcome, kept = answers(Studio(StubEngine(lambda tasks: True)).driver, [last])
    assert (read(outcome, Outcome).status, kept.topic) == (Status.FAILED, DLQ)
    assert "no such colour" in read(outcome, Outcome).reason


def test_a_job_of_an_ended_request_is_dropped_without_generation() -> None:
    studio = Studio()
    studio.ended.add("dead")
    assert [record.key for record in answers(studio.driver, [taken("dead"), taken("alive")])] == [b"alive"]
    assert studio.engine.batches == [["alive"]]


def test_a_batch_goes_on_for_its_living_members_and_drops_the_dead_ones_image() -> None:
    studio = Studio()
    studio.engine.before_stop_is_asked = lambda: studio.ended.add("a")
    (written,) = answers(studio.driver, [taken("a"), taken("b")])
    assert (written.topic, written.key) == (IMAGES, b"b")
    studio = Studio()
    studio.engine.before_stop_is_asked = lambda: studio.ended.update({"a", "b"})
    assert answers(studio.driver, [taken("a"), taken("b")]) == []


def test_a_job_that_cannot_be_in_time_expires_without_generation() -> None:
    studio = Studio()
    (outcome,) = answers(studio.driver, [taken(deadline_ms=now_ms() + 5)])  # light takes 20 ms
    assert (outcome.topic, read(outcome, Outcome).status) == (OUTCOMES, Status.EXPIRED)
    assert studio.engine.batches == []


def test_a_job_that_cannot_be_in_time_goes_on_to_another_level_that_can() -> None:
    studio = Studio(refuge=SKETCH)
    (sent,) = answers(studio.driver, [taken(deadline_ms=now_ms() + 5)])
    job = read(sent, GenerateJob)
    assert (sent.topic, sent.partition, job.level, job.variant) == (waiting_topic("sketch").name, 0, "sketch", "sketch")
    assert studio.engine.batches == []
    (note,) = [read(each, Event) for each in studio.notes]
    assert (note.kind, json.loads(note.detail)["to"]) == ("rerouted", "sketch")


def test_a_job_past_its_soft_deadline_goes_on_to_another_level_and_is_generated_where_there_is_none() -> None:
    past = Due(now_ms() - 5, is_soft=True)
    (sent,) = answers(Studio(refuge=SKETCH, due=past).driver, [taken()])
    assert read(sent, GenerateJob).level == "sketch"
    (made,) = answers(Studio(due=past).driver, [taken()])
    assert made.topic == IMAGES


def test_an_escalated_job_past_its_soft_deadline_answers_with_its_draft() -> None:
    studio = Studio(due=Due(now_ms() - 5, is_soft=True))
    job = a_job(stage=1, path=(step_of(an_image(), 0.2, 0.5),))
    (outcome,) = answers(studio.driver, [Taken(a_record(job, key=b"r-1"), 1)])
    assert read(outcome, Outcome).status is Status.COMPLETED
    assert studio.engine.batches == []


def test_a_job_that_would_be_judged_too_late_expires_without_generation() -> None:
    studio = Studio(judged_ms=60_000)  # light takes 20 ms
    outcome, _ = answers(studio.driver, [taken(deadline_ms=now_ms() + 30_000), taken(deadline_ms=now_ms() + 90_000)])
    assert (outcome.topic, read(outcome, Outcome).status) == (OUTCOMES, Status.EXPIRED)
    assert len(studio.engine.batches) == 1


def test_an_undecodable_job_fails_is_kept_and_does_not_stop_the_next() -> None:
    written = answers(Studio().driver, [Taken(a_record(value=b"\0nonsense", key=b"bad"), 1), taken("good")])
    assert topics_of(written) == [OUTCOMES, DLQ, IMAGES]
    assert (read(written[0], Outcome).request_id, written[1].value) == ("bad", b"\0nonsense")


def test_a_worker_learns_from_each_call_how_long_it_took_and_what_was_profiled(monkeypatch: pytest.MonkeyPatch) -> None:
    studio, clock = Studio(), iter(range(0, 10_000, 500))
    monkeypatch.setattr(driving, "now_ms", lambda: next(clock))
    calls = list[tuple[float, float]]()
    monkeypatch.setattr(studio.driver.worker, "on_generated", lambda *call: calls.append(call))
    answers(studio.driver, [taken("a"), taken("b")])
    assert calls == [(500.0, run_ms(a_variant(), 2))]


def test_a_store_that_is_away_for_a_moment_is_waited_for() -> None:
    studio = Studio()
    put, refusals = studio.store.put, [StoreUnavailable("full")]

    def first_away(name: str, data: bytes) -> str:
        if refusals:
            raise refusals.pop()
        return put(name, data)

    studio.store.put = first_away  # type: ignore[method-assign, assignment]
    assert topics_of(answers(studio.driver, [taken()])) == [IMAGES]


def test_all_images_of_a_call_are_stored_at_the_same_time() -> None:
    studio = Studio()
    put, all_at_once = studio.store.put, threading.Barrier(6, timeout=PATIENCE_S)

    def meeting(name: str, data: bytes) -> str:
        all_at_once.wait()
        return put(name, data)

    studio.store.put = meeting  # type: ignore[method-assign, assignment]
    written = answers(studio.driver, [taken(name, seed=7, options=GenerateOptions(n=2)) for name in "abc"])
    assert [record.key for record in written] == [b"a", b"b", b"c"]
    for record in written:
        said = read(record, ImageGenerated)
        for place, ref in enumerate((said.image, *said.more)):
            data = studio.store.get(ref.uri)
            assert Image.open(io.BytesIO(data)).getpixel((0, 0)) == (7 + place, 0, 0), "each names its own"
            assert (ref.sha256, ref.bytes) == (hashlib.sha256(data).hexdigest(), len(data))


def test_what_the_store_refuses_of_a_call_is_repeated_and_what_it_took_is_not() -> None:
    studio, puts = Studio(), list[str]()
    put, refusals = studio.store.put, {"b": [StoreUnavailable("full")] * 2}

    def partly_away(name: str, data: bytes) -> str:
        puts.append(name)
        if refusals.get(name):
            raise refusals[name].pop()
        return put(name, data)

    studio.store.put = partly_away  # type: ignore[method-assign, assignment]
    jobs = [a_job(a_classified(a_request(request_id=name)), job_id=name) for name in "abc"]
    answers(studio.driver, [Taken(a_record(job, key=job.job_id.encode()), 1) for job in jobs])
    assert sorted(puts) == ["a", "b", "b", "b", "c"]


def test_n_images_of_one_request_are_one_call_with_seeds_in_a_row_and_one_record() -> None:
    studio = Studio()
    (written,) = answers(studio.driver, [taken(seed=5, options=GenerateOptions(n=3))])
    said = read(written, ImageGenerated)
    assert studio.engine.batches == [["r-1"] * 3]
    colours = []
    for image in (said.image, *said.more):
        with Image.open(io.BytesIO(studio.store.get(image.uri))) as picture:
            colours.append(picture.getpixel((0, 0))[0])
    assert colours == [5, 6, 7]


def test_jobs_that_are_generated_differently_do_not_share_a_call() -> None:
    variant = a_variant(honours=("steps",))
    studio = Studio()
    studio.driver = a_driver("w-9", studio.engine, variant, studio.store, studio.ended, 3)
    options = GenerateOptions(steps=9)
    written = answers(studio.driver, [taken("a"), taken("b", options=options), taken("c")])
    assert studio.engine.batches == [["a", "c"], ["b"]]
    assert [how.steps for how in studio.engine.hows] == [variant.steps, 9]
    assert sorted(record.key or b"" for record in written) == [b"a", b"b", b"c"]


def test_an_escalated_job_that_is_too_late_answers_with_its_draft() -> None:
    studio = Studio(refuge=SKETCH)
    draft = step_of(an_image(), 0.2, 0.5)
    late = a_classified(a_request(deadline_ms=now_ms() + 1))
    job = a_job(late, stage=1, path=(draft,))
    (written,) = answers(studio.driver, [Taken(a_record(job), 1)])
    result = result_of(read(written, Outcome))
    assert (result.status, result.image_uri) == (Status.COMPLETED, draft.image.uri if draft.image else None)
    assert "the draft was kept" in result.reason
    assert studio.engine.batches == []


def test_the_beginning_of_generation_is_reported_to_who_watches() -> None:
    studio, notes = Studio(), []
    studio.driver = a_driver("w-9", studio.engine, a_variant(), studio.store, studio.ended, 3, note=notes.append)
    answers(studio.driver, [taken("a"), taken("b")])
    assert [(note.topic, note.key, read(note, Event).kind) for note in notes] == [
        (EVENTS, b"a", "started"), (EVENTS, b"b", "started"),
    ]  # fmt: skip


@pytest.mark.parametrize("n", [0, -1, 2**62])
def test_options_that_no_variant_could_honour_end_the_job_alone(n: int) -> None:
    studio = Studio()
    written = answers(studio.driver, [taken("a"), taken("odd", options=GenerateOptions(n=n)), taken("b")])
    assert topics_of(written) == [OUTCOMES, DLQ, IMAGES, IMAGES]
    assert (written[0].key, read(written[0], Outcome).status) == (b"odd", Status.FAILED)


def test_an_image_whose_record_no_topic_takes_ends_its_request() -> None:
    studio = Studio()
    for size in range(989_000, 990_000, 200):  # up to where the job itself would not fit
        huge = taken("huge", tenant="x" * size)
        written = answers(studio.driver, [huge, taken("b")])
        for record in written:
            TopicLimits().check(record)
        assert {record.key for record in written} >= {b"huge", b"b"}
        assert written[-1].topic == IMAGES
    assert topics_of(written) == [OUTCOMES, DLQ, IMAGES]


def test_a_large_request_that_comes_too_late_expires_like_any_other() -> None:
    (written,) = answers(Studio().driver, [taken("r-1", tenant="x" * 600_000, deadline_ms=5)])
    TopicLimits().check(written)
    assert read(written, Outcome).status is Status.EXPIRED
