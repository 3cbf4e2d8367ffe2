"""Each family of diffusers generates as the bare pipeline does, and a catalog's claims on it are tried at load."""

import dataclasses
import pathlib
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from agents.engines import EngineFailed, GenerationTask, Previews
from agents.engines.claims import check_signature
from agents.engines.diffusers_engine import load
from agents.engines.pipelines import _prepared, load_pipeline
from planner.catalog.entries import Loading, OwnAdapter, Variant
from planner.catalog.options import ResolvedOptions, resolve_options
from schemas.messages import GenerateOptions
from streams.operator.doctor import examine
from streams.operator.verdicts import Verdict
from streams.settings import Settings
from tests.builders import a_variant
from tests.toys import FAMILIES, Toys, opened

pytestmark = pytest.mark.torch

UNBINNED = {"use_resolution_binning": False}
SIZED = ("width", "height")


class Does(NamedTuple):
    """What a family does with what a request may state."""

    guidance: str = "guidance_scale"  # the argument of its call
    avoids: bool = True  # a negative prompt acts
    multiple: int = 16  # px
    begins: bool = False  # with an image
    previews: bool = True
    call: dict[str, Any] = {}  # noqa: RUF012 (a tuple's default)


DOES = {
    "sdxl": Does(multiple=8, begins=True),
    "sd15": Does(multiple=8, begins=True),
    "lcm": Does(multiple=8, begins=True, avoids=False),
    "sd3": Does(begins=True),
    "flux-schnell": Does(guidance="", avoids=False, begins=True, previews=False),
    "flux-dev": Does(avoids=False, begins=True, previews=False),
    "flux2": Does(avoids=False, previews=False),
    "flux2-klein": Does(avoids=False, previews=False),
    "qwen-image": Does(guidance="true_cfg_scale", begins=True, previews=False),
    "z-image": Does(begins=True),
    "sana": Does(multiple=32, call=UNBINNED),
    "sana-sprint": Does(multiple=32, avoids=False, call=UNBINNED),
    "pixart-sigma": Does(call=UNBINNED),
    "hunyuan-image": Does(guidance="guider", multiple=8),
    "aura-flow": Does(),
    "lumina2": Does(),
    "cogview4": Does(),
}


@pytest.fixture
def level(toys: Toys) -> Any:
    def make(family: str, **changes: Any) -> Variant:
        does = DOES[family]
        own = {
            "engine": "diffusers", "model": toys(family), "steps": 2, "guidance": 3.0 if does.guidance else 0.0,
            "width": 64, "height": 64, "call": does.call, "loading": Loading(device="cpu"),
        }  # fmt: skip
        return a_variant(name=family, **own | changes)

    return make


def tasks(*seeds: int) -> list[GenerationTask]:
    return [GenerationTask(request_id=str(seed), prompt=f"{seed} red balls", seed=seed) for seed in seeds]


def how_of(variant: Variant, **asked: Any) -> ResolvedOptions:
    return resolve_options(GenerateOptions(**asked), variant)


def generated(engine: Any, how: ResolvedOptions, *seeds: int) -> list[np.ndarray[Any, Any]]:
    made = engine.generate(tasks(*seeds), how, lambda: False)
    return [np.asarray(image, float) for image in made.images]


def test_every_toy_is_tried() -> None:
    assert DOES.keys() == FAMILIES.keys()


@pytest.mark.parametrize("family", DOES)
def test_a_familys_image_is_that_of_the_bare_pipeline(family: str, level: Any, toys: Toys) -> None:
    does, pipeline = DOES[family], _prepared(opened(toys(family)))  # in the same layout in memory
    guided = {does.guidance: 3.0} if does.guidance not in ("", "guider") else {}
    if does.guidance == "guider":
        pipeline.guider.guidance_scale = 3.0
    if does.guidance == "true_cfg_scale":
        guided["negative_prompt"] = " "
    if family == "flux-schnell":
        guided["guidance_scale"] = 0.0
    own = pipeline(
        prompt="5 red balls", num_inference_steps=2, width=64, height=64, generator=torch.Generator().manual_seed(5),
        **guided, **does.call,
    ).images[0]  # fmt: skip
    variant = level(family)
    (image,) = generated(load(variant, 1), how_of(variant), 5)
    assert np.abs(image - np.asarray(own, float)).max() == 0


