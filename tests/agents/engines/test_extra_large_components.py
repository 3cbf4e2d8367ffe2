"""Adapters and a ControlNet on Stable Diffusion XL, as `sdxl-example` lists them, of a model with random weights."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import ControlNetModel
from PIL import Image
from safetensors.torch import save_file

from agents.engines import GenerationTask
from agents.engines.diffusers_engine import DiffusersEngine, load
from agents.engines.pipelines import load_pipeline
from planner.catalog.components import Component
from planner.catalog.entries import Loading, Variant
from planner.catalog.options import resolve_options
from schemas.messages import GenerateOptions
from streams import catalogs
from tests.agents.engines.extra_large import extra_large_pipeline

pytestmark = pytest.mark.torch

LAYER = "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_q"
URI = "memory:00/input.0123456789abcdef-0123456789abcdef.png"


def level(name: str, **changes: Any) -> Variant:
    return dataclasses.replace(catalogs.load("tiny").level(name), loading=Loading(device="cpu"), **changes)


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Variant:
    """A variant like `heavy` of the example, with its model, a control and two adapters in a folder."""
    folder = tmp_path_factory.mktemp("sdxl")
    pipeline = extra_large_pipeline(load_pipeline(level("light")).tokenizer)
    pipeline.save_pretrained(folder / "model")
    control = ControlNetModel.from_unet(pipeline.unet, conditioning_embedding_out_channels=(8, 16))
    with torch.no_grad():
        own = control.controlnet_cond_embedding.conv_out
        for each in (*control.controlnet_down_blocks, control.controlnet_mid_block, own):
            each.weight.normal_(0, 0.3)  # zero in a control that was not trained
    control.save_pretrained(folder / "canny")
    width, text = pipeline.unet.get_submodule(LAYER).weight.shape
    ranks = {"lora_A.weight": torch.randn(4, text), "lora_B.weight": torch.randn(width, 4)}
    save_file({f"unet.{LAYER}.{name}": value for name, value in ranks.items()}, folder / "style.safetensors")
    return level(
        "heavy", model=str(folder / "model"), scheduler="", steps=2, width=32, height=32,
        adapters=("style",), controls=("canny",),
        components=(
            Component(kind="adapter", name="style", source=str(folder / "style.safetensors")),
            Component(kind="control", name="canny", source=str(folder / "canny")),
        ),
    )  # fmt: skip


@pytest.fixture(scope="module")
def engine(heavy: Variant) -> DiffusersEngine:
    return load(heavy, 1)


def image(engine: DiffusersEngine, variant: Variant, outline: int = 90, **options: Any) -> np.ndarray:
    controls = (Image.new("RGB", (32, 32), (outline,) * 3),) if "controls" in options else ()
    how = resolve_options(GenerateOptions(**options), variant)
    made = engine.generate(
        [GenerationTask(request_id="r", prompt="a red heart", seed=7, controls=controls)], how, lambda: False
    )
    assert made is not None
    return np.asarray(made.images[0])


def test_an_adapter_and_a_control_change_the_image_and_leave_no_trace(engine: DiffusersEngine, heavy: Variant) -> None:
    canny: dict[str, Any] = {"controls": ("canny",), "control_images": (URI,)}
    plain = image(engine, heavy)
    styled = image(engine, heavy, adapters=("style",))
    outlined = image(engine, heavy, **canny)
    both = image(engine, heavy, adapters=("style",), **canny)
    pairs = [(plain, styled), (plain, outlined), (outlined, both), (styled, both)]
    assert all((one != other).any() for one, other in pairs)
    assert (image(engine, heavy, outline=200, **canny) != outlined).any(), "the image of a control is looked at"
    assert (image(engine, heavy) == plain).all()


@pytest.mark.parametrize("is_ahead", [False, True])
def test_without_a_negative_prompt_an_image_is_the_librarys_own(heavy: Variant, *, is_ahead: bool) -> None:
    plain = dataclasses.replace(heavy, adapters=(), controls=(), components=())
    engine, how = load(plain, 1), resolve_options(GenerateOptions(), plain)
    tasks = [GenerationTask(request_id="r", prompt="a red heart", seed=7)]
    encoded = engine.encode(tasks, how) if is_ahead else None
    made = engine.generate(tasks, how, lambda: False, encoded=encoded)
    bare = load_pipeline(plain)
    assert bare.config.force_zeros_for_empty_prompt, "zeros are not what an empty prompt is encoded as"
    wanted = bare(
        "a red heart", num_inference_steps=how.steps, guidance_scale=how.guidance, width=how.width, height=how.height,
        generator=[torch.Generator().manual_seed(7)],
    ).images[0]  # fmt: skip
    assert made is not None
    assert (np.asarray(made.images[0]) == np.asarray(wanted)).all()
