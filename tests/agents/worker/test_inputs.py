"""What a worker does with images and components that a request names: opened in size, or the request is rejected."""

import dataclasses
import io
from types import MappingProxyType
from typing import Any

import pytest
from PIL import Image

from agents.engines import CannotRefine, GenerationTask
from agents.worker.jobs import Taken
from planner.serving.admission.inputs import input_name
from planner.serving.ending.outcomes import step_of
from schemas.messages import GenerateJob, GenerateOptions, ImageGenerated, Outcome, Stage, Status
from schemas.record import Headers
from schemas.topics import OUTCOMES
from streams.codec.headers import ANY_FORM
from streams.store.input_images import ORIENTATION
from tests.agents.stubs import StubEngine, a_record, read
from tests.agents.worker.driving import a_driver, answers
from tests.builders import a_classified, a_job, a_request, an_image, composed_variant
from tests.memory_store import MemoryImageStore

VARIANT = composed_variant(honours=("image", "mask"))


class Recording(StubEngine):
    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[GenerationTask] = []
        self.error: Exception | None = None

    def generate(self, tasks: Any, how: Any, should_stop: Any, **more: Any) -> Any:
        self.tasks += tasks
        if self.error is not None:
            raise self.error
        return super().generate(tasks, how, should_stop, **more)


class Studio:
    def __init__(self) -> None:
        self.engine, self.store = Recording(), MemoryImageStore()
        self.path: tuple[Stage, ...] = ()
        self.driver = a_driver("w-9", self.engine, VARIANT, self.store, set(), 3)

    def put(
        self, size: tuple[int, int] = (64, 40), tenant: str = "default", data: bytes | None = None, mode: str = "RGB",
        orientation: int = 1,
    ) -> str:  # fmt: skip
        out = io.BytesIO()
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        Image.new("RGB", size, (200, 30, 30)).convert(mode).save(out, "PNG", exif=exif)
        return self.store.put(input_name(tenant), out.getvalue() if data is None else data)

    def answer(self, headers: Headers = MappingProxyType({}), **options: Any) -> ImageGenerated | Outcome:
        prompt = options.pop("prompt", "a red heart")
        request = a_request(prompt=prompt, options=GenerateOptions(**options))
        job = dataclasses.replace(a_job(a_classified(request)), level="styles", variant="styles", path=self.path)
        record = dataclasses.replace(a_record(job, key=b"r-1"), headers=headers)
        (written,) = answers(self.driver, [Taken(record, 1)])
        return read(written, Outcome if written.topic == OUTCOMES else ImageGenerated)


def test_images_are_opened_in_the_size_that_is_generated_and_the_result_names_the_components() -> None:
    studio = Studio()
    uri = studio.put()
    said = studio.answer(
        controls=("outline",), control_images=(uri,), adapters=("candy",), adapter_weights=(0.5,), image=uri, mask=uri
    )
    assert isinstance(said, ImageGenerated)
    assert said.components == ("base:poster", "adapter:candy@0.5", "control:outline@1")
    (task,) = studio.engine.tasks
    assert task.image is not None
    assert task.mask is not None
    assert [each.size for each in (*task.controls, task.image, task.mask)] == [(32, 32)] * 3
    assert (task.image.mode, task.mask.mode) == ("RGB", "L")


def test_what_is_not_there_foreign_or_no_image_is_rejected_and_nothing_is_generated() -> None:
    studio = Studio()
    gone = studio.put()
    studio.store.delete(gone)
    uris = {
        gone: "image is not in the store",
        studio.put(tenant="other"): "is another tenant's",
        studio.put(data=b"<svg/>"): "is no image of a known format",
        studio.put((8200, 1)): "at most 8192 px a side",
    }
    for uri, reason in uris.items():
        said = studio.answer(image=uri)
        assert isinstance(said, Outcome)
        assert (said.status, said.code, said.param) == (Status.REJECTED, "invalid", "image")
        assert reason in said.reason
    assert not studio.engine.batches


@pytest.mark.parametrize("options", [{"adapters": ("neon",)}, {"model": "chalk", "adapters": ("candy",)}])
def test_what_the_variant_does_not_honour_is_rejected_whoever_sent_it(options: dict[str, Any]) -> None:
    said = Studio().answer(**options)
    assert isinstance(said, Outcome)
    assert (said.status, said.code) == (Status.REJECTED, "unhonoured")


