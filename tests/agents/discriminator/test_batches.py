"""Images that wait are judged together, and each request is decided as if it had been judged alone."""

import asyncio
import dataclasses
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from prometheus_client import REGISTRY

from agents.discriminator.batches import Batches
from agents.judges import JudgeAway, JudgeFailed
from schemas.messages import GenerateJob, GenerateRequest, ImageGenerated, Outcome
from streams.store.port import Unreadable
from tests.agents.discriminator.test_role import a_discriminator, stored_image
from tests.agents.stubs import StubPlans, a_record, read
from tests.builders import a_cascade, a_catalog, a_classified, a_job, a_plan, a_request
from tests.builders import a_discriminator as an_entry
from tests.memory_store import MemoryImageStore


class Counting:
    """Trusts a request as its number says, and notes the sizes of its calls."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.raises: dict[str, Exception] = {}
        self.goes_on.set()

    def score(self, requests: Sequence[GenerateRequest], pictures: Sequence[np.ndarray]) -> list[float]:
        assert len(requests) == len(pictures)
        self.calls.append(len(requests))
        self.begun.set()
        assert self.goes_on.wait(10)
        for request in requests:
            if request.request_id in self.raises:
                raise self.raises[request.request_id]
        return [int(request.request_id[2:]) / 100 for request in requests]


@pytest.fixture
def store() -> MemoryImageStore:
    return MemoryImageStore()


def images(store: MemoryImageStore, count: int) -> list[ImageGenerated]:
    return [stored_image(store, a_job(a_classified(a_request(request_id=f"r-{n}")))) for n in range(count)]


def test_what_comes_while_a_call_runs_is_the_next_call(store: MemoryImageStore) -> None:
    async def scenario() -> list[float]:
        scorer.goes_on.clear()
        batches, made = Batches(store, {"look": scorer}), images(store, 12)
        first = batches.submit("look", made[0])
        await asyncio.to_thread(scorer.begun.wait, 10)
        rest = [batches.submit("look", each) for each in made[1:]]
        scorer.goes_on.set()
        return [(await each).confidence for each in (first, *rest)]

    scorer = Counting()
    assert asyncio.run(scenario()) == [n / 100 for n in range(12)], "each has its own score"
    assert scorer.calls == [1, 8, 3], "one alone waits for nothing, and no call is larger than it may be"


def test_a_job_of_several_images_counts_as_so_many_and_is_not_divided(store: MemoryImageStore) -> None:
    async def scenario() -> None:
        batches = Batches(store, {"look": scorer})
        three = [dataclasses.replace(each, more=(each.image, each.image)) for each in images(store, 3)]
        await asyncio.gather(*(batches.submit("look", each) for each in three))

    scorer = Counting()
    asyncio.run(scenario())
    assert scorer.calls == [6, 3]


@pytest.mark.parametrize("error", [JudgeAway("away"), JudgeFailed("nonsense")])
def test_a_judge_that_is_away_is_away_for_all_of_a_call(store: MemoryImageStore, error: Exception) -> None:
    async def scenario() -> list[object]:
        batches = Batches(store, {"look": scorer})
        return await asyncio.gather(
            *(batches.submit("look", each) for each in images(store, 3)), return_exceptions=True
        )

    scorer = Counting()
    scorer.raises["r-1"] = error
    assert asyncio.run(scenario()) == [error] * 3
    assert scorer.calls == [3], "it is not asked once more for each"


def test_an_image_over_which_a_model_fails_fails_alone(store: MemoryImageStore) -> None:
    async def scenario() -> list[object]:
        batches, made = Batches(store, {"look": scorer}), images(store, 4)
        made[3] = dataclasses.replace(made[3], image=dataclasses.replace(made[3].image, uri="memory:nothing"))
        return await asyncio.gather(*(batches.submit("look", each) for each in made), return_exceptions=True)

    scorer = Counting()
    scorer.raises["r-1"] = ValueError("odd")
    first, odd, third, gone = asyncio.run(scenario())
    assert (first.confidence, third.confidence) == (0.0, 0.02)  # type: ignore[attr-defined]
    assert isinstance(odd, ValueError)
    assert isinstance(gone, Unreadable)


def test_records_that_come_next_are_scored_in_one_call_and_decided_in_their_turn(store: MemoryImageStore) -> None:
    async def scenario() -> list[float | None]:
        role = a_discriminator(store, scorer)  # type: ignore[arg-type]
        records = [dataclasses.replace(a_record(each), offset=n) for n, each in enumerate(images(store, 8))]
        said = []
        for n, record in enumerate(records):
            role.look_ahead(records[n:])
            (first, *_) = await role.on_record(record)
            said.append(read(first, GenerateJob).path[0].confidence)
        return said

    scorer = Counting()
    assert asyncio.run(scenario()) == [n / 100 for n in range(8)]
    assert scorer.calls == [8]


def test_what_was_scored_ahead_by_another_discriminator_is_scored_again(store: MemoryImageStore) -> None:
    async def scenario() -> float | None:
        entries = {name: an_entry(name=name) for name in ("look", "other")}
        plans = StubPlans(a_plan(cascades=(a_cascade(discriminator="other"),)))
        role = a_discriminator(store, look, plans, catalog=a_catalog(discriminators=entries))  # type: ignore[arg-type]
        role._batches._scorers = {"look": look, "other": other}  # type: ignore[assignment]
        (image,) = images(store, 1)
        record = a_record(image)
        role.look_ahead([record])
        plans.plan = a_plan(cascades=(a_cascade(discriminator="look"),))
        (job, _) = await role.on_record(record)
        return read(job, GenerateJob).path[0].confidence

    look, other = Counting(), Counting()
    assert asyncio.run(scenario()) == 0.0
    assert (look.calls, other.calls) == ([1], [1]), "the plan in force when it is decided counts"


def fallbacks(kind: str) -> float:
    return REGISTRY.get_sample_value("pochade_fallbacks_total", {"role": "discriminator", "kind": kind}) or 0.0


def test_a_judge_that_is_away_for_a_moment_is_waited_for_as_a_store_is(store: MemoryImageStore) -> None:
    class Back(Counting):
        def score(self, requests: Sequence[GenerateRequest], pictures: Sequence[np.ndarray]) -> list[float]:  # noqa: ARG002  the port's names
            self.calls.append(len(requests))
            if len(self.calls) == 1:
                raise JudgeAway("away")
            return [0.9]

    before = fallbacks("judge-away")
    (outcome,) = asyncio.run(a_discriminator(store, Back()).on_record(a_record(stored_image(store))))  # type: ignore[arg-type]
    assert read(outcome, Outcome).path[0].confidence == 0.9
    assert fallbacks("judge-away") == before + 1


def test_an_image_that_a_judge_gives_no_score_is_not_kept_and_counted(store: MemoryImageStore) -> None:
    scorer, before = Counting(), fallbacks("judge-failed")
    image = stored_image(store, a_job(a_classified(a_request(request_id="r-99"))))
    scorer.raises["r-99"] = JudgeFailed("nonsense")
    (job, _) = asyncio.run(a_discriminator(store, scorer).on_record(a_record(image)))  # type: ignore[arg-type]
    assert read(job, GenerateJob).path[0].confidence == 0.0
    assert fallbacks("judge-failed") == before + 1
