"""The discriminator's logic: keep, escalate, drop."""

import asyncio
import dataclasses
import io
import json
from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image

from agents.discriminator.role import Discriminator
from agents.router.dispatcher import Dispatcher
from planner.catalog.model import Catalog
from planner.serving.ending.ledger import result_of
from planner.serving.routing.escalation import EscalationLogic
from schemas.errors import PochadeError
from schemas.messages import Event, GenerateJob, GenerateRequest, Heartbeat, ImageGenerated, Outcome, Status
from schemas.topics import EVENTS, OUTCOMES, jobs_topic
from streams.clock import now_ms
from streams.store.port import StoreUnavailable, Unreadable
from tests import builders
from tests.agents.stubs import StubFleet, StubPlans, a_record, read
from tests.builders import (
    a_cascade,
    a_catalog,
    a_classified,
    a_heartbeat,
    a_job,
    a_plan,
    a_request,
    an_image,
    an_image_ref,
    owned,
)
from tests.memory_store import MemoryImageStore


class FixedScorer:
    def __init__(self, confidence: float) -> None:
        self._confidence = confidence
        self.scored = 0

    def score(self, requests: Sequence[GenerateRequest], pictures: Sequence[np.ndarray]) -> list[float]:
        self.scored += len(requests)
        assert all(each.shape[2] == 3 for each in pictures)
        return [self._confidence] * len(requests)


@pytest.fixture
def store() -> MemoryImageStore:
    return MemoryImageStore()


def stored_image(store: MemoryImageStore, job: GenerateJob | None = None) -> ImageGenerated:
    out = io.BytesIO()
    Image.new("RGB", (2, 2)).save(out, "PNG")
    return an_image(job, image=an_image_ref(uri=store.put("j-1", out.getvalue())))


CATALOG = a_catalog()
OVER = StubPlans(a_plan(cascades=(a_cascade(refine_from_step=24),)))  # of heavy's 25 steps: 8 of its 200 ms are left


def a_discriminator(
    store: MemoryImageStore,
    scorer: FixedScorer,
    plans: StubPlans | None = None,
    ended: set[str] | None = None,
    catalog: Catalog = CATALOG,
    workers: Sequence[Heartbeat] = (),
) -> Discriminator:
    """`workers`: beside one of heavy."""
    heartbeat = a_heartbeat(worker_id="w-2", variant="heavy", partitions=(owned(3),))
    fleet, logic = StubFleet().receive(heartbeat, now_ms()), EscalationLogic(catalog)
    for each in workers:
        fleet.receive(each, now_ms())
    dispatcher = Dispatcher(catalog, fleet, "discriminator")
    return Discriminator(logic, plans or StubPlans(a_plan()), ended or set(), dispatcher, store, {"look": scorer})


def test_a_confident_image_completes_its_request(store: MemoryImageStore) -> None:
    (outcome,) = asyncio.run(
        a_discriminator(store, FixedScorer(0.8)).on_record(a_record(stored_image(store)))
    )  # fmt: skip
    said = read(outcome, Outcome)
    assert (outcome.topic, said.status, said.path[0].confidence, said.path[0].threshold) == (
        OUTCOMES, Status.COMPLETED, 0.8, 0.5,
    )  # fmt: skip


def test_a_doubtful_image_becomes_a_job_on_the_next_level_and_a_preview(store: MemoryImageStore) -> None:
    image = stored_image(store)
    job, note = asyncio.run(a_discriminator(store, FixedScorer(0.2)).on_record(a_record(image)))
    said = read(job, GenerateJob)
    assert (job.topic, job.partition) == (jobs_topic("heavy", 1).name, 3)
    assert (said.stage, said.level, said.path[0].image, said.path[0].confidence) == (1, "heavy", image.image, 0.2)
    assert said.job_id != image.job.job_id
    detail = json.loads(read(note, Event).detail)
    assert (note.topic, detail["preview"]) == (EVENTS, image.image.uri)
    assert detail["tenant"] == image.job.classified.request.tenant


@pytest.mark.parametrize(("plans", "step"), [(StubPlans(a_plan()), 0), (OVER, 24)])
def test_the_job_on_the_next_level_says_from_which_step_it_refines_the_draft(
    store: MemoryImageStore, plans: StubPlans, step: int
) -> None:
    discriminator = a_discriminator(store, FixedScorer(0.2), plans)
    job, note = asyncio.run(discriminator.on_record(a_record(stored_image(store))))
    assert read(job, GenerateJob).refine_from_step == step
    assert json.loads(read(note, Event).detail)["paint_over_step"] == step


