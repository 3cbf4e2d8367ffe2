"""What is read of a model before any weight is loaded, on a toy of each family and on names that others have."""

import json
import pathlib
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from diffusers import DiffusionPipeline
from huggingface_hub import HfApi

from agents.commands.init import HEAD, UNTIMED, level_text
from agents.engines import open_engine
from agents.profiling.own_models import MARGIN, UNSTATED, read_model
from schemas.errors import PochadeError
from streams import catalogs
from streams.parsing.catalog import parse
from tests.toys import FAMILIES, Toys

UNGUIDED = ("width", "height")
PLAIN = (*UNGUIDED, "steps", "guidance")
NEGATIVE = (*PLAIN, "negative_prompt")
CALLS = {  # as the calls of diffusers 0.39 have it; distilled ones as their cards have it
    "sdxl": (50, 5.0, 8, (*NEGATIVE, "image")),
    "sd15": (50, 7.5, 8, (*NEGATIVE, "image")),
    "lcm": (4, 8.5, 8, PLAIN),
    "sd3": (28, 7.0, 16, (*NEGATIVE, "image")),
    "flux-schnell": (4, 0.0, 16, UNGUIDED),
    "flux-dev": (28, 3.5, 16, (*PLAIN, "image")),
    "flux2": (50, 4.0, 16, PLAIN),
    "flux2-klein": (4, 1.0, 16, UNGUIDED),
    "qwen-image": (50, 4.0, 16, (*NEGATIVE, "image")),
    "z-image": (50, 5.0, 16, (*NEGATIVE, "image")),
    "sana": (20, 4.5, 32, NEGATIVE),
    "sana-sprint": (2, 4.5, 32, PLAIN),
    "pixart-sigma": (20, 4.5, 16, NEGATIVE),
}


@pytest.mark.parametrize("family", CALLS)
def test_a_family_is_called_by_its_pipeline_s_defaults_and_honours_what_that_takes(toys: Toys, family: str) -> None:
    own = read_model(toys(family), (100, 64))
    assert (own.steps, own.guidance, own.size_multiple, own.honours) == CALLS[family]
    assert (own.width % own.size_multiple, own.height) == (0, 64)
    assert own.width < 100 <= own.width + own.size_multiple


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_all_that_is_written_of_a_family_holds_when_it_is_loaded(toys: Toys, family: str) -> None:
    """Loading refuses an option without effect, a size that becomes another, and an argument that there is not."""
    text = level_text("own", read_model(toys(family), (64, 64)), UNTIMED)
    open_engine("diffusers", parse(text, "own").level("own"), 1).close()


@pytest.mark.parametrize(
    ("name", "level", "family"),
    [
        ("sdxl-example", "light", "sdxl"), ("sdxl-example", "heavy", "sdxl"),
        ("sdxl-turbo", "light", "sdxl"), ("sdxl-turbo", "heavy", "sdxl"),
        ("sd35", "light", "sd3"), ("sd35", "middle", "sd3"), ("sd35", "heavy", "sd3"),
        ("flux", "light", "flux-schnell"), ("flux", "heavy", "flux-dev"),
        ("qwen-image", "light", "qwen-image"), ("qwen-image", "heavy", "qwen-image"),
    ],
)  # fmt: skip
def test_what_a_shipped_catalog_claims_of_a_public_model_holds_of_a_toy_of_its_family(
    toys: Toys, name: str, level: str, family: str
) -> None:
    shipped = catalogs.load(name).level(level)
    loading = replace(shipped.loading, device="", dtype="", files="", weights={}, loras=())  # files that toys lack
    own = replace(
        shipped, model=toys(family), width=64, height=64, adapters=(), controls=(), components=(), loading=loading
    )
    open_engine("diffusers", own, 1).close()
    read = read_model(toys(family), (64, 64))
    assert shipped.size_multiple in (1, read.size_multiple)
    assert set(shipped.honours) <= set(read.honours)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_numbers_in_the_weights_are_counted_without_loading_them(toys: Toys, family: str) -> None:
    pipeline: Any = DiffusionPipeline.from_pretrained(toys(family))
    parts = [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]
    saved = {each.data_ptr(): each.numel() for part in parts for each in part.state_dict().values()}
    counted = sum(saved.values())
    own = read_model(toys(family))
    assert own.precision == "F32"
    assert own.parameters == pytest.approx(counted, rel=0.01)  # tied weights are saved once
    assert own.bytes_at(2) == pytest.approx(2 * MARGIN * own.parameters, abs=1)


def named(toys: Toys, folder: pathlib.Path, name: str, family: str = "sdxl") -> str:
    return str(shutil.copytree(toys(family), folder / name))


