"""What a model makes of NaN is told from an image."""

import numpy as np
import pytest
import torch
from PIL import Image

from agents.engines.finite import BadImage, check_made


def test_images_with_two_colours_and_finite_latents_pass() -> None:
    image = Image.new("RGB", (8, 8), (7, 7, 7))
    image.putpixel((0, 0), (7, 7, 8))
    check_made([image], torch.zeros(1, 4, 1, 1))
    check_made([image])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_latents_that_are_not_finite_are_refused(value: float) -> None:
    latents = torch.zeros(2, 4, 8, 8)
    latents[1, 2, 3, 4] = value
    with pytest.raises(BadImage, match="not finite"):
        check_made([], latents)


def test_an_image_of_one_colour_is_refused_beside_others() -> None:
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 255, (8, 8, 3), np.uint8))
    with pytest.raises(BadImage, match=r"all pixels of the image are \(0, 0, 0\)"):
        check_made([noise, Image.new("RGB", (8, 8))])
    striped = Image.new("RGB", (8, 8))
    striped.paste((1, 2, 3), (0, 0, 8, 1))
    check_made([striped])
