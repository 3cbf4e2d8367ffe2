"""What a worker can load beside or instead of the main levels: other base models, style adapters, the ControlNet."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import ControlNetModel, DiffusionPipeline, StableDiffusionControlNetPipeline
from PIL import Image

from agents.lab.training.generators.lora import FILE
from agents.lab.world import captions, facts, renderer, scenes
from agents.lab.world.reading import read
from agents.lab.world.styles import ADAPTERS, BASES, POSTER, Style
from agents.world.layout import SIZE
from tests.paths import MODELS

pytestmark = pytest.mark.torch

BASE = "poster"  # the base that adapters and the ControlNet are for


def needs(name: str) -> Path:
    """The shipped file or folder; without it the test is skipped."""
    if not (MODELS / name).exists():
        pytest.skip(f"infra/models/{name} is not there: `pochade train all` makes it")
    return MODELS / name


def load(name: str) -> Any:
    pipeline = DiffusionPipeline.from_pretrained(needs(name), torch_dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@cache
def fresh(count: int) -> tuple[scenes.Scene, ...]:
    """Scenes of one to three things."""
    rng = np.random.default_rng(20_261_121)
    return tuple(scenes.sample(rng, 1 + at % 3) for at in range(count))


def generate(pipeline: Any, prompts: list[str], **more: Any) -> np.ndarray:
    """uint8 [n, 48, 48, 3], always from the same noise."""
    generators = [torch.Generator("cpu").manual_seed(seed) for seed in range(len(prompts))]
    settings: dict[str, Any] = {"height": SIZE, "width": SIZE, "num_inference_steps": 8, "guidance_scale": 2.0}
    out = pipeline(prompts, generator=generators, output_type="np", **settings, **more)
    return np.asarray((out.images * 255).round(), np.uint8)


def held(pictures: np.ndarray, style: Style) -> float:
    """Mean share of the facts of `fresh` that hold in the images, read in a style."""
    shown = zip(fresh(len(pictures)), pictures, strict=True)
    return float(np.mean([facts.check(scene.caption, picture, style).share for scene, picture in shown]))


def asked(count: int) -> list[str]:
    return [scene.caption for scene in fresh(count)]


@cache
def plain() -> np.ndarray:
    """What the base generates without any adapter."""
    return generate(load(BASE), asked(12))


@pytest.mark.parametrize("name", [name for name in BASES if name != POSTER.name])
def test_a_base_model_generates_in_its_style_and_not_in_poster(name: str) -> None:
    pictures = generate(load(name), asked(24))
    assert held(pictures, BASES[name]) >= 0.85
    assert held(pictures, BASES[name]) > held(pictures, POSTER) + 0.05


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_an_adapter_restyles_at_full_weight(name: str) -> None:
    folder, pipeline = needs(f"loras/{name}"), load(BASE)
    before = plain()
    pipeline.load_lora_weights(folder, weight_name=FILE, adapter_name=name)
    full = generate(pipeline, asked(12))
    assert held(full, ADAPTERS[name]) >= 0.95 * held(before, POSTER) - 0.03  # 12 images: their noise is .02
    assert abs(_restyled(before, ADAPTERS[name])) < 0.1
    assert _restyled(full, ADAPTERS[name]) > 0.25  # stripes and outlines move with their things


def test_an_adapter_leaves_no_trace_at_no_weight_or_when_it_is_unloaded() -> None:
    name = next(iter(ADAPTERS))  # how diffusers mixes them does not depend on which one it is
    folder, pipeline = needs(f"loras/{name}"), load(BASE)
    before = plain()
    pipeline.load_lora_weights(folder, weight_name=FILE, adapter_name=name)
    full = generate(pipeline, asked(4))
    pipeline.set_adapters([name], [0.0])
    assert _same(generate(pipeline, asked(4)), before[:4])
    pipeline.set_adapters([name], [0.5])
    half = generate(pipeline, asked(4))
    assert not _same(half, before[:4])
    assert not _same(half, full)
    pipeline.disable_lora()
    assert _same(generate(pipeline, asked(4)), before[:4])
    pipeline.enable_lora()
    pipeline.unload_lora_weights()
    assert _same(generate(pipeline, asked(4)), before[:4])


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """But for rounding, which differs between batches of different sizes."""
    return bool(np.abs(one.astype(int) - other).max() <= 1)


def _restyled(pictures: np.ndarray, style: Style) -> float:
    """How far images went on the way from poster, 0, to the style, 1: their share of the difference of the two."""
    plain, wanted = (
        np.stack([renderer.render(scene, np.random.default_rng(1), to) for scene in fresh(len(pictures))]).astype(float)
        for to in (POSTER, style)
    )
    way = wanted - plain
    return float(((pictures - plain) * way).sum() / (way**2).sum())


def test_two_adapters_can_be_mixed() -> None:
    folders, pipeline = [needs(f"loras/{name}") for name in ("mint", "comic")], load(BASE)
    for folder in folders:
        pipeline.load_lora_weights(folder, weight_name=FILE, adapter_name=folder.name)
    alone = []
    for name in ("mint", "comic"):
        pipeline.set_adapters([name], [1.0])
        alone.append(generate(pipeline, asked(2)))
    pipeline.set_adapters(["mint", "comic"], [0.5, 0.5])
    mixed = generate(pipeline, asked(2))
    assert all((mixed != one).any() for one in alone)


def test_the_controlnet_puts_things_where_the_outlines_are() -> None:
    net = ControlNetModel.from_pretrained(needs("controlnet"), torch_dtype=torch.float32)
    plain = load(BASE)
    pipeline = StableDiffusionControlNetPipeline(**plain.components, controlnet=net)
    pipeline.set_progress_bar_config(disable=True)
    stated = [f"a red heart {where}" for where in ("on the left", "at the bottom", "in the top right corner")]
    wanted = [scene for caption in stated if (scene := captions.parse(caption))]
    outlines = [Image.fromarray(renderer.silhouettes(scene)) for scene in wanted]
    assert len(outlines) == 3
    led = generate(pipeline, ["a red heart"] * 3, image=outlines)
    assert [_places(picture) for picture in led] == [["L"], ["B"], ["TR"]]
    assert {tuple(_places(picture)) for picture in generate(plain, ["a red heart"] * 3)} == {("C",)}


def _places(picture: np.ndarray) -> list[str]:
    return [thing.slot for thing in read(picture).found]


def test_adapters_and_the_controlnet_are_small_beside_a_base_model() -> None:
    base = (needs(BASE) / "unet" / "diffusion_pytorch_model.safetensors").stat().st_size
    for path in needs("loras").rglob("*.safetensors"):
        assert path.stat().st_size < base / 4, path
    assert sum(path.stat().st_size for path in needs("controlnet").iterdir()) < base
