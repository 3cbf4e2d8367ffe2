"""Latents of the shipped models: given without changing an image, begun with in place of a draft, or refused."""

import dataclasses
import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from agents.engines import CannotRefine, Generated, GenerationTask
from agents.engines.diffusers_engine import DiffusersEngine, _latent, load
from agents.engines.latent_spaces import digest_of
from agents.engines.pipelines import _prepared, load_pipeline
from planner.catalog.entries import Loading, Variant
from planner.catalog.options import ResolvedOptions, resolve_options
from schemas.messages import GenerateOptions
from streams import catalogs
from streams.store.latents import Latent, LatentSpace, UnfitLatent, from_bytes, to_bytes
from tests.agents.engines.extra_large import extra_large_pipeline

pytestmark = pytest.mark.torch

PROMPTS = ("a red heart above a blue star", "a green tree")
SAME = 2  # of 255: rounding of the last bit differs with the batch


def level(name: str, **changes: Any) -> Variant:
    """A level that ships; middle with more steps than it takes there, so that some can be skipped."""
    longer = {"steps": 4, "guidance": 2.0} if name == "middle" else {}
    return dataclasses.replace(
        catalogs.load("tiny").level(name), loading=Loading(device="cpu"), **{**longer, **changes}
    )


@cache
def engine(name: str, scheduler: str = "") -> DiffusersEngine:
    return load(level(name, scheduler=scheduler), 1)


def at(step: int, name: str = "middle", **options: Any) -> ResolvedOptions:
    return resolve_options(GenerateOptions(**options), level(name), step)


def tasks(*of: int, over: Any = None, seed: int = 5) -> list[GenerationTask]:
    return [
        GenerationTask(request_id="r", prompt=PROMPTS[n], seed=seed + n, over=over and over[n]) for n in of or (0, 1)
    ]


def painted(of: list[GenerationTask], how: ResolvedOptions, by: DiffusersEngine | None = None) -> Generated:
    generated = (by or engine("middle")).generate(of, how, lambda: False, wants_latents=True)
    assert generated is not None
    return generated


@cache
def stored(name: str = "middle") -> Generated:
    return painted(tasks(), at(0, name), engine(name))


def apart(one: Generated, other: Generated) -> int:
    pairs = zip(one.images, other.images, strict=True)
    return max(int(np.abs(np.asarray(a).astype(int) - np.asarray(b).astype(int)).max()) for a, b in pairs)


def decoded(by: DiffusersEngine, latents: list[Latent | None]) -> Generated:
    """Images of latents, as nothing but the autoencoder makes them."""
    vae, values = by._pipeline.vae, np.stack([latent.values for latent in latents if latent])
    with torch.inference_mode():
        pixels = vae.decode(torch.from_numpy(values) / vae.config.scaling_factor).sample
        return Generated(by._pipeline.image_processor.postprocess(pixels, "pil"), [])


def encoded(by: DiffusersEngine, images: list[Any]) -> list[Latent]:
    """Latents of images, as nothing but the autoencoder makes them."""
    vae, space = by._pipeline.vae, by.latent_space
    assert space is not None
    with torch.inference_mode():
        values = vae.encode(by._pipeline.image_processor.preprocess(images)).latents * vae.config.scaling_factor
    return [Latent(values=each.numpy().copy(), autoencoder=space.autoencoder) for each in values]


@contextmanager
def calls_of(part: torch.nn.Module) -> Iterator[list[object]]:
    calls: list[object] = []
    hook = part.register_forward_hook(lambda *_: calls.append(None))
    try:
        yield calls
    finally:
        hook.remove()


@pytest.mark.parametrize("name", ["light", "middle"])
def test_images_are_the_same_to_the_last_bit_whether_or_not_their_latents_are_wanted(name: str) -> None:
    plain = engine(name).generate(tasks(), at(0, name), lambda: False)
    assert plain is not None
    assert plain.latents == [None, None]
    assert apart(plain, stored(name)) == 0


@pytest.mark.parametrize("name", ["light", "middle"])
def test_a_latent_is_what_the_autoencoder_decodes_to_the_image(name: str) -> None:
    assert apart(decoded(engine(name), stored(name).latents), stored(name)) == 0


def test_the_latents_of_a_refined_draft_are_given_too() -> None:
    refined = painted(tasks(over=stored().images, seed=9), at(2))
    assert apart(decoded(engine("middle"), refined.latents), refined) == 0


