"""A worker's components: bases side by side, adapters, a ControlNet, images to begin with, masks; damage, and room."""

import dataclasses
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from agents.engines import EngineFailed, GenerationTask
from agents.engines.diffusers_engine import DiffusersEngine, load
from agents.lab.world import captions, facts, renderer
from agents.lab.world.reading import read
from agents.lab.world.styles import ADAPTERS, BASES, POSTER, Style
from planner.catalog.entries import Loading, Variant
from planner.catalog.options import resolve_options
from planner.components.component import Tier
from schemas.messages import GenerateOptions
from streams import catalogs

pytestmark = pytest.mark.torch

URI = "memory:00/input.0123456789abcdef-0123456789abcdef.png"
HEART = "a red heart"


def styles(**changes: Any) -> Variant:
    return dataclasses.replace(catalogs.load("tiny").level("styles"), loading=Loading(device="cpu"), **changes)


@cache
def engine() -> DiffusersEngine:
    return load(styles(), 1)


def drawn(caption: str, style: Style = POSTER) -> np.ndarray:
    scene = captions.parse(caption)
    assert scene is not None
    return renderer.render(scene, np.random.default_rng(1), style)


def generated(prompt: str = HEART, inputs: dict[str, Any] | None = None, **options: Any) -> np.ndarray:
    if inputs and "controls" in inputs:
        options |= {"controls": ("outline",), "control_images": (URI,)}
    if inputs and "image" in inputs:
        options["image"] = URI
    if inputs and "mask" in inputs:
        options["mask"] = URI
    how = resolve_options(GenerateOptions(**options), styles())
    task = GenerationTask(request_id="r", prompt=prompt, seed=7, **(inputs or {}))
    made = engine().generate([task], how, lambda: False)
    assert made is not None
    assert made.times is not None
    assert made.times.denoise_ms > 0 < made.times.decode_ms
    return np.asarray(made.images[0])


def way_to(picture: np.ndarray, caption: str, style: Style) -> float:
    """How far an image went from poster, 0, to the style, 1: its share of the difference of the two."""
    plain, wanted = drawn(caption).astype(float), drawn(caption, style).astype(float)
    way = wanted - plain
    return float(((picture - plain) * way).sum() / (way**2).sum())


def outline(caption: str) -> Image.Image:
    scene = captions.parse(caption)
    assert scene is not None
    return Image.fromarray(renderer.silhouettes(scene))


def places(picture: np.ndarray) -> list[str]:
    return [thing.slot for thing in read(picture).found]


@pytest.mark.parametrize("base", list(BASES))
def test_each_base_generates_in_its_own_style(base: str) -> None:
    assert facts.check(HEART, generated(model=base), BASES[base]).all_hold


@pytest.mark.parametrize("name", ["mint", "dusk", "sepia", "pastel"])
def test_an_adapter_restyles_by_its_weight_and_the_next_request_is_plain_again(name: str) -> None:
    before = generated(model="poster")
    full, half = (generated(adapters=(name,), adapter_weights=(weight,)) for weight in (1.0, 0.5))
    assert abs(way_to(before, HEART, ADAPTERS[name])) < 0.2
    assert way_to(full, HEART, ADAPTERS[name]) > 0.6
    assert way_to(before, HEART, ADAPTERS[name]) < way_to(half, HEART, ADAPTERS[name])
    assert (generated(model="poster") == before).all()


def test_a_control_says_where_with_an_adapter_and_with_an_image_too() -> None:
    left, star = (outline("a red heart on the left"),), Image.fromarray(drawn("a blue star"))
    assert places(generated(model="poster")) == ["C"]
    assert places(generated(inputs={"controls": left})) == ["L"]
    both = generated(inputs={"controls": left}, adapters=("mint",))
    assert [thing.slot for thing in read(both, ADAPTERS["mint"]).found] == ["L"]
    assert places(generated(inputs={"controls": left, "image": star}, strength=1.0)) == ["L"]


def test_strength_decides_how_much_of_an_image_stays() -> None:
    star = Image.fromarray(drawn("a blue star"))
    weak, strong = (generated(inputs={"image": star}, strength=strength) for strength in (0.25, 1.0))
    assert [thing.shape for thing in read(weak).found] == ["star"]
    assert [thing.shape for thing in read(strong).found] == ["heart"]


def test_outside_the_mask_no_pixel_changes() -> None:
    star, mask = Image.fromarray(drawn("a blue star on the left")), Image.new("L", (48, 48))
    mask.paste(255, (24, 0, 48, 48))
    made = generated("a blue star left of a red heart", {"image": star, "mask": mask}, strength=1.0)
    assert (made[:, :24] == np.asarray(star)[:, :24]).all()
    assert (made[:, 24:] != np.asarray(star)[:, 24:]).any()


def test_components_are_loaded_once_and_the_call_says_how_long_that_took() -> None:
    worker = load(styles(), 1)
    assert worker.components is not None
    assert worker.components.store.resident_ids(Tier.DEVICE) == {"base:poster"}
    how = resolve_options(GenerateOptions(model="chalk", steps=1), styles())
    task = GenerationTask(request_id="r", prompt=HEART, seed=7)
    first, second = (worker.generate([task], how, lambda: False) for _ in range(2))
    assert first is not None and first.times is not None  # noqa: PT018
    assert second is not None and second.times is not None  # noqa: PT018
    assert first.times.load_ms > 10 * second.times.load_ms
    assert worker.components.store.resident_ids(Tier.DEVICE) == {"base:poster", "base:chalk"}


def test_a_call_says_which_weights_it_was_made_with() -> None:
    generated(model="poster", adapters=("candy",), adapter_weights=(0.8,))
    how = resolve_options(GenerateOptions(model="poster", adapters=("candy",), adapter_weights=(0.8,)), styles())
    said, offer = engine().made_with(how), styles().offer
    listed = {"base:poster": offer.of_kind("base")["poster"], "adapter:candy@0.8": offer.of_kind("adapter")["candy"]}
    assert said.weights == {id_: component.sha256 for id_, component in listed.items()}
    assert (said.device, said.dtype, said.engine[:10]) == ("cpu", "float32", "diffusers ")


def damaged(tmp_path: Path, kind: str, name: str) -> Variant:
    """The variant with one byte of one of its components' files altered."""
    variant = styles()
    component = variant.offer.of_kind(kind)[name]
    copy = tmp_path / name
    shutil.copytree(catalogs.INFRA / component.source, copy)
    file = sorted(copy.rglob("*.safetensors"))[0]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    broken = dataclasses.replace(component, source=str(copy))
    return styles(components=tuple(broken if each is component else each for each in variant.components))


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        ("base", "chalk", {"model": "chalk"}),
        ("adapter", "mint", {"adapters": ("mint",)}),
        ("control", "outline", {"controls": ("outline",), "control_images": (URI,)}),
    ],
)
def test_altered_weights_generate_nothing(tmp_path: Path, kind: str, name: str, options: dict[str, Any]) -> None:
    variant = damaged(tmp_path, kind, name)
    worker = load(variant, 1)
    task = GenerationTask(request_id="r", prompt=HEART, seed=7, controls=(outline("a red heart on the left"),))
    with pytest.raises(EngineFailed, match=f"{kind}:{name} at .* is damaged or another: its sha256 is"):
        worker.generate([task], resolve_options(GenerateOptions(**options), variant), lambda: False)
    assert worker.generate([task], resolve_options(GenerateOptions(model="poster"), variant), lambda: False)
