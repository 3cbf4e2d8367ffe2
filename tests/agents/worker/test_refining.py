"""What a worker does with jobs that refine their drafts: together where alike, from noise where it cannot be."""

import io
import json
from typing import Any

import pytest
from PIL import Image
from prometheus_client import REGISTRY

from agents.engines import CannotRefine
from agents.worker.jobs import Taken
from planner.serving.ending.outcomes import step_of
from planner.serving.generating import window
from schemas.errors import PochadeError
from schemas.ids import refinement_seed, seed_of
from schemas.messages import Event, GenerateOptions, ImageGenerated, ImageRef, Outcome, Status
from schemas.record import Outgoing
from streams.clock import now_ms
from streams.store.port import StoreUnavailable, Unreadable
from tests.agents.stubs import StubEngine, a_record, read
from tests.agents.worker.driving import a_driver, answers
from tests.builders import a_classified, a_job, a_request, a_variant, an_image, an_image_ref
from tests.memory_store import MemoryImageStore
from tests.patience import PATIENCE_S

HEAVY = a_variant(name="heavy", steps=8, latency_ms={1: 80_000.0}, honours=("steps",))


class Studio:
    """A worker of `heavy`, and jobs over drafts in its store, whose green distinguishes them."""

    def __init__(self, engine: StubEngine | None = None) -> None:
        self.engine, self.store, self.notes = engine or StubEngine(), MemoryImageStore(), list[Outgoing]()
        self.driver = a_driver("w-9", self.engine, HEAVY, self.store, set(), 3, note=self.notes.append)

    def draft(self, green: int = 100, size: tuple[int, int] = (32, 32)) -> ImageRef:
        out = io.BytesIO()
        Image.new("RGB", size, (0, green, 0)).save(out, "PNG")
        return an_image_ref(uri=self.store.put("draft", out.getvalue()))

    def job(self, request_id: str, *drafts: ImageRef, step: int = 3, attempt: int = 1, **asked: Any) -> Taken:
        first, *more = drafts or (self.draft(),)
        path = (step_of(an_image(image=first, more=tuple(more)), 0.2, 0.5),)
        classified = a_classified(a_request(request_id=request_id, **asked))
        job = a_job(classified, level="heavy", variant="heavy", stage=1, path=path, refine_from_step=step)
        return Taken(a_record(job, key=request_id.encode()), attempt)

    def generated(self, *jobs: Taken) -> list[ImageGenerated]:
        return [read(record, ImageGenerated) for record in answers(self.driver, jobs)]

    def pixels(self, image: ImageGenerated) -> list[Any]:
        """(seed, green of the draft + step, 0) of each image."""
        stored = [self.store.get(ref.uri) for ref in (image.image, *image.more)]
        return [Image.open(io.BytesIO(data)).getpixel((0, 0)) for data in stored]


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"pochade_{name}_total", labels) or 0.0


def seed_over(request_id: str) -> int:
    return refinement_seed(seed_of(request_id), 1) % 256


def test_a_job_begins_with_its_draft_at_its_step_and_says_so() -> None:
    studio, before = Studio(), counted("generated_jobs", started_from="draft")
    (said,) = studio.generated(studio.job("r-1", studio.draft(100)))
    assert studio.pixels(said) == [(seed_over("r-1"), 103, 0)]
    assert said.refine_from_step == 3
    assert (said.made.begins_with, said.made.from_step, said.made.seed) == ("draft", 3, seed_of("r-1"))
    assert counted("generated_jobs", started_from="draft") == before + 1
    (note,) = studio.notes
    assert json.loads(read(note, Event).detail)["paint_over_step"] == 3


def test_jobs_that_begin_at_the_same_step_share_a_call_whatever_their_drafts() -> None:
    studio = Studio()
    jobs = [studio.job("a", studio.draft(10)), studio.job("b", step=0), studio.job("c", studio.draft(20))]
    a, c, b = studio.generated(*jobs, studio.job("d", step=4))[:3]
    assert studio.engine.batches == [["a", "c"], ["b"], ["d"]]
    assert [how.refine_from_step for how in studio.engine.hows] == [3, 0, 4]
    assert studio.pixels(a) + studio.pixels(c) + studio.pixels(b) == [
        (seed_over("a"), 13, 0), (seed_over("c"), 23, 0), (seed_of("b") % 256, 0, 0),
    ]  # fmt: skip


