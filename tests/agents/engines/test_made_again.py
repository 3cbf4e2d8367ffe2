"""The same seed gives the same pixels alone and in a batch, and a model says which weights made them."""

import dataclasses
import pathlib
from functools import cache

import numpy as np
import pytest

from agents.components.opening import Keeping
from agents.components.weight_files import digest_of
from agents.engines import GenerationTask
from agents.engines.diffusers_engine import DiffusersEngine, load
from planner.catalog.entries import Loading, Variant
from planner.catalog.options import resolve_options
from schemas.messages import GenerateOptions
from streams import catalogs

pytestmark = pytest.mark.torch

PROMPTS = ("a red heart above a blue star", "a green tree", "two yellow moons", "a black cat at night", "a blue boat",
           "three golden stars", "a house", "a white horse on the beach")  # fmt: skip


def light(**loading: bool) -> Variant:
    return dataclasses.replace(catalogs.load("tiny").level("light"), loading=Loading(device="cpu", **loading))  # type: ignore[arg-type]


@cache
def engine(*, one_by_one: bool) -> DiffusersEngine:
    return load(light(one_by_one=one_by_one), 1)


def generated(*numbers: int, one_by_one: bool) -> np.ndarray:
    tasks = [GenerationTask(request_id=f"r-{n}", prompt=PROMPTS[n], seed=7919 * n) for n in numbers]
    how = resolve_options(GenerateOptions(), light())
    made = engine(one_by_one=one_by_one).generate(tasks, how, lambda: False, wants_latents=True)
    assert made is not None
    assert all(latent is not None for latent in made.latents)
    return np.stack([np.asarray(image).astype(int) for image in made.images])


def test_a_variant_that_generates_one_by_one_gives_the_same_pixels_alone_and_in_a_batch_of_four() -> None:
    for first in (0, 4):
        numbers = range(first, first + 4)
        alone = np.concatenate([generated(number, one_by_one=True) for number in numbers])
        assert np.array_equal(generated(*numbers, one_by_one=True), alone)


def test_any_other_differs_by_one_in_255_in_one_of_a_thousand_values_at_most() -> None:
    alone = np.concatenate([generated(number, one_by_one=False) for number in range(8)])
    apart = np.abs(generated(*range(8), one_by_one=False) - alone)
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.001


def test_a_model_says_which_weights_engine_and_device_made_an_image(tmp_path: pathlib.Path) -> None:
    said = load(light(), 1, Keeping(home=tmp_path)).made_with(resolve_options(GenerateOptions(), light()))
    folder = catalogs.INFRA / light().model
    assert said.weights == {"model": digest_of(folder, tmp_path / "others.json")}
    assert (said.device, said.dtype, said.model) == ("cpu", "float32", "")
    assert said.scheduler.endswith("Scheduler")
    assert (tmp_path / "digests.json").exists(), "no file is read again at the next load"