@pytest.mark.parametrize("family", DOES)
def test_a_family_generates_in_batches_and_stops_at_the_next_step(family: str, level: Any) -> None:
    variant = level(family, steps=4)
    engine, how = load(variant, 1), how_of(variant)
    both, alone = generated(engine, how, 5, 6), generated(engine, how, 6)
    assert np.abs(both[1] - alone[0]).max() <= 2, "a seed is an image, alone or in a batch"
    asked: list[bool] = []

    def after_the_second_step() -> bool:
        asked.append(True)
        return len(asked) >= 2

    assert engine.generate(tasks(5), how, after_the_second_step) is None
    assert len(asked) == 2
    shown: list[int] = []
    previews = Previews({0: 1}, lambda _task, step, _steps, _image: shown.append(step))
    assert engine.generate(tasks(5), how, lambda: False, previews=previews) is not None
    assert bool(shown) == DOES[family].previews


@pytest.mark.parametrize("family", DOES)
def test_what_a_family_does_is_honoured_and_what_it_drops_is_refused_at_load(family: str, level: Any) -> None:
    does = DOES[family]
    claims = {
        "guidance": bool(does.guidance), "negative_prompt": does.avoids, "image": does.begins,
    }  # fmt: skip
    held = [option for option, holds in claims.items() if holds]
    load(level(family, honours=(*held, *SIZED), size_multiple=does.multiple), 1)
    for option in claims.keys() - held:
        with pytest.raises(EngineFailed, match=f"variant '{family}': honours {option}"):
            load(level(family, honours=(option,)), 1)
    if does.multiple > 8:
        with pytest.raises(EngineFailed, match=r"px.*state the multiple that it generates, such as size_multiple = "):
            load(level(family, honours=SIZED, size_multiple=does.multiple // 2), 1)


@pytest.mark.parametrize("family", [family for family, does in DOES.items() if does.begins])
def test_a_draft_is_refined_in_the_steps_that_are_left(family: str, level: Any) -> None:
    variant, asked = level(family, steps=4, scheduler=""), list[bool]()
    over = [dataclasses.replace(tasks(5)[0], over=Image.new("RGB", (64, 64), "red"))]
    how = how_of(variant)._replace(refine_from_step=2)
    made = load(variant, 1).generate(over, how, lambda: bool(asked.append(True)))
    assert made is not None
    assert made.images[0].size == (64, 64)
    assert len(asked) == (3 if family == "sd15" else 2), "PNDM takes one step twice"


def test_a_guidance_that_a_distilled_model_does_not_have_is_refused(level: Any) -> None:
    with pytest.raises(EngineFailed, match=r"guidance = 3 without effect in FluxPipeline: state guidance = 0"):
        load(level("flux-schnell", guidance=3.0), 1)


def test_a_negative_prompt_acts_on_flux_where_the_call_is_guided_by_one(level: Any) -> None:
    with pytest.raises(EngineFailed, match=r"or state true_cfg_scale > 1 in \[variants.flux-dev.call\]"):
        load(level("flux-dev", honours=("negative_prompt",)), 1)
    load(level("flux-dev", honours=("negative_prompt",), call={"true_cfg_scale": 2.0}), 1)


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        ({"true_cfg_scal": 2.0}, r"unknown argument of FluxPipeline 'true_cfg_scal'.*did you mean 'true_cfg_scale'"),
        ({"guidance_scale": 2.0}, "call.guidance_scale is set by guidance: remove it"),
        ({"width": 64}, "call.width is set by requests and the engine: remove it"),
        ({"max_sequence_length": 4096}, r"FluxPipeline cannot generate 64x64 px in one step.*max_sequence_length"),
    ],
)
def test_arguments_of_a_call_that_the_pipeline_does_not_take_are_refused_at_load(
    call: dict[str, Any], reported: str, level: Any
) -> None:
    with pytest.raises(EngineFailed, match=reported):
        load(level("flux-dev", call=call), 1)


