"""Prompts that are encoded before their call: each image is the same to the last bit as without it."""

import dataclasses
import importlib
from functools import cache
from typing import Any

import pytest

from agents.engines import EncodedPrompts, Generated, GenerationTask, open_engine
from agents.engines.diffusers_engine import DiffusersEngine, load
from agents.engines.pipelines import load_pipeline
from agents.engines.text_encoding import TextLimits
from planner.catalog.entries import Loading, Variant
from planner.catalog.options import ResolvedOptions, resolve_options
from schemas.messages import GenerateOptions
from streams import catalogs

pytestmark = pytest.mark.torch

PROMPTS = ("a red heart above a blue star", "a green tree")
LEVELS = ("light", "middle", "heavy")
GUIDED = {"guidance": 2.0, "negative_prompt": "a blue star"}


def level(name: str) -> Variant:
    """A level that ships, with two steps where it takes more."""
    shipped = catalogs.load("tiny").level(name)
    return dataclasses.replace(shipped, loading=Loading(device="cpu"), steps=min(shipped.steps, 2))


@cache
def engine(name: str) -> DiffusersEngine:
    return load(level(name), 1)


def at(name: str, step: int = 0, **options: Any) -> ResolvedOptions:
    return resolve_options(GenerateOptions(**options), level(name), step)


def tasks(over: Any = None) -> list[GenerationTask]:
    overs = over or [None] * len(PROMPTS)
    return [
        GenerationTask(request_id="r", prompt=prompt, seed=5 + n, over=overs[n]) for n, prompt in enumerate(PROMPTS)
    ]