def test_each_image_of_several_is_refined_from_its_own_draft_with_its_own_noise() -> None:
    studio = Studio()
    drafts = [studio.draft(green) for green in (10, 20)]
    (said,) = studio.generated(studio.job("r-1", *drafts, options=GenerateOptions(n=2)))
    seeds = [refinement_seed(seed_of("r-1") + i, 1) % 256 for i in range(2)]
    assert studio.pixels(said) == [(seeds[0], 13, 0), (seeds[1], 23, 0)]


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever cannot be read is not waited for, unless a test sets another limit."""
    monkeypatch.setattr(window, "DRAFT_S", 0.0)


@pytest.mark.parametrize("kind", ["missing", "broken", "size", "steps", "retry", "number"])
def test_a_draft_that_cannot_be_refined_costs_a_generation_from_noise_and_a_count_never_the_request(kind: str) -> None:
    studio, before = Studio(), counted("fallbacks", role="worker", kind=f"paint-over-{kind}")
    job = {
        "missing": lambda: studio.job("r-1", an_image_ref(uri="memory:ab/gone.png")),
        "broken": lambda: studio.job("r-1", an_image_ref(uri=studio.store.put("draft", b"\x89PNG\r\n\x1a\nnonsense"))),
        "size": lambda: studio.job("r-1", studio.draft(size=(64, 32))),
        "steps": lambda: studio.job("r-1", options=GenerateOptions(steps=2)),
        "retry": lambda: studio.job("r-1", attempt=2),
        "number": lambda: studio.job("r-1", studio.draft(), options=GenerateOptions(n=2)),
    }[kind]()
    (said,) = studio.generated(job)
    assert studio.pixels(said)[0] == (seed_of("r-1") % 256, 0, 0)
    assert said.refine_from_step == 0
    assert counted("fallbacks", role="worker", kind=f"paint-over-{kind}") == before + 1


def test_an_engine_that_cannot_begin_with_an_image_generates_from_noise() -> None:
    class Unable(StubEngine):
        def generate(self, tasks: Any, how: Any, should_stop: Any) -> Any:
            if how.refine_from_step:
                raise CannotRefine("no such pipeline")
            return super().generate(tasks, how, should_stop)

    studio, before = Studio(Unable()), counted("fallbacks", role="worker", kind="paint-over-engine")
    said = studio.generated(studio.job("a"), studio.job("b"))
    assert [(each.refine_from_step, studio.pixels(each)) for each in said] == [
        (0, [(seed_of("a") % 256, 0, 0)]), (0, [(seed_of("b") % 256, 0, 0)]),
    ]  # fmt: skip
    assert counted("fallbacks", role="worker", kind="paint-over-engine") == before + 2


@pytest.mark.parametrize(("error", "kind"), [(StoreUnavailable, "store"), (Unreadable, "missing")])
def test_a_draft_that_cannot_be_read_for_a_moment_is_waited_for_and_no_longer(
    error: type[PochadeError], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio = Studio()
    job, get, away = studio.job("r-1", studio.draft(100)), studio.store.get, [error("not yet")]

    def first_away(uri: str) -> bytes:
        if away:
            raise away.pop()
        return get(uri)

    monkeypatch.setattr(window, "DRAFT_S", PATIENCE_S)
    studio.store.get = first_away  # type: ignore[method-assign]
    assert studio.generated(job)[0].refine_from_step == 3
    monkeypatch.setattr(window, "DRAFT_S", 0.01)
    away += [error("not for long")] * 99
    before = counted("fallbacks", role="worker", kind=f"paint-over-{kind}")
    assert studio.generated(job)[0].refine_from_step == 0
    assert counted("fallbacks", role="worker", kind=f"paint-over-{kind}") == before + 1


def test_a_job_that_is_in_time_only_over_its_draft_is_refined_and_without_it_not_begun() -> None:
    studio = Studio()  # heavy takes 80 s from noise, 10 from step 7
    assert studio.generated(studio.job("r-1", step=7, deadline_ms=now_ms() + 60_000))[0].refine_from_step == 7
    (answer,) = answers(
        studio.driver,
        [studio.job("r-2", an_image_ref(uri="memory:ab/gone.png"), step=7, deadline_ms=now_ms() + 60_000)],
    )
    outcome = read(answer, Outcome)
    assert (outcome.status, len(studio.engine.batches)) == (Status.COMPLETED, 1)
    assert "the draft was kept" in outcome.reason


def test_the_pace_follows_what_the_jobs_of_late_skip() -> None:
    studio = Studio()
    for n in range(100):
        studio.generated(studio.job(f"r-{n}", step=6))
    assert studio.driver.worker.pace == pytest.approx(0.25, abs=0.01)
