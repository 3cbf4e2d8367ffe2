"""Adapters, bases and images on every kind of model that takes them, and what is refused: when a variant is loaded, or
as the fault of a request.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from agents.engines import CannotGenerate, EngineFailed, GenerationTask
from agents.engines.diffusers_engine import DiffusersEngine, load
from agents.engines.low_rank import Applied, FusedWeights, combination, networks_of, read_adapter
from agents.engines.pipelines import load_pipeline
from planner.catalog.components import Component
from planner.catalog.entries import Loading, OwnAdapter, Variant
from planner.catalog.options import resolve_options
from schemas.messages import GenerateOptions
from tests.builders import a_variant
from tests.toys import Toys
from tests.toys.adapters import LAYERS, adapted, in_kohya_format, matrices, noted, prefixed, write_adapter

pytestmark = pytest.mark.torch

WEIGHT, ALPHA = 0.7, 2.0
URI = "memory:00/input.0123456789abcdef-0123456789abcdef.png"
SERVED = ("sdxl", "sd3", "flux-dev", "qwen-image")


def opened(folder: str) -> Any:
    pipeline = load_pipeline(level(folder))  # with its weights in the same order in memory as the engine's
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def fused_by_diffusers(folder: str, family: str, file: str) -> Any:
    """Return the pipeline with an adapter in all its parts; diffusers fuses FLUX's text encoder only if it is named."""
    pipeline = opened(folder)
    pipeline.load_lora_weights(file)
    pipeline.fuse_lora(components=list(LAYERS[family]), lora_scale=WEIGHT)
    pipeline.unload_lora_weights()
    return pipeline


@pytest.mark.parametrize("family", LAYERS)
def test_fused_weights_are_those_of_diffusers_and_the_base_comes_back_to_the_bit(
    family: str, toys: Toys, tmp_path: pathlib.Path
) -> None:
    own = opened(toys(family))
    tensors, note = matrices(own, family), noted(own, family, ALPHA)
    theirs = fused_by_diffusers(toys(family), family, write_adapter(tensors, tmp_path / "plain.safetensors", **note))
    # as nearly all files name the layers of CLIP, which diffusers does not find in transformers since 5.6
    file = write_adapter(prefixed(tensors), tmp_path / "usual.safetensors", **note)
    before = {name: layer.weight.clone() for name, layer in adapted(own, family).items()}
    weights, mine = FusedWeights(networks_of(own)), [Applied("mine", WEIGHT, read_adapter(file, own))]
    weights.fuse(mine)
    weights.apply(combination(mine))
    for name, layer in adapted(theirs, family).items():
        assert (adapted(own, family)[name].weight - layer.weight).abs().max() <= 1e-6, name
        assert (before[name] - layer.weight).abs().max() > 0.05, name
    weights.apply(())
    assert all(torch.equal(layer.weight, before[name]) for name, layer in adapted(own, family).items())


@pytest.mark.parametrize("family", ["sdxl", "sd15", "flux-dev", "qwen-image"])
def test_a_file_in_kohyas_format_is_the_same_adapter_with_its_alpha(
    family: str, toys: Toys, tmp_path: pathlib.Path
) -> None:
    own = opened(toys(family))
    tensors = matrices(own, family)
    plain = write_adapter(prefixed(tensors), tmp_path / "plain.safetensors", **noted(own, family, ALPHA))
    file = write_adapter(in_kohya_format(tensors, ALPHA, family), tmp_path / "kohya.safetensors")
    mine, theirs = (read_adapter(each, own) for each in (file, plain))
    assert mine.keys() == theirs.keys() == {name.replace("text_model.", "") for name in adapted(own, family)}
    for name, layer in theirs.items():
        like = layer.up @ layer.down if layer.down.dim() == 2 else torch.empty(len(layer.up), *layer.down.shape[1:])
        assert torch.allclose(mine[name].delta(like), layer.delta(like), atol=1e-6), name


@pytest.mark.parametrize("family", ["sdxl", "flux-dev"])
def test_an_adapter_whose_scale_diffusers_would_leave_out_is_refused(
    family: str, toys: Toys, tmp_path: pathlib.Path
) -> None:
    own = opened(toys(family))
    tensors = in_kohya_format(matrices(own, family), ALPHA, family)
    scaled = next(iter(tensors)).partition(".")[0] + ".dora_scale"
    file = write_adapter(tensors | {scaled: torch.ones(1)}, tmp_path / "dora.safetensors")
    for source in (file, load_file(file)):
        with pytest.raises(CannotGenerate, match=rf"no plain LoRA: {scaled}"):
            read_adapter(source, own)


