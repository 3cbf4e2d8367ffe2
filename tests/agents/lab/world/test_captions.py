"""The grammar: what is sampled is read back, and nothing else is."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from agents.lab.world import captions, scenes
from agents.lab.world.stream import EASY
from agents.world.layout import MAX_OBJECTS, PATTERNS, sides
from agents.world.words import COLOURS, SHAPES
from tests.agents.lab.world.drawings import scene_of


def test_a_caption_is_read_back_as_the_scene_it_was_written_for() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        scene = scenes.sample(rng)
        assert captions.parse(scene.caption) == scene


def test_the_number_of_things_can_be_chosen_and_is_checked() -> None:
    rng = np.random.default_rng(4)
    assert all(len(scenes.sample(rng, n).objects) == n for n in PATTERNS for _ in range(20))
    with pytest.raises(ValueError, match=f"objects.*{MAX_OBJECTS + 1}"):
        scenes.sample(rng, MAX_OBJECTS + 1)


def test_the_natural_mix_has_every_number_of_things_and_fewer_of_many() -> None:
    rng = np.random.default_rng(5)
    drawn = Counter(len(scenes.sample(rng).objects) for _ in range(3000))
    for n, share in enumerate(EASY.things, start=1):
        assert drawn[n] / 3000 == pytest.approx(share, abs=0.03)
    assert drawn[1] > drawn[MAX_OBJECTS]


def test_every_shape_and_colour_occurs_and_the_first_are_the_commonest() -> None:
    rng = np.random.default_rng(6)
    things = [thing for _ in range(3000) for thing in scenes.sample(rng).objects]
    shapes, colours = Counter(t.shape for t in things), Counter(t.colour for t in things)
    assert set(shapes) == set(SHAPES)
    assert set(colours) == set(COLOURS)
    assert shapes.most_common(1)[0][0] == next(iter(SHAPES))
    assert shapes[next(iter(SHAPES))] > 4 * shapes[list(SHAPES)[-1]]


def test_the_same_seed_gives_the_same_captions() -> None:
    def draw() -> list[str]:
        rng = np.random.default_rng(3)
        return [scenes.sample(rng).caption for _ in range(50)]

    assert draw() == draw()


def test_some_scenes_say_what_a_thing_is_not_what_is_missing_and_how_big_things_are() -> None:
    rng = np.random.default_rng(7)
    drawn = [scenes.sample(rng) for _ in range(500)]
    assert any(thing.is_unlike for scene in drawn for thing in scene.objects)
    assert {thing.size for scene in drawn for thing in scene.objects} == {"", "small", "huge"}
    absent = [scene for scene in drawn if scene.absent]
    assert 0.1 < len(absent) / len(drawn) < 0.2
    assert all(scene.absent not in {thing.shape for thing in scene.objects} for scene in absent)


def test_a_size_is_only_said_where_things_come_in_that_size() -> None:
    rng = np.random.default_rng(8)
    for _ in range(500):
        assert all(thing.size in sides(thing.slot) for thing in scenes.sample(rng).objects)


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