def test_a_model_that_cannot_begin_with_an_image_rejects_it_instead_of_leaving_it_out() -> None:
    studio = Studio()
    studio.engine.error = CannotRefine("no such pipeline")
    said = studio.answer(image=studio.put())
    assert isinstance(said, Outcome)
    assert (said.status, said.code) == (Status.REJECTED, "unhonoured")


CUT = "prompt: 130 tokens -> 77, the rest is cut"


def test_what_is_changed_of_prompts_and_images_is_said() -> None:
    studio = Studio()
    studio.engine.cuts = lambda _prompt, _negative: (CUT,)  # type: ignore[method-assign]
    uri, upright = studio.put((40, 64), mode="RGBA", orientation=6), studio.put((32, 32), mode="L")
    said = studio.answer(image=uri, mask=upright, controls=("outline",), control_images=(upright,))
    assert isinstance(said, ImageGenerated)
    assert said.job.overridden == (
        CUT, "control_images: L -> RGB", "image: EXIF orientation 6 -> upright", "image: RGBA -> RGB",
        "image: 64 x 40 px -> 32 x 32 px",
    )  # fmt: skip


def test_an_adapter_that_a_prompt_names_in_the_syntax_of_others_is_not_left_out_in_silence() -> None:
    studio = Studio()
    prompt = "a red heart <lora:candy:0.8> (red:1.3) <lora:candy:0.8>"
    said = studio.answer(prompt=prompt)
    assert isinstance(said, ImageGenerated)
    assert said.job.overridden == ("prompt: <lora:candy:0.8> -> letters, as `adapters` name adapters",)
    refused = studio.answer(prompt=prompt, strict=True)
    assert isinstance(refused, Outcome)
    assert "as `adapters` name adapters" in refused.reason


def test_a_job_that_is_tried_again_says_it_once() -> None:
    studio = Studio()
    studio.engine.cuts = lambda _prompt, _negative: (CUT,)  # type: ignore[method-assign]
    studio.engine.error = ValueError("a device is lost")
    job = dataclasses.replace(a_job(), level="styles", variant="styles")
    (again,) = answers(studio.driver, [Taken(a_record(job, key=b"r-1"), 1)])
    assert again.topic.startswith("jobs.")
    assert read(again, GenerateJob).overridden == ()


def test_under_strict_nothing_of_it_is_generated() -> None:
    studio = Studio()
    studio.engine.cuts = lambda _prompt, _negative: (CUT,)  # type: ignore[method-assign]
    said = studio.answer(strict=True)
    assert isinstance(said, Outcome)
    assert (said.status, said.code, said.param) == (Status.REJECTED, "unhonoured", "prompt")
    assert said.reason.startswith(f"styles does not honour {CUT}; shorten or change it, or send strict: false")
    assert not studio.engine.batches


def test_a_gateway_that_states_strict_for_its_client_lets_images_be_in_any_form_but_no_prompt_be_cut() -> None:
    studio = Studio()
    uri = studio.put()
    own = studio.answer(strict=True, image=uri)
    assert isinstance(own, Outcome)
    assert "image: 64 x 40 px -> 32 x 32 px" in own.reason
    header = {ANY_FORM: b"1"}
    assert isinstance(studio.answer(header, strict=True, image=uri), ImageGenerated)
    studio.engine.cuts = lambda _prompt, _negative: (CUT,)  # type: ignore[method-assign]
    assert isinstance(studio.answer(header, strict=True, image=uri), Outcome)


def test_a_draft_that_was_read_whole_is_the_answer_where_the_next_level_would_cut_the_prompt() -> None:
    studio = Studio()
    studio.engine.cuts = lambda _prompt, _negative: (CUT,)  # type: ignore[method-assign]
    studio.path = (step_of(an_image(), 0.4, 0.9),)
    said = studio.answer(strict=True)
    assert isinstance(said, Outcome)
    assert (said.status, said.path) == (Status.COMPLETED, studio.path)


def test_a_tokenizer_that_fails_costs_no_image() -> None:
    studio = Studio()

    def broken(_prompt: str, _negative: str) -> tuple[str, ...]:
        raise RuntimeError("no such vocabulary")

    studio.engine.cuts = broken  # type: ignore[method-assign]
    assert isinstance(studio.answer(strict=True), ImageGenerated)