@pytest.mark.parametrize("family", ["sdxl", "flux-dev"])
def test_an_adapter_of_a_variant_is_fused_into_its_text_encoders_too(
    family: str, toys: Toys, tmp_path: pathlib.Path
) -> None:
    tensors = matrices(opened(toys(family)), family)
    theirs = fused_by_diffusers(toys(family), family, write_adapter(tensors, tmp_path / "plain.safetensors"))
    file = write_adapter(prefixed(tensors), tmp_path / "usual.safetensors")
    mine = load_pipeline(level(toys(family), loading=Loading(device="cpu", loras=(OwnAdapter(file, WEIGHT),))))
    for name, layer in adapted(theirs, family).items():
        assert (adapted(mine, family)[name].weight - layer.weight).abs().max() <= 1e-6, name


# On the engine.


def level(folder: str, **changes: Any) -> Variant:
    usual: dict[str, Any] = {
        "engine": "diffusers", "model": folder, "scheduler": "", "steps": 2, "guidance": 3.0, "width": 64,
        "height": 64, "loading": Loading(device="cpu"), "honours": ("steps",),
    }  # fmt: skip
    return a_variant(name="toy", **(usual | changes))


def with_components(family: str, toys: Toys, file: str, **changes: Any) -> Variant:
    """Return a level with two bases and an adapter."""
    parts = (
        Component(kind="base", name="first", source=toys(family)),
        Component(kind="base", name="second", source=toys(family, seed=1)),
        Component(kind="adapter", name="usual", source=file),
    )
    offered = {"bases": ("first", "second"), "adapters": ("usual",), "components": parts}
    return level(toys(family), **(offered | {"honours": ("steps", "image")} | changes))


@pytest.fixture
def opened_engines() -> Iterator[list[DiffusersEngine]]:
    engines: list[DiffusersEngine] = []
    yield engines
    for engine in engines:
        engine.close()


def generated(
    engine: DiffusersEngine, variant: Variant, over: Image.Image | None = None, **options: Any
) -> np.ndarray[Any, Any]:
    task = GenerationTask(request_id="r", prompt="a red ball", seed=3, image=over)
    made = engine.generate([task], resolve_options(GenerateOptions(**options), variant), lambda: False)
    assert made is not None
    return np.asarray(made.images[0])


def by_diffusers(pipeline: Any) -> np.ndarray[Any, Any]:
    """Return the image of a call of the pipeline itself."""
    is_qwen = type(pipeline).__name__ == "QwenImagePipeline"
    guided = {"true_cfg_scale": 3.0, "negative_prompt": " "} if is_qwen else {"guidance_scale": 3.0}
    size = {"width": 64, "height": 64, "generator": torch.Generator().manual_seed(3)}
    with torch.inference_mode():
        made = pipeline(prompt="a red ball", num_inference_steps=2, **size, **guided)
    return np.asarray(made.images[0])


