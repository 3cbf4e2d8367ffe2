"""Accelerated levels: what takes fewer computations, that images stay those of their seeds, and who refuses it."""

import dataclasses
import importlib.util
import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

from agents.engines import EngineFailed, GenerationTask
from agents.engines.diffusers_engine import DiffusersEngine, load
from planner.catalog.entries import Loading, Variant
from planner.catalog.options import resolve_options
from planner.catalog.validate import InvalidCatalog
from schemas.messages import GenerateOptions
from tests.builders import a_variant
from tests.toys import Toys

pytestmark = pytest.mark.torch
CACHE = {"Fn_compute_blocks": 1, "Bn_compute_blocks": 0, "residual_diff_threshold": 0.8, "max_warmup_steps": 2}


@pytest.fixture
def level(toys: Toys) -> Any:
    def make(family: str, guidance: float = 3.0, steps: int = 8, **loading: Any) -> Variant:
        call = {"use_resolution_binning": False} if family in ("sana", "pixart-sigma") else {}
        return a_variant(
            engine="diffusers", model=toys(family), steps=steps, guidance=guidance, width=64, height=64, call=call,
            loading=Loading(device="cpu", **loading),
        )  # fmt: skip

    return make


def generated(engine: DiffusersEngine, variant: Variant, *seeds: int, refine_from_step: int = 0) -> list[Any]:
    how = resolve_options(GenerateOptions(), variant, refine_from_step)
    tasks = [GenerationTask(request_id=str(seed), prompt=f"{seed} red balls", seed=seed) for seed in seeds]
    made = engine.generate(tasks, how, lambda: False)
    assert made is not None
    return [np.asarray(image, float) for image in made.images]


def rows_of(network: Any) -> list[int]:
    """Return a list that grows by the rows of each of a network's calls."""
    rows: list[int] = []

    def note(_network: Any, args: Any, more: dict[str, Any]) -> None:
        rows.append(len(args[0] if args else more["hidden_states"]))

    network.register_forward_pre_hook(note, with_kwargs=True)
    return rows


@pytest.mark.parametrize("family", ["sd15", "sdxl", "sd3", "cogview4"])
def test_guidance_ends_after_the_first_steps_and_the_rows_of_the_negative_prompt_with_it(
    family: str, level: Any
) -> None:
    variant, plain = level(family, steps=4, guidance_steps=2), level(family, steps=4)
    engine, whole = load(variant, 1), load(plain, 1)
    network = getattr(engine._pipeline, "unet", None) or engine._pipeline.transformer
    rows = rows_of(network)
    image = generated(engine, variant, 5)[0]
    steps = 5 if family == "sd15" else 4  # PNDM takes one twice
    assert sum(rows) == steps + 2, "two guided steps take two rows each, all others one"
    assert np.abs(image - generated(whole, plain, 5)[0]).max() > 0
    assert np.abs(image - generated(engine, variant, 5)[0]).max() == 0, "the next call is guided again"


@pytest.mark.parametrize("family", ["flux-dev", "pixart-sigma", "sana", "cogview4"])
def test_a_cached_transformer_skips_blocks_and_equal_seeds_give_equal_images(family: str, level: Any) -> None:
    pytest.importorskip("cache_dit")
    variant, plain = level(family, cache=CACHE), level(family)
    engine = load(variant, 1)
    image = generated(engine, variant, 5)[0]
    assert np.abs(image - generated(load(plain, 1), plain, 5)[0]).max() > 0, "it is not the exact one"
    both = generated(engine, variant, 6, 5)
    assert np.abs(image - both[1]).max() == 0, "in a batch, and after another call"


@pytest.mark.parametrize("kind", ["int8", "float8"])
def test_weights_are_quantized_when_they_are_loaded(kind: str, level: Any) -> None:
    pytest.importorskip("torchao")
    variant, plain = level("flux-dev", steps=2, quantization=kind), level("flux-dev", steps=2)
    engine = load(variant, 1)
    weight = engine._pipeline.transformer.transformer_blocks[0].attn.to_q.weight
    assert type(weight).__module__.startswith("torchao")
    difference = np.abs(generated(engine, variant, 5)[0] - generated(load(plain, 1), plain, 5)[0])
    assert 0 < difference.mean() < 10


