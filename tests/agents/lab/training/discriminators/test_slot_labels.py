"""What stands in each slot of an image, and whether it was asked for."""

from dataclasses import replace

import numpy as np
import pytest

from agents.lab.training.discriminators.hard_negatives import near_miss, with_colours_decided
from agents.lab.training.discriminators.slot_labels import UNKNOWN, fits, shown_by
from agents.lab.training.generators.text_encoder import BACKGROUND, labels
from agents.lab.world import captions, facts, renderer
from agents.lab.world.reading import Found, Reading, read
from tests.agents.lab.training.judging import some_scenes

SCENES = some_scenes(60, 9)


def test_a_rendering_shows_what_its_scene_states() -> None:
    rng = np.random.default_rng(1)
    for scene in SCENES:
        shown = with_colours_decided(rng, scene)
        seen = read(renderer.render(shown, rng))
        assert (shown_by(seen) == labels(shown)[: BACKGROUND + 1]).all()
        assert (fits(scene, shown_by(seen), is_tidy=seen.is_tidy) != 0).all()


def test_a_near_miss_has_a_slot_that_does_not_fit_and_others_that_do() -> None:
    rng = np.random.default_rng(2)
    for scene in some_scenes(30, 6, 6):
        seen = read(renderer.render(near_miss(rng, scene), rng))
        found = fits(scene, shown_by(seen), is_tidy=seen.is_tidy)
        assert not facts.compare(scene, seen).all_hold
        assert (found == 0).any()
        assert (found == 1).any()


def caption_seen(caption: str, *found: Found, background: str | None = "plain") -> list[int]:
    """The labels that count, of the slots in order, then of the scene."""
    scene = captions.parse(caption)
    assert scene is not None
    out = fits(scene, shown_by(Reading(background, found, is_tidy=True)), is_tidy=True)
    return [int(each) for each in out if each != UNKNOWN]


HEART, STAR = (Found(slot, "", shape, "red", 0.9) for slot, shape in (("T", "heart"), ("B", "star")))
TWO = "a red heart above a red star"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((HEART, STAR), [1, 1, 1]),
        ((HEART, replace(STAR, shape=None)), [1, 0, 1]),  # unclear
        ((HEART, replace(STAR, colour="blue")), [1, 0, 1]),
        ((HEART,), [1, 0, 1]),
        ((replace(HEART, shape="star"), replace(STAR, shape="heart")), [0, 0, 1]),
    ],
)
def test_each_slot_is_judged_by_itself(found: tuple[Found, ...], expected: list[int]) -> None:
    assert caption_seen(TWO, *found) == expected


def test_a_thing_that_nothing_asks_for_does_not_fit() -> None:
    assert caption_seen(TWO, HEART, STAR, replace(STAR, slot="L")).count(0) == 1


def test_the_scene_fits_if_its_background_does_and_what_is_ruled_out_is_absent() -> None:
    assert caption_seen(f"{TWO} at night", HEART, STAR)[-1] == 0
    assert caption_seen(f"{TWO} at night", HEART, STAR, background="night")[-1] == 1
    assert caption_seen(f"{TWO} without any moons", HEART, replace(STAR, shape="moon")) == [1, 0, 0]


def test_a_ruled_out_colour_fits_as_any_other_colour() -> None:
    caption = "a red heart above a star that is not red"
    assert caption_seen(caption, HEART, STAR) == [1, 0, 1]
    assert caption_seen(caption, HEART, replace(STAR, colour="blue")) == [1, 1, 1]
    assert caption_seen(caption, HEART, replace(STAR, colour=None)) == [1, 0, 1]