def test_beginning_with_the_encoded_draft_is_refining_the_draft() -> None:
    drafts = stored().images
    over_drafts = painted(tasks(over=drafts, seed=9), at(2))
    over_latents = painted(tasks(over=encoded(engine("middle"), drafts), seed=9), at(2))
    assert apart(over_drafts, over_latents) == 0


def test_drafts_are_refined_as_before_after_a_call_with_latents() -> None:
    before = painted(tasks(over=stored().images, seed=9), at(1))
    painted(tasks(over=stored().latents), at(1))
    assert apart(painted(tasks(over=stored().images, seed=9), at(1)), before) == 0
    assert apart(painted(tasks(), at(0)), stored()) == 0


@pytest.mark.parametrize("scheduler", ["", "EulerDiscreteScheduler", "DPMSolverMultistepScheduler"])
def test_so_many_of_the_steps_are_skipped_and_nothing_is_encoded(scheduler: str) -> None:
    by = engine("middle", scheduler)
    with calls_of(by._pipeline.unet) as steps, calls_of(by._pipeline.vae.encoder) as encodings:
        for step, of in ((1, 4), (3, 4), (7, 22)):  # 22 * (15 / 22) is below 15
            steps.clear()
            painted(tasks(over=stored().latents), at(step, steps=of), by)
            assert len(steps) == of - step
    assert not encodings


def test_the_same_latent_and_seed_give_the_same_image_alone_and_in_any_batch() -> None:
    together = painted(tasks(0, 1, over=stored().latents, seed=9), at(2))
    turned = painted(tasks(1, 0, over=stored().latents, seed=9), at(2))
    assert apart(together, turned._replace(images=turned.images[::-1])) <= SAME
    assert (
        apart(painted(tasks(1, over=stored().latents, seed=9), at(2)), turned._replace(images=turned.images[:1]))
        <= SAME
    )
    assert (
        apart(painted(tasks(0, over=stored().latents, seed=10), at(2)), together._replace(images=together.images[:1]))
        > SAME
    )


def test_a_latent_in_half_precision_from_a_store_begins_an_image_beside_one_in_single_precision() -> None:
    first, second = stored().latents
    assert first is not None
    half = from_bytes(to_bytes(dataclasses.replace(first, values=first.values.astype(np.float16))))
    wanted = painted(tasks(over=[first, second], seed=9), at(2))
    assert apart(painted(tasks(over=[half, second], seed=9), at(2)), wanted) <= SAME


def test_models_with_one_autoencoder_go_on_from_each_others_latents_and_no_others() -> None:
    light, middle, heavy = (engine(name).latent_space for name in ("light", "middle", "heavy"))
    assert middle == heavy == LatentSpace(digest_of(engine("heavy")._pipeline.vae), channels=8, factor=4)
    assert light is not None
    assert heavy is not None
    assert (light.channels, light.factor) == (heavy.channels, heavy.factor)
    painted(tasks(over=stored("middle").latents), at(3, "heavy"), engine("heavy"))
    with (
        calls_of(engine("heavy")._pipeline.unet) as calls,
        pytest.raises(UnfitLatent, match="of autoencoder") as refused,
    ):
        painted(tasks(over=stored("light").latents), at(3, "heavy"), engine("heavy"))
    assert refused.value.kind == "autoencoder"
    assert not calls


def test_a_latent_of_another_size_begins_no_image() -> None:
    first, second = stored().latents
    assert first is not None
    small = dataclasses.replace(first, values=first.values[:, :8, :8])
    with (
        calls_of(engine("middle")._pipeline.unet) as calls,
        pytest.raises(UnfitLatent, match=r"\[8, 8, 8\], not \[8, 12, 12\]"),
    ):
        painted(tasks(over=[second, small]), at(2))
    assert not calls


def test_without_a_step_a_latent_is_left_alone() -> None:
    assert apart(painted(tasks(over=stored("light").latents), at(0)), stored()) == 0


def test_drafts_and_latents_do_not_share_a_call() -> None:
    with pytest.raises(AssertionError, match="1 of 2 tasks begin with latents"):
        painted(tasks(over=[stored().images[0], stored().latents[1]]), at(2))


def test_an_image_that_nobody_wants_any_more_stops_and_leaves_no_latent() -> None:
    over = tasks(over=stored().latents)
    with calls_of(engine("middle")._pipeline.unet) as calls:
        assert engine("middle").generate(over, at(1), lambda: True, wants_latents=True) is None
    assert len(calls) == 1