def test_a_folder_of_quantized_weights_is_served_as_it_was_saved(
    level: Any, toys: Toys, tmp_path: pathlib.Path
) -> None:
    pytest.importorskip("torchao")
    from diffusers import FluxTransformer2DModel, TorchAoConfig
    from torchao.quantization import Int8WeightOnlyConfig

    folder = shutil.copytree(toys("flux-dev"), tmp_path / "model")
    config = TorchAoConfig(Int8WeightOnlyConfig())
    network = FluxTransformer2DModel.from_pretrained(folder, subfolder="transformer", quantization_config=config)
    network.save_pretrained(folder / "transformer")
    variant = dataclasses.replace(level("flux-dev", steps=2), model=str(folder))
    engine = load(variant, 1)
    assert type(engine._pipeline.transformer.transformer_blocks[0].attn.to_q.weight).__module__.startswith("torchao")
    exact = level("flux-dev", steps=2)
    difference = np.abs(generated(engine, variant, 5)[0] - generated(load(exact, 1), exact, 5)[0])
    assert 0 < difference.mean() < 10


def test_weights_that_need_a_package_which_is_not_here_are_refused_by_its_name(
    level: Any, toys: Toys, tmp_path: pathlib.Path
) -> None:
    if importlib.util.find_spec("bitsandbytes"):
        pytest.skip("bitsandbytes is installed: it loads them on a card")
    folder = shutil.copytree(toys("flux-dev"), tmp_path / "model")
    config = folder / "transformer" / "config.json"
    quantized = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    config.write_text(json.dumps(json.loads(config.read_text()) | {"quantization_config": quantized}))
    with pytest.raises(EngineFailed, match=r"cannot load.*bitsandbytes"):
        load(dataclasses.replace(level("flux-dev"), model=str(folder)), 1)


@pytest.mark.parametrize(
    ("family", "loading", "reported"),
    [
        ("flux-dev", {"guidance_steps": 2}, "FluxPipeline is guided in all steps or none: omit loading.guidance_steps"),
        ("sd3", {"cache": CACHE}, "loading.cache does not suit SD3Transformer2DModel"),
        ("sdxl", {"cache": CACHE}, "loading.cache does not suit UNet2DConditionModel"),
        (
            "flux-dev",
            {"cache": {"residual_diff": 0.1}},
            "loading.cache does not suit FluxTransformer2DModel.*residual_diff",
        ),
    ],
)
def test_what_a_family_does_not_take_is_refused_at_load(
    family: str, loading: dict[str, Any], reported: str, level: Any
) -> None:
    if "cache" in loading:
        pytest.importorskip("cache_dit")
    with pytest.raises(EngineFailed, match=reported):
        load(level(family, **loading), 1)


def test_a_package_that_is_missing_is_named_with_how_to_install_it(level: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cache_dit", None)
    with pytest.raises(EngineFailed, match=r"cache_dit is not installed: pip install 'pochade\[acceleration\]'"):
        load(level("flux-dev", cache=CACHE), 1)


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"quantization": "nf5"}, "quantization must be one of int8, float8: got 'nf5'"),
        ({"compile": True, "guidance_steps": 2}, "compile must be false beside other acceleration"),
    ],
)
def test_a_catalog_cannot_ask_for_what_nobody_has_or_for_two_that_do_not_go_together(
    changes: dict[str, Any], reported: str
) -> None:
    with pytest.raises(InvalidCatalog, match=reported):
        Loading(**changes)


@pytest.mark.parametrize("loading", [{"cache": CACHE}, {"quantization": "int8"}, {"offload": "sequential"}])
def test_adapters_need_weights_that_can_be_read(loading: dict[str, Any]) -> None:
    beside = "adapters must be none beside cache, quantization or sequential offload"
    with pytest.raises(InvalidCatalog, match=beside):
        a_variant(adapters=("ink",), loading=Loading(**loading))
