"""Loading models of one's own: device, precision, other weights, other files, as the catalog says."""

import dataclasses
import pathlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.engines import EngineFailed, GenerationTask, diffusers_engine
from agents.engines.diffusers_engine import load
from agents.engines.pipelines import load_pipeline, own_precision, placement, weights_file
from planner.catalog.entries import Loading, Variant
from planner.catalog.options import resolve_options
from schemas.messages import GenerateOptions
from streams import catalogs
from tests.builders import a_variant

pytestmark = pytest.mark.torch

UNET = "models/{}/unet/diffusion_pytorch_model.safetensors"


def light(model: str = "models/light", **loading: Any) -> Variant:
    """The shipped light variant, loaded in another way; on the CPU wherever the tests run."""
    variant = catalogs.load("tiny").level("light")
    return dataclasses.replace(variant, model=model, loading=Loading(device="cpu", **loading))


@pytest.mark.parametrize(
    ("loading", "has_cuda", "wanted"),
    [
        (Loading(), True, ("cuda", torch.bfloat16)),
        (Loading(), False, ("cpu", torch.float32)),
        (Loading(device="cpu"), True, ("cpu", torch.float32)),
        (Loading(device="cuda:1"), True, ("cuda:1", torch.bfloat16)),
        (Loading(device="cuda", dtype="bfloat16"), True, ("cuda", torch.bfloat16)),
        (Loading(dtype="float32"), True, ("cuda", torch.float32)),
        (Loading(device="mps"), False, ("mps", torch.float32)),
    ],
)
def test_what_the_catalog_leaves_open_is_half_precision_on_cuda_and_single_elsewhere(
    loading: Loading, has_cuda: bool, wanted: tuple[str, torch.dtype]
) -> None:
    assert placement(loading, has_cuda=has_cuda) == wanted


@pytest.mark.parametrize(
    ("own", "has_bfloat16", "wanted"),
    [
        (torch.float16, True, torch.float16),
        (torch.bfloat16, True, torch.bfloat16),
        (torch.float32, True, torch.bfloat16),
        (torch.bfloat16, False, torch.float32),
        (torch.float32, False, torch.float16),
    ],
)
def test_a_card_runs_a_models_own_precision_and_none_that_overflows(
    own: torch.dtype, has_bfloat16: bool, wanted: torch.dtype
) -> None:
    found = placement(Loading(), has_cuda=True, has_bfloat16=has_bfloat16, own=own)
    assert found == ("cuda", wanted)


def test_a_models_own_precision_is_read_from_the_head_of_its_denoisers_file(tmp_path: pathlib.Path) -> None:
    load_pipeline(light(dtype="bfloat16")).save_pretrained(tmp_path)
    load_pipeline(light()).unet.to(torch.float16).save_pretrained(tmp_path / "unet", variant="fp16")
    assert own_precision(str(tmp_path)) is torch.bfloat16
    assert own_precision(str(tmp_path), "fp16") is torch.float16
    assert own_precision("stabilityai/sdxl") is None


def test_a_cuda_device_that_is_not_there_is_said_before_anything_is_loaded() -> None:
    with pytest.raises(EngineFailed, match=r"device 'cuda:1' is not there.*omit `device`"):
        placement(Loading(device="cuda:1"), has_cuda=False)


def test_a_model_is_loaded_in_the_precision_that_the_catalog_says() -> None:
    pipeline = load_pipeline(light(dtype="bfloat16"))
    assert {part.dtype for part in (pipeline.unet, pipeline.vae, pipeline.text_encoder)} == {torch.bfloat16}


def test_other_weights_replace_those_of_the_unet_and_nothing_else(tmp_path: pathlib.Path) -> None:
    own = load_file(weights_file(UNET.format("light")))
    save_file({name: weights / 2 for name, weights in own.items()}, tmp_path / "half.safetensors")
    plain, other = load_pipeline(light()), load_pipeline(light(weights={"unet": str(tmp_path / "half.safetensors")}))
    name = "conv_in.weight"
    assert torch.equal(other.unet.state_dict()[name], own[name] / 2)
    assert torch.equal(plain.unet.state_dict()[name], own[name])
    encoders = [pipeline.text_encoder.state_dict() for pipeline in (plain, other)]
    assert all(torch.equal(weights, encoders[1][key]) for key, weights in encoders[0].items())


def test_the_unets_own_weights_given_as_other_ones_generate_the_same_image() -> None:
    task = GenerationTask(request_id="r", prompt="a red heart", seed=1)
    how = resolve_options(GenerateOptions(), light())
    own = {"unet": UNET.format("light")}
    pictures = [load(light(weights=each), 1).generate([task], how, lambda: False) for each in ({}, own)]
    assert pictures[0] is not None
    assert pictures[1] is not None
    assert pictures[0].images[0].tobytes() == pictures[1].images[0].tobytes()


def test_weights_of_another_architecture_fail_the_engine_with_the_variants_name() -> None:
    with pytest.raises(EngineFailed, match=r"variant 'light': cannot load"):
        load(light(weights={"unet": UNET.format("heavy")}), 1)


