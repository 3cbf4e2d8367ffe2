"""A toy is a model of its family: loaded as its true class, with images that follow the prompt and the weights."""

import filecmp
import inspect
import pathlib
from typing import Any

import numpy as np
import pytest
import torch

from tests.toys import FAMILIES, Toys, opened, write_toy

pytestmark = pytest.mark.torch

NEEDED = {"negative_prompt": "", "use_resolution_binning": False}  # without them some fail, or have another size


def bytes_in(folder: str) -> int:
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


def generated(pipeline: Any, prompt: str) -> np.ndarray[Any, Any]:
    """Return an image of two steps, as floats from 0 to 1."""
    takes = inspect.signature(type(pipeline).__call__).parameters
    needed = {name: value for name, value in NEEDED.items() if name in takes}
    size = {"width": 64, "height": 64, "generator": torch.Generator().manual_seed(3), "output_type": "np"}
    return np.asarray(pipeline(prompt=prompt, num_inference_steps=2, **size, **needed).images[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_toy_is_small_and_its_images_follow_prompt_and_weights(family: str, toys: Toys) -> None:
    pipeline = opened(toys(family))
    image, other = generated(pipeline, "a red ball"), generated(pipeline, "a green tree")
    assert bytes_in(toys(family)) < 1.6e6
    assert image.shape == (64, 64, 3)
    assert np.isfinite(image).all()
    assert image.std() > 0.1
    assert not np.array_equal(image, other)
    assert not np.array_equal(image, generated(opened(toys(family, seed=1)), "a red ball"))


def test_all_toys_together_fill_less_than_10_mb(toys: Toys) -> None:
    assert sum(bytes_in(toys(family)) for family in FAMILIES) < 10e6


def test_the_same_seed_writes_the_same_files(tmp_path: pathlib.Path, toys: Toys) -> None:
    again = write_toy("flux-dev", tmp_path / "again")
    names = [str(path.relative_to(again)) for path in again.rglob("*") if path.is_file()]
    assert filecmp.cmpfiles(toys("flux-dev"), again, names, shallow=False) == (names, [], [])
