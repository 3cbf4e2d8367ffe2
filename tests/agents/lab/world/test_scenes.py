"""Sampling scenes: the mix of a stream, and only what the grammar and the layout allow."""

from collections import Counter

import numpy as np
import pytest

from agents.lab.world import scenes
from agents.lab.world.patterns import MAX_OBJECTS, PATTERNS, sides
from agents.lab.world.stream import EASY
from agents.world.words import COLOURS, SHAPES


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