def test_a_distilled_models_timesteps_are_set_on_the_models_own_scheduler_or_a_named_one() -> None:
    own = load_pipeline(light(scheduler_options={"timestep_spacing": "trailing"})).scheduler
    assert (type(own).__name__, own.config.timestep_spacing) == ("DDIMScheduler", "trailing")
    named = dataclasses.replace(
        light(scheduler_options={"timestep_spacing": "trailing"}), scheduler="EulerDiscreteScheduler"
    )
    scheduler = load_pipeline(named).scheduler
    assert (type(scheduler).__name__, scheduler.config.timestep_spacing) == ("EulerDiscreteScheduler", "trailing")


def test_a_model_may_have_only_the_files_that_the_catalog_names(tmp_path: pathlib.Path) -> None:
    load_pipeline(light()).save_pretrained(tmp_path, variant="fp16")
    assert load_pipeline(light(str(tmp_path), files="fp16")).unet.dtype == torch.float32
    with pytest.raises(OSError, match=str(tmp_path)):
        load_pipeline(light(str(tmp_path)))


def test_weights_that_are_no_file_come_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, str | None]] = []

    def download(repository: str, file: str, revision: str | None) -> str:
        asked.append((repository, file, revision))
        return "/fetched"

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert weights_file("ByteDance/SDXL-Lightning/sdxl_lightning_2step_unet.safetensors") == "/fetched"
    assert weights_file("ByteDance/SDXL-Lightning@c9a24f4/unet.safetensors") == "/fetched"
    assert asked == [
        ("ByteDance/SDXL-Lightning", "sdxl_lightning_2step_unet.safetensors", None),
        ("ByteDance/SDXL-Lightning", "unet.safetensors", "c9a24f4"),
    ]


def test_a_model_of_the_hub_may_be_pinned_to_a_revision_and_comes_as_safetensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, object, object]] = []

    def load_nothing(source: str, **how: object) -> None:
        asked.append((source, how["revision"], how["use_safetensors"]))
        raise OSError("nothing is fetched in a test")

    monkeypatch.setattr("diffusers.DiffusionPipeline.from_pretrained", load_nothing)
    for model in ("stabilityai/sdxl@462165984030d82259a11f4367a4eed129e94a7b", "stabilityai/sdxl"):
        with pytest.raises(OSError, match="in a test"):
            load_pipeline(light(model))
    revision = "462165984030d82259a11f4367a4eed129e94a7b"
    assert asked == [("stabilityai/sdxl", revision, True), ("stabilityai/sdxl", None, True)]


@pytest.mark.parametrize("named", ["/nowhere/unet.safetensors", "../unet/x.safetensors", "unet.safetensors", "a/b"])
def test_weights_that_are_neither_say_where_was_looked(named: str) -> None:
    with pytest.raises(EngineFailed, match="looked in"):
        weights_file(named)


def test_an_image_that_nobody_wants_any_more_stops_within_one_step() -> None:
    heavy = dataclasses.replace(catalogs.load("tiny").level("heavy"), loading=Loading(device="cpu"))
    engine, asked = load(heavy, 1), []

    def after_the_second_step() -> bool:
        asked.append(True)
        return len(asked) >= 2

    task = GenerationTask(request_id="r", prompt="a red heart", seed=1)
    how = resolve_options(GenerateOptions(), heavy)
    assert engine.generate([task], how, after_the_second_step) is None
    assert len(asked) == 2 < heavy.steps
    assert engine.generate([task], how, lambda: False) is not None, "the next job is generated"


def test_a_loaded_pipeline_knows_its_device_without_looking_through_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, how = load(light(), 1), resolve_options(GenerateOptions(), light())

    def looked(_: torch.nn.Module) -> torch.device:
        raise AssertionError("it went through the modules of the model")

    monkeypatch.setattr("diffusers.hooks.group_offloading._get_group_onload_device", looked)
    assert engine.generate([GenerationTask(request_id="r", prompt="a red heart", seed=1)], how, lambda: False)


def test_on_a_cpu_convolutions_are_laid_out_by_pixel_and_generate_the_same() -> None:
    pipeline, how = load_pipeline(light()), resolve_options(GenerateOptions(), light())
    assert pipeline.unet.down_blocks[0].resnets[0].conv1.weight.is_contiguous(memory_format=torch.channels_last)
    assert pipeline.vae.decoder.layers[0].weight.is_contiguous(memory_format=torch.channels_last)
    asked = {"prompt": "a red heart", "num_inference_steps": how.steps, "guidance_scale": how.guidance}
    size = {"height": how.height, "width": how.width, "output_type": "np"}
    by_pixel = pipeline(**asked, **size, generator=torch.Generator().manual_seed(1)).images
    pipeline.unet.to(memory_format=torch.contiguous_format)
    pipeline.vae.to(memory_format=torch.contiguous_format)
    by_channel = pipeline(**asked, **size, generator=torch.Generator().manual_seed(1)).images
    assert abs(by_pixel - by_channel).max() < 1e-3


def test_two_engines_of_a_process_load_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    loading, most = list[str](), list[int]()

    def load_one(variant: Variant) -> None:
        loading.append(variant.name)
        most.append(len(loading))
        time.sleep(0)  # let the other thread run
        loading.remove(variant.name)
        raise EngineFailed("nothing to load")

    monkeypatch.setattr(diffusers_engine, "load_pipeline", load_one)

    def load_often(name: str) -> None:
        for _ in range(50):
            with pytest.raises(EngineFailed):
                load(a_variant(name=name), 1)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(load_often, ("light", "heavy")))
    assert max(most) == 1