def test_a_pipeline_whose_latents_are_not_known_gives_none_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = load_pipeline(level("middle"))
    pipeline.__class__ = type("OtherPipeline", (type(pipeline),), {})
    monkeypatch.setattr("agents.engines.diffusers_engine.load_pipeline", lambda *_of: pipeline)
    with caplog.at_level(logging.INFO):
        unknown = load(level("middle"), 1)
        given = [painted(tasks(), at(0), unknown) for _ in range(2)]
    assert unknown.latent_space is None
    assert [each.latents for each in given] == [[None, None]] * 2
    assert apart(given[0], stored()) == 0
    said = [record.message for record in caplog.records if "latents" in record.message]
    assert said == ["variant 'middle' gives and takes no latents: OtherPipeline"]


def test_a_pipeline_whose_latents_are_not_known_begins_with_none() -> None:
    diffusers = importlib.import_module("diffusers")
    parts = dict(load_pipeline(level("middle")).components)
    scheduler = diffusers.LCMScheduler.from_config(parts.pop("scheduler").config)
    consistent = diffusers.LatentConsistencyModelPipeline(**parts, scheduler=scheduler, requires_safety_checker=False)
    with pytest.raises(CannotRefine, match="LatentConsistencyModelPipeline cannot begin with a latent"):
        painted(tasks(over=stored().latents), at(2), DiffusersEngine(consistent, level("middle")))


def test_what_is_not_finite_is_not_kept_and_does_not_end_the_image(caplog: pytest.LogCaptureFixture) -> None:
    space = LatentSpace("0ddba11", channels=8, factor=4)
    with caplog.at_level(logging.WARNING):
        assert _latent(torch.full((8, 12, 12), torch.nan), space) is None
    assert "must be finite" in caplog.text
    half, brain = (_latent(torch.ones(8, 12, 12, dtype=kind), space) for kind in (torch.float16, torch.bfloat16))
    assert half is not None
    assert brain is not None
    assert [each.values.dtype.name for each in (half, brain)] == ["float16", "float32"]


def test_the_digest_goes_by_the_autoencoder_and_not_by_how_it_is_loaded() -> None:
    vae = load_pipeline(level("light")).vae
    own = digest_of(vae)
    assert own == digest_of(load_pipeline(level("light")).vae.to(memory_format=torch.contiguous_format))
    assert own == digest_of(vae.half())


@pytest.mark.parametrize("change", ["weights", "scaling_factor"])
def test_another_autoencoder_of_one_architecture_has_another_digest(change: str) -> None:
    vae = load_pipeline(level("light")).vae
    own = digest_of(vae)
    if change == "weights":
        with torch.no_grad():
            next(vae.decoder.parameters()).mul_(1.01)
    else:
        vae.register_to_config(scaling_factor=0.18215)
    assert digest_of(vae) != own


@cache
def extra_large() -> DiffusersEngine:
    pipeline = extra_large_pipeline(load_pipeline(level("light")).tokenizer)
    return DiffusersEngine(_prepared(pipeline), level("middle"))


def test_stable_diffusion_xl_gives_and_takes_latents_as_well() -> None:
    by, how = extra_large(), at(0, "middle")._replace(width=32, height=32)
    assert by.latent_space is not None
    assert by.latent_space.shape(32, 32) == (4, 16, 16)
    plain = by.generate(tasks(), how, lambda: False)
    generated = painted(tasks(), how, by)
    assert plain is not None
    assert apart(plain, generated) == 0
    assert apart(decoded(by, generated.latents), generated) == 0
    over = tasks(over=generated.latents, seed=9)
    with calls_of(by._pipeline.unet) as steps, calls_of(by._pipeline.vae.encoder) as encodings:
        again = painted(over, how._replace(refine_from_step=3), by)
    assert (len(steps), len(encodings)) == (how.steps - 3, 0)
    assert apart(painted(over, how._replace(refine_from_step=3), by), again) == 0
    assert apart(decoded(by, again.latents), again) == 0


@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_stable_diffusion_xl_generates_the_same_from_prompts_that_were_encoded_before(guidance: float) -> None:
    by, how = extra_large(), at(0, guidance=guidance, negative_prompt="a tree")._replace(width=32, height=32)
    encoded, plain = by.encode(tasks(), how), painted(tasks(), how, by)
    assert encoded is not None
    begun, later = tasks(over=plain.latents, seed=9), how._replace(refine_from_step=2)
    pairs = ((tasks(), how, plain), (begun, later, painted(begun, later, by)))
    text, other = by._pipeline.text_encoder, by._pipeline.text_encoder_2
    with calls_of(text) as first, calls_of(other) as second:
        for of, then, wanted in pairs:
            given = by.generate(of, then, lambda: False, encoded=encoded)
            assert given is not None
            assert apart(given, wanted) == 0
    assert not first
    assert not second
