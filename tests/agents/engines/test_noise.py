"""A seed starts from the same noise in every precision; nothing else of a call changes."""

import dataclasses

import numpy as np
import pytest
import torch

from agents.engines import GenerationTask, diffusers_engine
from agents.engines.diffusers_engine import load
from agents.engines.noise import starting_noise
from agents.engines.pipelines import load_pipeline
from planner.catalog.entries import Loading, Variant
from planner.catalog.options import resolve_options
from schemas.messages import GenerateOptions
from streams import catalogs

pytestmark = pytest.mark.torch

NEAR = 1.0  # of 255, a pixel's mean difference; other noise: 3 and more
SIZE = {"width": 48, "height": 48}


def level(dtype: str) -> Variant:
    loading = Loading(device="cpu", dtype=dtype)
    return dataclasses.replace(catalogs.load("tiny").level("middle"), loading=loading)


def seeded() -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in (3, 4)]


def image(variant: Variant) -> np.ndarray:
    tasks = [GenerationTask(request_id="r", prompt="a red heart", seed=3)]
    made = load(variant, 1).generate(tasks, resolve_options(GenerateOptions(), variant), lambda: False)
    assert made is not None
    return np.asarray(made.images[0], dtype=np.float32)


def test_noise_in_less_precision_is_that_of_single_precision_rounded() -> None:
    pipeline = load_pipeline(level("bfloat16"))
    latents = starting_noise(pipeline, SIZE, seeded())["latents"]
    wanted = torch.cat([torch.randn((1, *latents.shape[1:]), generator=each) for each in seeded()])
    assert latents.dtype == torch.bfloat16
    assert torch.equal(latents, wanted.to(torch.bfloat16))


def test_single_precision_other_pipelines_and_images_to_begin_with_draw_their_own() -> None:
    assert starting_noise(load_pipeline(level("float32")), SIZE, seeded()) == {}
    pipeline = load_pipeline(level("bfloat16"))
    assert starting_noise(pipeline, {"image": [], "strength": 0.5}, seeded()) == {}
    pipeline.__class__ = type("FluxPipeline", (type(pipeline),), {})
    assert starting_noise(pipeline, SIZE, seeded()) == {}


def test_a_seed_gives_nearly_the_same_image_in_another_precision() -> None:
    assert np.abs(image(level("bfloat16")) - image(level("float32"))).mean() < NEAR


def test_the_engine_generates_from_that_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image(level("bfloat16"))

    def other(pipeline: object, begin: dict[str, object], generators: list[torch.Generator]) -> dict[str, object]:
        return {name: -value for name, value in starting_noise(pipeline, begin, generators).items()}

    monkeypatch.setattr(diffusers_engine, "starting_noise", other)
    assert np.abs(image(level("bfloat16")) - before).mean() > NEAR