class Encoder:
    """Counts the calls of an engine's text encoder."""

    def __init__(self, of: DiffusersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, encoder = 0, of._pipeline.text_encoder
        forward = encoder.forward

        def counted(*given: Any, **named: Any) -> Any:
            self.calls += 1
            return forward(*given, **named)

        monkeypatch.setattr(encoder, "forward", counted)


def painted(by: DiffusersEngine, of: list[GenerationTask], how: ResolvedOptions, **more: Any) -> Generated:
    generated = by.generate(of, how, lambda: False, wants_latents=True, **more)
    assert generated is not None
    return generated


def bits(generated: Generated) -> list[bytes]:
    return [image.tobytes() for image in generated.images] + [
        each.values.tobytes() for each in generated.latents if each
    ]


def check(by: DiffusersEngine, of: list[GenerationTask], how: ResolvedOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, encoded = painted(by, of, how), by.encode(of, how)
    assert encoded is not None
    with monkeypatch.context() as patch:
        encoder = Encoder(by, patch)
        assert bits(painted(by, of, how, encoded=encoded)) == bits(plain)
    assert encoder.calls == 0, "nothing is encoded again"


@pytest.mark.parametrize("options", [{}, GUIDED, {"guidance": 1.0}], ids=["own", "guided", "unguided"])
@pytest.mark.parametrize("name", LEVELS)
def test_images_from_noise_are_the_same_and_encode_nothing(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    how = at(name, **options)
    check(engine(name), tasks(), how, monkeypatch)
    check(engine(name), tasks()[:1], how, monkeypatch)


@pytest.mark.parametrize("options", [{}, GUIDED], ids=["own", "guided"])
@pytest.mark.parametrize("begins_with", ["draft", "latent"])
@pytest.mark.parametrize("name", ["middle", "heavy"])
def test_images_that_refine_a_draft_or_a_latent_are_the_same_and_encode_nothing(
    name: str, begins_with: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = painted(engine(name), tasks(), at(name))
    over: Any = begun.images if begins_with == "draft" else begun.latents
    check(engine(name), tasks(over), at(name, 1, **options), monkeypatch)


@pytest.mark.parametrize(
    ("of", "options"),
    [(slice(1), GUIDED), (slice(None, None, -1), GUIDED), (slice(2), {}), (slice(2), {"guidance": 2.0})],
)
def test_prompts_of_another_call_are_encoded_within_it(of: slice, options: dict[str, Any]) -> None:
    by, how = engine("middle"), at("middle", **options)
    other = by.encode(tasks(), at("middle", **GUIDED))
    assert other is not None
    assert bits(painted(by, tasks()[of], how, encoded=other)) == bits(painted(by, tasks()[of], how))


def test_prompts_encoded_for_a_call_from_noise_serve_one_that_begins_with_a_latent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by = engine("middle")
    over, how = tasks(painted(by, tasks(), at("middle")).latents), at("middle", 1)
    wanted, encoded = painted(by, over, how), by.encode(tasks(), at("middle"))
    encoder = Encoder(by, monkeypatch)
    assert bits(painted(by, over, how, encoded=encoded)) == bits(wanted)
    assert encoder.calls == 0


def test_a_pipeline_that_is_not_known_to_take_them_encodes_within_its_calls() -> None:
    diffusers = importlib.import_module("diffusers")
    parts = dict(load_pipeline(level("middle")).components)
    scheduler = diffusers.LCMScheduler.from_config(parts.pop("scheduler").config)
    consistent = diffusers.LatentConsistencyModelPipeline(**parts, scheduler=scheduler, requires_safety_checker=False)
    assert DiffusersEngine(consistent, level("middle")).encode(tasks(), at("middle")) is None


def test_an_engine_that_takes_the_measured_time_of_a_whole_call_encodes_nothing_before_it() -> None:
    quick = dataclasses.replace(level("light"), latency_ms={1: 1.0, 2: 1.0}, load_ms=0.0)
    foreign = EncodedPrompts(prompts=PROMPTS, negative_prompt="", guidance=1.0, embeddings={})
    for by in (open_engine("profile", quick, 1), open_engine("chaos", quick, 1)):
        assert by.encode(tasks(), at("light")) is None
        made = by.generate(tasks(), at("light"), lambda: False, encoded=foreign)
        assert made is not None
        assert len(made.images) == len(PROMPTS)


def test_what_an_encoder_does_not_read_is_counted_in_its_tokens() -> None:
    long = "a red heart and " * 30
    assert engine("light").cuts(PROMPTS[0], "") == ()
    assert engine("light").cuts(long + "a blue star", "") == ("prompt: 125 tokens -> 48, the rest is cut",)
    assert engine("light").cuts("a star", long) == ("negative_prompt: 122 tokens -> 48, the rest is cut",)


def test_what_is_not_read_makes_no_image_differ() -> None:
    long = "a red heart and " * 30
    ends = [GenerationTask(request_id="r", prompt=long + end, seed=7) for end in ("a blue star", "a green square")]
    one, other = (painted(engine("light"), [each], at("light")).images[0] for each in ends)
    assert one.tobytes() == other.tobytes()


class Words:
    """A tokenizer of words."""

    def __init__(self, limit: int) -> None:
        self.model_max_length = limit

    def __call__(self, text: str, **_how: Any) -> dict[str, list[str]]:
        return {"input_ids": text.split()}


class Several:
    """A pipeline of two encoders whose call limits the second one."""

    def __init__(self, first: int, second: int) -> None:
        self.components = {"tokenizer": Words(first), "tokenizer_2": Words(second), "tokenizer_3": None, "unet": 1}

    def __call__(self, prompt: str, max_sequence_length: int = 256) -> None: ...


@pytest.mark.parametrize(
    ("limits", "words", "cut"),
    [
        ((77, 512), 100, ()),  # the second reads it whole
        ((77, 512), 300, ("prompt: 300 tokens -> 256, the rest is cut",)),
        ((77, 10**30), 250, ()),
        ((77, 77), 78, ("prompt: 78 tokens -> 77, the rest is cut",)),
    ],
)
def test_a_text_is_cut_where_no_encoder_of_several_reads_it_whole(
    limits: tuple[int, int], words: int, cut: tuple[str, ...]
) -> None:
    assert TextLimits(Several(*limits)).cuts("a " * words, "") == cut