def test_a_draft_of_another_size_than_the_next_level_generates_is_not_refined(store: MemoryImageStore) -> None:
    small = an_image(image=an_image_ref(uri=stored_image(store).image.uri, width=16))
    job, _ = asyncio.run(a_discriminator(store, FixedScorer(0.2), OVER).on_record(a_record(small)))
    assert read(job, GenerateJob).refine_from_step == 0


@pytest.mark.parametrize(("plans", "level"), [(StubPlans(a_plan()), "light"), (OVER, "heavy")])
def test_a_draft_goes_on_where_only_refining_it_is_in_time(
    store: MemoryImageStore, plans: StubPlans, level: str
) -> None:
    hurried = a_job(a_classified(a_request(deadline_ms=now_ms() + 190)))
    written = asyncio.run(
        a_discriminator(store, FixedScorer(0.2), plans).on_record(a_record(stored_image(store, hurried)))
    )
    assert [record.topic for record in written] == (
        [OUTCOMES] if level == "light" else [jobs_topic("heavy", 1).name, EVENTS]
    )


def test_without_a_cascade_for_the_level_nothing_is_fetched_or_scored(store: MemoryImageStore) -> None:
    scorer = FixedScorer(0.0)
    unstored = an_image(a_job(level="heavy", variant="heavy"))
    (outcome,) = asyncio.run(a_discriminator(store, scorer).on_record(a_record(unstored)))
    assert read(outcome, Outcome).status is Status.COMPLETED
    assert scorer.scored == 0


def test_a_doubtful_image_is_kept_when_no_time_is_left_for_a_better_one(store: MemoryImageStore) -> None:
    hurried = a_job(a_classified(a_request(deadline_ms=now_ms() + 100)))  # heavy takes 200 ms
    (outcome,) = asyncio.run(
        a_discriminator(store, FixedScorer(0.2)).on_record(a_record(stored_image(store, hurried)))
    )  # fmt: skip
    assert read(outcome, Outcome).status is Status.COMPLETED


def test_a_doubtful_image_is_kept_when_the_better_one_would_be_judged_too_late(store: MemoryImageStore) -> None:
    slow = builders.a_discriminator(name="slow", latency_ms=60_000.0)
    catalog = a_catalog(discriminators={**CATALOG.discriminators, "slow": slow})
    chain = StubPlans(a_plan(cascades=(a_cascade(), a_cascade(level="heavy", next_level="best", discriminator="slow"))))
    for seconds, expected in ((30, Status.COMPLETED), (90, None)):  # heavy takes 200 ms, slow a minute
        hurried = stored_image(store, a_job(a_classified(a_request(deadline_ms=now_ms() + 1000 * seconds))))
        judge = a_discriminator(store, FixedScorer(0.2), chain, catalog=catalog)
        first, *_ = asyncio.run(judge.on_record(a_record(hurried)))
        assert (read(first, Outcome).status if first.topic == OUTCOMES else None) is expected


def test_an_image_of_an_ended_request_is_dropped_unscored(store: MemoryImageStore) -> None:
    scorer = FixedScorer(0.9)
    discriminator = a_discriminator(store, scorer, ended={"r-1"})
    assert asyncio.run(discriminator.on_record(a_record(stored_image(store)))) == []
    assert scorer.scored == 0


def test_a_store_that_is_away_for_a_moment_is_waited_for(store: MemoryImageStore) -> None:
    image, get = stored_image(store), store.get
    answers = [StoreUnavailable("away")]

    def first_away(uri: str) -> bytes:
        if answers:
            raise answers.pop()
        return get(uri)

    store.get = first_away  # type: ignore[method-assign]
    (outcome,) = asyncio.run(a_discriminator(store, FixedScorer(0.8)).on_record(a_record(image)))
    assert read(outcome, Outcome).status is Status.COMPLETED


def unreadable(store: MemoryImageStore, age_ms: int, sends: int = 1, deadline_ms: int | None = None) -> ImageGenerated:
    """An image of w-1, stored this long ago, that is not there."""
    job = a_job(a_classified(a_request(deadline_ms=deadline_ms)), attempt=sends)
    image = stored_image(store, job)
    store.delete(image.image.uri)
    return dataclasses.replace(image, stored_ms=now_ms() - age_ms, worker_id="w-1")


LIGHT = [
    a_heartbeat(worker_id=worker, variant="light", partitions=(owned(at),)) for at, worker in enumerate(["w-1", "w-3"])
]
MINUTE_MS = 60_000