def test_arguments_of_a_call_reach_the_pipeline(level: Any) -> None:
    def image(call: dict[str, Any]) -> Any:
        variant = level("flux-dev", call=call)
        return generated(load(variant, 1), how_of(variant), 5)[0]

    assert np.abs(image({}) - image({"true_cfg_scale": 4.0, "negative_prompt_2": "text"})).max() == 0, "it needs both"
    plain, guided = level("flux-dev"), level("flux-dev", honours=("negative_prompt",), call={"true_cfg_scale": 4.0})
    avoided = generated(load(guided, 1), how_of(guided, negative_prompt="text"), 5)[0]
    assert np.abs(generated(load(plain, 1), how_of(plain), 5)[0] - avoided).max() > 0


def test_a_model_that_needs_more_than_a_prompt_is_refused_with_what_it_needs(
    level: Any, toys: Toys, tmp_path: pathlib.Path
) -> None:
    import diffusers

    over = diffusers.StableDiffusionXLImg2ImgPipeline(**opened(toys("sdxl")).components)
    over.save_pretrained(tmp_path)
    with pytest.raises(EngineFailed, match="StableDiffusionXLImg2ImgPipeline generates over an image alone"):
        load(level("sdxl", model=str(tmp_path)), 1)


def test_a_controlnet_pipeline_is_refused_as_a_level_with_where_its_net_goes(level: Any, toys: Toys) -> None:
    import diffusers

    parts = opened(toys("sdxl")).components
    net = diffusers.ControlNetModel.from_unet(parts["unet"], conditioning_embedding_out_channels=(16, 32))
    controlled = diffusers.StableDiffusionXLControlNetPipeline(**parts, controlnet=net)
    with pytest.raises(EngineFailed, match=r"follows a control in each call: name the model itself, and the net in"):
        check_signature(level("sdxl"), controlled)


# What a catalog says of loading.


def test_schedulers_are_named_with_their_options_or_refused_with_the_known_ones(level: Any) -> None:
    shifted = level("sd3", loading=Loading(device="cpu", scheduler_options={"shift": 7.0}))
    assert load_pipeline(shifted).scheduler.config.shift == 7.0
    for changes, reported in (
        ({"loading": Loading(device="cpu", scheduler_options={"shfit": 7.0})}, "did you mean 'shift'"),
        ({"scheduler": "EulerDiscretScheduler"}, "unknown scheduler 'EulerDiscretScheduler'.*did you mean"),
        ({"scheduler": "FlowMatchEulerDiscreteScheduler"}, "cannot generate 64x64 px in one step"),
    ):
        with pytest.raises(EngineFailed, match=reported):
            load(level("sdxl" if "scheduler" in changes else "sd3", **changes), 1)


def test_other_weights_of_a_transformer_and_an_autoencoder_take_the_place_of_its_own(level: Any, toys: Toys) -> None:
    file = "diffusion_pytorch_model.safetensors"
    weights = {part: f"{toys('flux-dev', seed=1)}/{part}/{file}" for part in ("transformer", "vae")}
    pipeline = load_pipeline(level("flux-dev", loading=Loading(device="cpu", weights=weights)))
    for part, path in weights.items():
        name, tensor = next(iter(load_file(path).items()))
        assert torch.equal(getattr(pipeline, part).state_dict()[name], tensor)
    with pytest.raises(EngineFailed, match=r"unknown part of loading.weights 'unet': known are"):
        load(level("flux-dev", loading=Loading(device="cpu", weights={"unet": weights["vae"]})), 1)


