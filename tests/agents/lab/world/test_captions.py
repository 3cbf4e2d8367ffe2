"""The grammar: what is sampled is read back, and nothing else is."""

from dataclasses import replace

import numpy as np
import pytest

from agents.lab.world import captions, scenes
from tests.agents.lab.world.drawings import scene_of


def test_a_caption_is_read_back_as_the_scene_it_was_written_for() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        scene = scenes.sample(rng)
        assert captions.parse(scene.caption) == scene


def test_a_ruled_out_colour_is_read_as_such_for_one_thing_and_for_several() -> None:
    one, two = scene_of("a heart that is not red").objects, scene_of("two hearts that are not red").objects
    assert [(t.shape, t.colour, t.is_unlike) for t in (*one, *two)] == [("heart", "red", True)] * 3


@pytest.mark.parametrize("phrase", ["without any moons", "and no moons", "but no moons", "without any crescents"])
def test_what_must_not_be_seen_is_read_in_every_phrasing(phrase: str) -> None:
    scene = scene_of(f"a red heart and a blue star {phrase} at night")
    assert (scene.absent, scene.background, len(scene.objects)) == ("moon", "night", 2)


def test_sizes_are_read_with_their_synonyms() -> None:
    assert [scene_of(f"a {word} red heart").objects[0].size for word in ("tiny", "small", "huge", "giant")] == [
        "small",
        "small",
        "huge",
        "huge",
    ]


def test_order_of_corners_carries_no_meaning() -> None:
    parts = ["a red heart top left", "a blue star top right", "a green tree bottom left", "a pink cat bottom right"]
    one, other = scene_of(", ".join(parts)), scene_of(", ".join(reversed(parts)))
    assert set(one.objects) == set(other.objects)


def test_capitals_spaces_and_a_full_stop_do_not_matter() -> None:
    plain = scene_of("a red heart at night")
    assert replace(scene_of("  A RED  Heart at night. "), caption=plain.caption) == plain


def test_a_prefix_and_a_style_word_do_not_matter() -> None:
    plain = scene_of("a red heart at night")
    assert scene_of("a painting of a red heart at night, digital art").objects == plain.objects


@pytest.mark.parametrize(
    "caption",
    ["", "a red", "two red heart", "a red hearts", "a red heart above", "dog", "1", "seven red hearts", "a heart",
     "a red heart that is not red", "a huge red heart on the left", "two huge red hearts", "six small red hearts",
     "a red heart without any heart", "a heart that are not red", "two hearts that is not red"],
)  # fmt: skip
def test_what_is_not_quite_the_grammar_is_not_guessed_at(caption: str) -> None:
    assert captions.parse(caption) is None