@pytest.mark.parametrize(
    ("name", "steps", "guidance"),
    [
        ("sdxl-turbo", 1, 0.0),
        ("sd3.5-large-turbo", 4, 0.0),
        ("sdxl-lightning", 4, 0.0),
        ("sdxl-base-1.0", 50, 5.0),
    ],
)
def test_a_model_that_its_name_says_is_distilled_takes_few_steps_and_no_guidance(
    toys: Toys, tmp_path: pathlib.Path, name: str, steps: int, guidance: float
) -> None:
    own = read_model(named(toys, tmp_path, name))
    assert (own.steps, own.guidance) == (steps, guidance)
    assert own.is_distilled == (own.honours == UNGUIDED) == (steps < 50)


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: apache-2.0\ntags: [a]\n---\n# A model", "apache-2.0"),
        ("---\nlicense: other\nlicense_name: flux-1-dev-non-commercial\n---\n", "flux-1-dev-non-commercial"),
        ("# A model\nlicense: none of this is a header", UNSTATED),
    ],
)
def test_the_licence_is_what_the_model_card_states(toys: Toys, tmp_path: pathlib.Path, card: str, licence: str) -> None:
    folder = named(toys, tmp_path, "own")
    (pathlib.Path(folder) / "README.md").write_text(card)
    assert read_model(folder).licence == licence


def test_files_of_another_precision_are_named_where_there_are_no_plain_ones(toys: Toys, tmp_path: pathlib.Path) -> None:
    folder = pathlib.Path(named(toys, tmp_path, "own"))
    whole = read_model(str(folder)).parameters
    for file in folder.rglob("*.safetensors"):
        shutil.copy(file, file.with_suffix(".fp16.safetensors"))
    assert (read_model(str(folder)).files, read_model(str(folder)).parameters) == ("", whole)
    for file in folder.rglob("*.safetensors"):
        if ".fp16." not in file.name:
            file.unlink()
    assert (read_model(str(folder)).files, read_model(str(folder)).parameters) == ("fp16", whole)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ({}, "no model_index.json"),
        ({"_class_name": "StableDiffusionXLImg2ImgPipeline"}, "needs more than a prompt"),
        ({"_class_name": "NextYearsPipeline"}, "upgrade it"),
    ],
)
def test_what_is_no_text_to_image_model_is_refused_by_name(
    tmp_path: pathlib.Path, index: dict[str, str], said: str
) -> None:
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    with pytest.raises(PochadeError, match=said):
        read_model(str(tmp_path))


def test_a_hub_model_is_pinned_to_its_commit_and_without_a_network_a_sentence_says_what_to_do(
    toys: Toys, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = SimpleNamespace(license="other", license_name="its-own")
    monkeypatch.setattr(HfApi, "model_info", lambda *_, **__: SimpleNamespace(sha="c0ffee", card_data=card))
    monkeypatch.setattr(DiffusionPipeline, "download", lambda *_, **__: toys("sdxl"))
    own = read_model("someone/sdxl-turbo")
    assert (own.source, own.licence, own.steps) == ("someone/sdxl-turbo@c0ffee", "its-own", 1)

    def fails(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(HfApi, "model_info", fails)
    with pytest.raises(PochadeError, match="no route to host; without a network give a folder"):
        read_model("someone/sdxl-turbo")
    with pytest.raises(PochadeError, match="no folder here, and no OWNER/NAME"):
        read_model("./not-there")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("a link to nothing", "is a link to .*gone.safetensors, which is not there: copy the folder with `cp -rL`"),
        ("a download that broke off", "cannot be read: "),
    ],
)
def test_weights_that_cannot_be_read_are_named(toys: Toys, tmp_path: pathlib.Path, how: str, why: str) -> None:
    folder = tmp_path / "own"
    shutil.copytree(toys("sd15"), folder)
    file = next((folder / "unet").glob("*.safetensors"))
    content = file.read_bytes()
    file.unlink()
    if how == "a link to nothing":
        file.symlink_to(tmp_path / "gone.safetensors")
    else:
        file.write_bytes(content[: len(content) // 2])
    with pytest.raises(PochadeError, match=f"{file.name} {why}"):
        read_model(str(folder), None)


def test_what_the_head_of_a_catalog_says_holds_also_when_quality_and_a_cascade_are_written_below_it() -> None:
    head = HEAD.format(device="a card", out="catalog.toml", folder=".", slo="")
    prose = " ".join(line.removeprefix("# ") for line in head.splitlines() if not line.startswith("#   "))
    sentences = re.split(r"(?<=[.;:]) ", prose)
    lacking = [sentence for sentence in sentences if re.search(r"\b(no|not|nor|none)\b", sentence, re.IGNORECASE)]
    assert lacking
    assert all(sentence.startswith("Without [[") for sentence in lacking), lacking
