"""A worker encodes the prompts of a batch while their latents are looked up, and neither costs the other its job."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agents.engines import EncodedPrompts, Generated, GenerationTask
from planner.catalog.options import ResolvedOptions
from planner.reuse.lookups.worker import GeneratedJobs
from schemas.messages import ImageGenerated
from tests.agents.worker.reusing import CALL_S, SHORT, Hanging, LatentEngine, Reusing, Troubled, a_latent
from tests.builders import a_plan, a_reuse_plan

PROMPT, OTHER = "a red heart above a blue star", "a green tree"


class EncodingEngine(LatentEngine):
    """Encodes prompts before their calls, and remembers what it encoded and which calls were given it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoded: list[tuple[str, ...]] = []
        self.given: list[tuple[str, ...] | None] = []
        self.before: Callable[[], Any] = lambda: None

    def encode(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> EncodedPrompts | None:
        self.before()
        self.encoded.append(tuple(task.prompt for task in tasks))
        return EncodedPrompts(
            prompts=self.encoded[-1], negative_prompt=how.negative_prompt, guidance=how.guidance, embeddings={}
        )

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: Callable[[], bool], *,
        wants_latents: bool = False, encoded: EncodedPrompts | None = None,
    ) -> Generated | None:  # fmt: skip
        self.given.append(None if encoded is None else encoded.prompts)
        return super().generate(tasks, how, should_stop, wants_latents=wants_latents)


def encoding(*given: Any, **named: Any) -> tuple[Reusing, EncodingEngine]:
    """A worker whose engine encodes, with the latent of one image."""
    engine = EncodingEngine()
    worker = Reusing(*given, engine=engine, **named)
    worker.keep(PROMPT, latent=a_latent(7.0))
    return worker, engine


def step(image: ImageGenerated) -> int:
    assert image.reuse is not None
    return image.reuse.step


def test_prompts_are_encoded_while_the_store_has_not_answered_yet() -> None:
    has_encoded, met = threading.Event(), list[bool]()
    store = Troubled(lambda: met.append(has_encoded.wait(CALL_S)))
    worker, engine = encoding(store)
    engine.before = has_encoded.set
    assert step(worker.one(PROMPT)) == 5
    assert met == [True], "the search was still running when the prompts were encoded"
    assert engine.given == [(PROMPT,)]


def test_the_store_is_asked_while_the_prompts_are_still_encoded() -> None:
    asked, met = threading.Event(), list[bool]()
    worker, engine = encoding(Troubled(asked.set))
    engine.before = lambda: met.append(asked.wait(CALL_S))
    assert step(worker.one(PROMPT)) == 5
    assert met == [True]


def test_the_latent_is_fetched_while_the_prompts_are_still_encoded() -> None:
    fetched, met = threading.Event(), list[bool]()
    worker, engine = encoding()
    get = worker.store.get

    def noted(uri: str) -> bytes:
        data = get(uri)
        fetched.set()
        return data

    worker.store.get = noted  # type: ignore[method-assign]
    engine.before = lambda: met.append(fetched.wait(CALL_S))
    assert step(worker.one(PROMPT)) == 5
    assert met == [True]


def test_prompts_of_jobs_that_come_to_begin_apart_are_encoded_within_their_calls() -> None:
    worker, engine = encoding()
    images = worker.generated(worker.job(PROMPT, "a"), worker.job(OTHER, "b"))
    assert [step(image) for image in images] == [5, 0]
    assert engine.encoded == [(PROMPT, OTHER)]
    assert engine.given == [None, None]
    assert [step(image) for image in worker.generated(worker.job(PROMPT, "c"), worker.job(PROMPT, "d"))] == [5, 5]
    assert engine.given[2:] == [(PROMPT, PROMPT)]


def test_a_text_encoder_that_fails_costs_no_lookup_and_no_image() -> None:
    worker, engine = encoding()

    def fail() -> None:
        raise RuntimeError("out of memory")

    engine.before = fail
    assert step(worker.one(PROMPT)) == 5
    assert engine.given == [None]


def test_a_lookup_that_fails_costs_no_image_nor_its_encoded_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, engine = encoding()

    def fail(_one: str, _other: str) -> Any:
        raise RuntimeError("the reader of facts is broken")

    monkeypatch.setattr(worker.lookups, "_compare", fail)
    assert worker.missed("a blue star above a red heart") == "failed"
    assert engine.given == [("a blue star above a red heart",)]


def test_a_store_that_hangs_is_cut_at_the_deadline_and_the_prompts_are_encoded_by_then() -> None:
    hang = Hanging()
    try:
        engine = EncodingEngine()
        worker = Reusing(Troubled(hang), SHORT, engine=engine)
        assert worker.missed(PROMPT) == "timeout"
        assert engine.given == [(PROMPT,)]
    finally:
        hang.ends.set()


def test_a_job_that_is_not_looked_up_is_not_encoded_before_its_call() -> None:
    worker, engine = encoding()
    assert step(worker.one(PROMPT, seed=7)) == 0
    worker.plan = a_plan(version=2, reuse=a_reuse_plan(floors=()))
    assert step(worker.one(PROMPT, request_id="r-2")) == 0
    assert engine.encoded == []


def test_encoded_prompts_are_of_one_batch_only() -> None:
    worker, engine = encoding()
    worker.one(PROMPT)
    worker.plan = None
    worker.generated(worker.job(PROMPT, "r-2"))
    assert engine.given == [(PROMPT,), None]


def test_a_lookup_costs_its_job_only_the_time_that_it_takes_beyond_the_text_encoding() -> None:
    times, has_encoded = {"now": 0.0}, threading.Event()

    def answer() -> None:
        has_encoded.wait(CALL_S)
        times["now"] += 8.0

    def encode() -> None:
        times["now"] += 20.0
        has_encoded.set()

    def cost_ms(beside: Callable[[], None]) -> float:
        worker, engine = encoding(Troubled(answer), clock_ms=lambda: times["now"])
        engine.before = beside
        worker.one(PROMPT)
        return worker.lookups.report(GeneratedJobs()).p50_ms

    assert cost_ms(encode) == 8.0, "20 of its 28 ms went by beside the encoding"
    assert cost_ms(lambda: None) == 8.0