def test_an_adapter_that_is_part_of_a_variant_is_fused_as_diffusers_fuses_it(
    level: Any, toys: Toys, tmp_path: pathlib.Path
) -> None:
    name, generator = "transformer.transformer_blocks.0.attn.to_q", torch.Generator().manual_seed(1)
    layer = opened(toys("flux-dev")).transformer.transformer_blocks[0].attn.to_q.weight
    down, up = torch.randn(2, layer.shape[1], generator=generator), torch.randn(layer.shape[0], 2, generator=generator)
    save_file({f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up}, tmp_path / "own.safetensors")
    own = OwnAdapter(str(tmp_path / "own.safetensors"), 0.5)
    pipeline = load_pipeline(level("flux-dev", loading=Loading(device="cpu", loras=(own,))))
    weight = pipeline.transformer.transformer_blocks[0].attn.to_q.weight
    assert torch.allclose(weight, layer + 0.5 * up @ down, atol=1e-5)
    assert not hasattr(pipeline.transformer, "peft_config")
    with pytest.raises(EngineFailed, match=r"PixArtSigmaPipeline takes no adapters: omit loading.loras"):
        load(level("pixart-sigma", loading=Loading(device="cpu", loras=(own,))), 1)


def test_images_are_decoded_in_tiles_and_attention_runs_by_the_named_backend(level: Any) -> None:
    pipeline = load_pipeline(level("flux-dev", loading=Loading(device="cpu", tiling=True, attention="native")))
    assert pipeline.vae.use_tiling
    backends = {
        each.processor._attention_backend for each in pipeline.transformer.modules() if hasattr(each, "processor")
    }
    assert [str(each.value) for each in backends] == ["native"]
    for family, attention, reported in (
        ("flux-dev", "flesh", "must be one of the following"),
        ("sdxl", "native", "UNet2DConditionModel has one way to attend: omit loading.attention"),
    ):
        with pytest.raises(EngineFailed, match=reported):
            load(level(family, loading=Loading(device="cpu", attention=attention)), 1)


def test_offloading_needs_a_device_to_offload_from(level: Any) -> None:
    with pytest.raises(EngineFailed, match=r"loading.offload = 'model' needs an accelerator"):
        load(level("sdxl", loading=Loading(device="cpu", offload="model")), 1)


def test_a_model_of_one_file_is_read_by_the_configuration_of_its_kind(
    level: Any, toys: Toys, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(1, dtype=torch.bfloat16)}, file)
    with pytest.raises(EngineFailed, match=r"is one file: name a folder or hub id of its kind in loading.config"):
        load(level("sdxl", model=str(file)), 1)
    read: list[Any] = []

    def from_single_file(path: str, **how: Any) -> Any:
        read.append((path, how["config"], how["torch_dtype"]))
        return opened(toys("sdxl"))

    monkeypatch.setattr("diffusers.StableDiffusionXLPipeline.from_single_file", from_single_file)
    load(level("sdxl", model=str(file), loading=Loading(device="cpu", config=toys("sdxl"))), 1)
    assert read == [(str(file), toys("sdxl"), torch.float32)]
    with pytest.raises(EngineFailed, match=r"Lumina2Pipeline is not read from one file: convert"):
        load(level("sdxl", model=str(file), loading=Loading(device="cpu", config=toys("lumina2"))), 1)


# Without serving.

CATALOG = """
[variants.{name}]
engine = "diffusers"
model = "{model}"
scheduler = ""
steps = 4
guidance = 0
width = 64
height = 64
latency_ms = {{ 1 = 100 }}
load_ms = 1000
honours = {honours}
"""


def test_doctor_loads_each_model_and_says_what_its_catalog_claims_wrongly(toys: Toys, tmp_path: pathlib.Path) -> None:
    levels = [("light", "flux-schnell", '["steps"]'), ("heavy", "flux-dev", '["steps", "negative_prompt"]')]
    tables = [CATALOG.format(name=name, model=toys(family), honours=honours) for name, family, honours in levels]
    (tmp_path / "mine.toml").write_text("".join(tables))
    checks = examine(Settings(catalog=str(tmp_path / "mine.toml"), home=tmp_path), loads_models=True)
    found = {each.name: each for each in islice((each for each in checks if each.row == "models load"), 2)}
    checks.close()
    assert found["model of light"].verdict is Verdict.OK
    assert found["model of heavy"].verdict is Verdict.FAIL
    assert "honours negative_prompt without effect in FluxPipeline" in found["model of heavy"].found
