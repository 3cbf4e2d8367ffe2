"""The shipped models on a CUDA device in half precision; skipped where there is none."""

import dataclasses

import numpy as np
import pytest
import torch

from agents.engines import Engine, GenerationTask
from agents.engines.diffusers_engine import load
from planner.catalog.entries import Loading, Variant
from planner.catalog.options import resolve_options
from schemas.messages import GenerateOptions
from streams import catalogs

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device here"),
    pytest.mark.torch,
]

LEVELS = ("light", "heavy")
PROMPTS = ("a red heart", "a yellow star above a blue boat at night")
NEAR, FAR = 4, 24  # of 255, a pixel's mean difference: the same image; two images (seen: below 1, and 80)


def level(name: str, device: str = "cuda", dtype: str = "float16") -> Variant:
    return dataclasses.replace(catalogs.load("tiny").served[name], loading=Loading(device=device, dtype=dtype))


def generated(variant: Variant, engine: Engine) -> list[np.ndarray]:
    tasks = [GenerationTask(request_id=f"r-{n}", prompt=p, seed=n) for n, p in enumerate(PROMPTS)]
    generated = engine.generate(tasks, resolve_options(GenerateOptions(), variant), lambda: False)
    assert generated is not None
    return [np.asarray(image, dtype=np.float32) for image in generated.images]


@pytest.mark.parametrize("name", LEVELS)
def test_the_whole_pipeline_lies_on_the_device_in_half_precision(name: str) -> None:
    pipeline = load(level(name), 1)._pipeline
    for part in (pipeline.unet, pipeline.vae, pipeline.text_encoder):
        weights = next(part.parameters())
        assert (weights.device.type, weights.dtype) == ("cuda", torch.float16)


@pytest.mark.parametrize("name", LEVELS)
def test_half_precision_on_cuda_generates_what_single_precision_generates_on_the_cpu(name: str) -> None:
    half_precision, single_precision = level(name), level(name, "cpu", "float32")
    on_cuda = generated(half_precision, load(half_precision, 1))
    on_cpu = generated(single_precision, load(single_precision, 1))
    for half, single in zip(on_cuda, on_cpu, strict=True):
        assert np.abs(half - single).mean() < NEAR
    assert np.abs(on_cuda[0] - on_cuda[1]).mean() > FAR, "both prompts gave one image"


def test_the_same_task_gives_the_same_image_again() -> None:
    variant = level("light")
    engine = load(variant, 1)
    first, second = generated(variant, engine), generated(variant, engine)
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


def test_a_device_and_the_cpu_go_on_from_each_others_latents() -> None:
    engines = [(variant, load(variant, 1)) for variant in (level("heavy"), level("heavy", "cpu", "float32"))]
    assert engines[0][1].latent_space == engines[1][1].latent_space
    given = []
    for variant, engine in engines:
        tasks = [GenerationTask(request_id="r", prompt=PROMPTS[0], seed=1)]
        first = engine.generate(tasks, resolve_options(GenerateOptions(), variant), lambda: False, wants_latents=True)
        assert first is not None
        given.append(first.latents[0])
    assert [str(latent.values.dtype) for latent in given if latent] == ["float16", "float32"]
    begun = []
    for (variant, engine), latent in zip(engines, reversed(given), strict=True):
        over = [GenerationTask(request_id="r", prompt=PROMPTS[0], seed=2, over=latent)]
        second = engine.generate(over, resolve_options(GenerateOptions(), variant, variant.steps // 2), lambda: False)
        assert second is not None
        begun.append(np.asarray(second.images[0], dtype=np.float32))
    assert np.abs(begun[0] - begun[1]).mean() < NEAR


def test_nothing_said_in_the_catalog_uses_the_device() -> None:
    assert load(level("light", device="", dtype=""), 1)._pipeline.unet.device.type == "cuda"


def test_a_base_from_pinned_buffers_lies_on_the_device_with_the_weights_that_the_library_reads() -> None:
    variant = level("styles")
    engine = load(variant, 1)
    plain = dataclasses.replace(variant, bases=(), adapters=(), controls=(), components=())
    try:
        assert engine.components is not None
        mine, theirs = engine.components.opened().unet.state_dict(), load(plain, 1)._pipeline.unet.state_dict()
        assert {weights.device.type for weights in mine.values()} == {"cuda"}
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    finally:
        engine.close()
