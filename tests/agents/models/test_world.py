"""The world, its renderer and its fact checker."""

import math
from dataclasses import replace

import numpy as np
import pytest

from agents.models import facts, renderer, world
from agents.models.words import BACKGROUNDS


def scene_of(caption: str) -> world.Scene:
    scene = world.parse(caption)
    assert scene is not None, caption
    return scene


def picture_of(caption: str, seed: int = 0) -> np.ndarray:
    return renderer.render(scene_of(caption), np.random.default_rng(seed))


def failing(caption: str, painted: str) -> list[str]:
    return [fact.name for fact in facts.check(caption, picture_of(painted)).facts if not fact.holds]


@pytest.mark.parametrize("objects", [1, 2, 3, 4])
def test_a_true_rendering_holds_every_fact_of_its_caption(objects: int) -> None:
    rng = np.random.default_rng(10 + objects)
    scenes = [world.sample(rng, objects) for _ in range(300)]
    held = [facts.check(scene.caption, renderer.render(scene, rng)).all_hold for scene in scenes]
    assert np.mean(held) >= 0.99


def test_the_picture_of_another_prompt_does_not_hold_every_fact() -> None:
    rng = np.random.default_rng(1)
    scenes = [world.sample(rng, 3) for _ in range(100)]
    pictures = [renderer.render(scene, rng) for scene in scenes]
    held = [facts.check(scene.caption, other).all_hold for scene, other in zip(scenes, pictures[1:], strict=False)]
    assert np.mean(held) <= 0.01


@pytest.mark.parametrize(
    ("caption", "painted", "missed"),
    [
        ("a red heart above a blue star", "a red heart above a blue fish", ["object 2 is a star"]),
        ("a red heart above a blue star", "a red heart above a green star", ["object 2 is blue"]),
        ("a red heart at night", "a red heart in the snow", ["background is night"]),
        ("a red heart on the left", "a red heart on the right", ["object 1 stands at LM"]),
    ],
)
def test_one_wrong_fact_is_the_one_that_is_named(caption: str, painted: str, missed: list[str]) -> None:
    assert failing(caption, painted) == missed


def test_a_wrong_count_is_noticed() -> None:
    assert "2 object(s), nothing else" in failing("two red hearts", "three red hearts")


def test_a_swapped_order_is_noticed() -> None:
    assert failing("a red heart above a blue star", "a blue star above a red heart")


def test_colours_of_two_objects_exchanged_do_not_pass() -> None:
    report = facts.check("a red heart and a blue star", picture_of("a blue heart and a red star"))
    assert not report.all_hold


def test_an_object_too_many_is_noticed_even_where_no_layout_expects_one() -> None:
    picture = picture_of("a red heart in the top left corner").copy()
    picture[20:28, 20:28] = (20, 90, 220)
    assert not facts.check("a red heart in the top left corner", picture).all_hold


def test_a_caption_outside_the_grammar_states_no_facts() -> None:
    report = facts.check("portrait of a dancing eagle woman, artstation", picture_of("a red heart"))
    assert report.facts == ()
    assert math.isnan(report.share)
    assert not report.all_hold


@pytest.mark.parametrize("caption", ["", "a red", "two red heart", "a red hearts", "a red heart above", "dog", "1"])
def test_what_is_not_quite_the_grammar_is_not_guessed_at(caption: str) -> None:
    assert world.parse(caption) is None


def test_a_caption_is_read_back_as_the_scene_it_was_written_for() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        scene = world.sample(rng)
        assert world.parse(scene.caption) == scene


def test_capitals_spaces_and_a_full_stop_do_not_matter() -> None:
    plain = scene_of("a red heart at night")
    assert replace(scene_of("  A RED  Heart at night. "), caption=plain.caption) == plain


def test_the_same_seed_gives_the_same_captions_and_pictures() -> None:
    def draw() -> list[tuple[str, bytes]]:
        rng = np.random.default_rng(3)
        scenes = [world.sample(rng) for _ in range(50)]
        return [(scene.caption, renderer.render(scene, rng).tobytes()) for scene in scenes]

    assert draw() == draw()


def test_the_number_of_objects_can_be_chosen_and_is_checked() -> None:
    rng = np.random.default_rng(4)
    assert all(len(world.sample(rng, n).objects) == n for n in (1, 2, 3, 4) for _ in range(20))
    with pytest.raises(ValueError, match="objects"):
        world.sample(rng, 5)


def test_every_background_is_painted_and_recognised() -> None:
    for name, phrases in BACKGROUNDS.items():
        assert facts.check(f"a red circle {phrases[0]}", picture_of(f"a red circle {phrases[1]}")).all_hold, name


def test_a_picture_of_another_size_is_refused_with_its_size() -> None:
    with pytest.raises(ValueError, match="64"):
        facts.check("a red heart", np.zeros((64, 64, 3), np.uint8))