def test_an_image_that_cannot_be_read_goes_round_as_it_is_for_a_minute_and_is_then_judged(
    store: MemoryImageStore,
) -> None:
    image, discriminator = unreadable(store, 10), a_discriminator(store, FixedScorer(0.8))
    record = a_record(image)
    (again,) = asyncio.run(discriminator.on_record(record))
    assert (again.topic, again.key, again.value, again.headers, again.partition) == (
        record.topic, record.key, record.value, record.headers, None,
    )  # fmt: skip
    stored_image(store)
    (outcome,) = asyncio.run(discriminator.on_record(a_record(image)))
    assert read(outcome, Outcome).status is Status.COMPLETED


@pytest.mark.parametrize(("age_ms", "left_ms"), [(MINUTE_MS, None), (6_000, 5_000)])
def test_a_job_whose_image_stays_unreadable_is_made_again_by_another_worker(
    store: MemoryImageStore, age_ms: int, left_ms: int | None
) -> None:
    """After a minute, or half of the time that its deadline left."""
    image = unreadable(store, age_ms, deadline_ms=None if left_ms is None else now_ms() + left_ms)
    for workers, partition in ((LIGHT, 1), (LIGHT[:1], 0), ((), None)):
        discriminator = a_discriminator(store, FixedScorer(0.8), workers=workers)
        (job,) = asyncio.run(discriminator.on_record(a_record(image)))
        said = read(job, GenerateJob)
        assert (job.topic, job.partition) == (jobs_topic("light", 1).name, partition)
        assert (said.attempt, said.job_id, said.path) == (2, image.job.job_id, ())
        assert job.headers["x-own"] == b"travels"


def test_a_job_whose_image_is_damaged_is_made_again_too(store: MemoryImageStore) -> None:
    image = unreadable(store, MINUTE_MS)

    def damaged(uri: str) -> bytes:
        raise Unreadable(f"{uri} is damaged")

    store.get = damaged  # type: ignore[method-assign]
    (job,) = asyncio.run(a_discriminator(store, FixedScorer(0.8), workers=LIGHT).on_record(a_record(image)))
    assert read(job, GenerateJob).attempt == 2


def test_a_request_that_has_ended_is_neither_read_again_nor_made_again(store: MemoryImageStore) -> None:
    for age_ms in (10, MINUTE_MS):
        image = unreadable(store, age_ms)
        assert asyncio.run(a_discriminator(store, FixedScorer(0.8), ended={"r-1"}).on_record(a_record(image))) == []


def test_an_image_that_was_made_again_and_cannot_be_read_ends_its_request_as_failed_and_is_kept(
    store: MemoryImageStore,
) -> None:
    image = unreadable(store, MINUTE_MS, sends=2)
    discriminator, record = a_discriminator(store, FixedScorer(0.8)), a_record(image)
    with pytest.raises(Unreadable, match="has gone") as caught:
        asyncio.run(discriminator.on_record(record))
    outcome, kept = discriminator.on_error(record, caught.value)
    assert read(outcome, Outcome).status is Status.FAILED
    assert kept.value == record.value


def test_an_image_of_another_store_is_not_waited_for(store: MemoryImageStore) -> None:
    foreign = an_image(image=an_image_ref(uri="file:///etc/hostname"))
    with pytest.raises(PochadeError, match="is not an image of this store"):
        asyncio.run(a_discriminator(store, FixedScorer(0.8)).on_record(a_record(foreign)))


def test_several_images_are_judged_by_the_worst(store: MemoryImageStore) -> None:
    class Varying(FixedScorer):
        def score(self, requests: Sequence[GenerateRequest], pictures: Sequence[np.ndarray]) -> list[float]:
            super().score(requests, pictures)
            return [0.9, 0.1, 0.8]

    image = stored_image(store)
    three = dataclasses.replace(image, more=(image.image, image.image))
    job, _ = asyncio.run(a_discriminator(store, Varying(0)).on_record(a_record(three)))
    assert read(job, GenerateJob).path[0].confidence == 0.1


def test_a_result_says_that_an_image_of_medium_quality_was_not_judged(store: MemoryImageStore) -> None:
    image = stored_image(
        store, dataclasses.replace(a_job(a_classified(a_request(quality="medium"))), overridden=("x",))
    )
    judges_none = a_discriminator(store, FixedScorer(0.0), StubPlans(a_plan(cascades=())))
    (outcome,) = asyncio.run(judges_none.on_record(a_record(image)))
    assert result_of(read(outcome, Outcome)).overridden == ("x", "quality: medium -> low")


def test_a_request_of_low_quality_is_kept_unscored(store: MemoryImageStore) -> None:
    scorer = FixedScorer(0.0)
    image = stored_image(store, a_job(a_classified(a_request(quality="low"))))
    (outcome,) = asyncio.run(a_discriminator(store, scorer).on_record(a_record(image)))
    assert read(outcome, Outcome).status is Status.COMPLETED
    assert scorer.scored == 0
