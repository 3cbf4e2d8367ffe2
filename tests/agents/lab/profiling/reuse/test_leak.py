"""Leaks: things of the neighbour's prompt in an image whose own prompt does not ask for them."""

import numpy as np

from agents.lab.profiling.reuse.diversity import different_neighbours, prompts_to_vary, spread
from agents.lab.profiling.reuse.leak import inherited, leaks
from agents.lab.world import renderer
from agents.lab.world.captions import parse
from agents.lab.world.reading import Reading, read
from agents.lab.world.scene import Scene


def a_scene(caption: str) -> Scene:
    scene = parse(caption)
    assert scene is not None, caption
    return scene


def drawn(caption: str) -> Reading:
    return read(renderer.render(a_scene(caption), np.random.default_rng(5)))


def shares(own: str, neighbour: str, image: str) -> dict[str, float]:
    """Kind -> share of leaks, of one image."""
    stated = inherited(a_scene(own), a_scene(neighbour))
    return {leak.kind: leak.leaked.value for leak in leaks("nearest", [stated], {0.5: [drawn(image)]})}


def test_an_image_of_the_neighbours_prompt_leaks_in_every_kind_that_differs() -> None:
    own, neighbour = "a red heart", "three blue stars on a meadow"
    assert shares(own, neighbour, neighbour) == {"any": 1, "count": 1, "colour": 1, "shape": 1, "background": 1}
    assert shares(own, neighbour, own) == {"any": 0, "count": 0, "colour": 0, "shape": 0, "background": 0}


def test_only_what_the_request_does_not_ask_for_can_leak() -> None:
    assert shares("a red heart", "a red star", "a red star") == {"any": 1.0, "shape": 1.0}
    assert shares("a red heart", "a red heart", "a red heart") == {}


def test_a_wrong_image_without_anything_of_the_neighbour_is_no_leak() -> None:
    assert shares("a red heart", "a blue heart", "a green heart") == {"any": 0.0, "colour": 0.0}


def test_images_that_are_alike_have_no_spread() -> None:
    assert spread(np.ones((8, 3))) == 0.0
    assert spread(np.array([[0.0, 0.0], [3.0, 4.0]])) == 5.0


def test_prompts_are_varied_that_are_new_and_have_earlier_ones_of_other_prompts() -> None:
    prompts = ["a", "b", "c", "a", "d", "e"]
    assert prompts_to_vary(prompts).tolist() == [4, 5]
    vectors = np.array([[1.0, 0], [0.9, 0.1], [0, 1], [1.0, 0], [0.8, 0.2], [1, 0]])
    assert different_neighbours(prompts, vectors, 4, count=3).tolist() == [0, 1, 2]