def difference(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> int:
    """Return the largest difference of a pixel, of 255: 1 where sums are made in another order."""
    return int(np.abs(one.astype(int) - other).max())


@pytest.mark.parametrize("family", SERVED)
def test_bases_adapters_and_images_by_request(
    family: str, toys: Toys, tmp_path: pathlib.Path, opened_engines: list[DiffusersEngine]
) -> None:
    tensors = matrices(opened(toys(family)), family)
    plain = write_adapter(tensors, tmp_path / "plain.safetensors")
    variant = with_components(family, toys, write_adapter(prefixed(tensors), tmp_path / "usual.safetensors"))
    opened_engines.append(engine := load(variant, 1))
    first, second = (generated(engine, variant, model=base) for base in ("first", "second"))
    weighted = {"adapters": ("usual",), "adapter_weights": (WEIGHT,)}
    assert difference(first, by_diffusers(opened(toys(family)))) <= 1
    assert not np.array_equal(first, second)
    for number, base in enumerate(("first", "second")):
        wanted = by_diffusers(fused_by_diffusers(toys(family, seed=number), family, plain))
        assert difference(generated(engine, variant, model=base, **weighted), wanted) <= 1, base
    assert np.array_equal(generated(engine, variant, model="first"), first)
    over = [
        generated(engine, variant, Image.fromarray(begun), model="first", image=URI, strength=0.5, steps=4)
        for begun in (first, second)
    ]
    assert over[0].shape == (64, 64, 3)
    assert not np.array_equal(*over)


def test_an_adapter_of_text_encoders_alone_changes_images_and_prompts_are_not_encoded_ahead_without_it(
    toys: Toys, tmp_path: pathlib.Path, opened_engines: list[DiffusersEngine]
) -> None:
    tensors = matrices(opened(toys("sdxl")), "sdxl")
    encoders = {name: each for name, each in prefixed(tensors).items() if name.startswith("text_encoder")}
    variant = with_components("sdxl", toys, write_adapter(encoders, tmp_path / "encoders.safetensors"))
    opened_engines.append(engine := load(variant, 1))
    how = resolve_options(GenerateOptions(adapters=("usual",)), variant)
    assert not np.array_equal(
        generated(engine, variant, model="first"), generated(engine, variant, adapters=("usual",))
    )
    assert engine.encode([GenerationTask(request_id="r", prompt="a red ball", seed=3)], how) is None


@pytest.mark.parametrize("family", SERVED)
def test_a_level_without_components_begins_with_an_image_in_a_part_of_its_steps(family: str, toys: Toys) -> None:
    variant = level(toys(family), steps=4, honours=("image",))
    engine = load(variant, 1)
    red, blue = (
        generated(engine, variant, Image.new("RGB", (64, 64), colour), image=URI, strength=0.5)
        for colour in ("red", "blue")
    )
    assert not np.array_equal(red, blue)


# Refused.


@pytest.mark.parametrize(
    ("family", "changes", "said"),
    [
        ("flux-dev", {"controls": ("outline",)}, "'toy': has controls, but FluxPipeline has no UNet to follow"),
        (
            "sd3",
            {"honours": ("mask",)},
            "'toy': honours mask, but StableDiffusion3Pipeline does not generate a part",
        ),
        (
            "pixart-sigma",
            {"adapters": ("usual",)},
            "'toy': has adapters, but diffusers applies none to PixArtSigma",
        ),
    ],
)
def test_what_a_model_cannot_do_is_refused_when_it_is_loaded(
    family: str, changes: dict[str, Any], said: str, toys: Toys, tmp_path: pathlib.Path
) -> None:
    file = write_adapter({"x.lora_A.weight": torch.zeros(1, 1)}, tmp_path / "any.safetensors")
    kinds = {"adapters": "adapter", "controls": "control"}
    parts = [Component(kind=kinds[of], name=name, source=file) for of in kinds for name in changes.get(of, ())]
    base = Component(kind="base", name="first", source=toys(family))
    with pytest.raises(EngineFailed, match=said):
        load(level(toys(family), bases=("first",), components=(base, *parts), **changes), 1)


def of_another_base(tensors: dict[str, torch.Tensor], path: pathlib.Path) -> None:
    write_adapter({name: torch.cat([each, each], 1 if "lora_A" in name else 0) for name, each in tensors.items()}, path)


def cut_off(tensors: dict[str, torch.Tensor], path: pathlib.Path) -> None:
    write_adapter(tensors, path)
    path.write_bytes(path.read_bytes()[:-10])


def in_unknown_names(tensors: dict[str, torch.Tensor], path: pathlib.Path) -> None:
    write_adapter({f"lora_unet_joint_blocks_{name}": each for name, each in tensors.items()}, path)


def of_one_matrix(tensors: dict[str, torch.Tensor], path: pathlib.Path) -> None:
    write_adapter({name: each for name, each in tensors.items() if "lora_A" in name}, path)


def test_a_mask_is_refused_without_components_too(toys: Toys) -> None:
    with pytest.raises(EngineFailed, match="'toy': honours mask, but FluxPipeline does not generate a part"):
        load(level(toys("flux-dev"), honours=("mask",)), 1)


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (of_another_base, "adapter 'usual' does not fit the base: layer .* is missing or of another size"),
        (cut_off, "cannot be read: .* end early"),
        (in_unknown_names, "has keys that StableDiffusion3Pipeline does not read"),
        (of_one_matrix, "is damaged: layer .* has only one of its two matrices"),
    ],
)
def test_an_adapter_that_can_never_be_applied_is_the_requests_fault(
    write: Any, said: str, toys: Toys, tmp_path: pathlib.Path, opened_engines: list[DiffusersEngine]
) -> None:
    write(matrices(opened(toys("sd3")), "sd3"), tmp_path / "usual.safetensors")
    variant = with_components("sd3", toys, str(tmp_path / "usual.safetensors"))
    opened_engines.append(engine := load(variant, 1))
    before = generated(engine, variant, model="first")
    with pytest.raises(CannotGenerate, match=said) as raised:
        generated(engine, variant, adapters=("usual",))
    assert raised.value.param == "adapters"
    assert np.array_equal(generated(engine, variant, model="first"), before)


def test_an_adapter_is_not_added_to_quantised_weights(toys: Toys, tmp_path: pathlib.Path) -> None:
    own = opened(toys("flux-dev"))
    read = read_adapter(write_adapter(prefixed(matrices(own, "flux-dev")), tmp_path / "usual.safetensors"), own)
    for layer in adapted(own, "flux-dev").values():
        layer.weight = torch.nn.Parameter(layer.weight.to(torch.int8), requires_grad=False)
    with pytest.raises(CannotGenerate, match="cannot be added to quantised weights"):
        FusedWeights(networks_of(own)).fuse([Applied("usual", 1.0, read)])
