"""The fact checker: right about true renderings, and about each way to be wrong."""

import math

import numpy as np
import pytest

from agents.lab.training.discriminators import hard_negatives
from agents.lab.world import facts, renderer, scenes
from agents.lab.world.patterns import PATTERNS
from agents.lab.world.phrases import BACKGROUNDS
from tests.agents.lab.world.drawings import failing, picture_of


@pytest.mark.parametrize("objects", list(PATTERNS))
def test_a_true_rendering_holds_every_fact_of_its_caption(objects: int) -> None:
    rng = np.random.default_rng(10 + objects)
    drawn = [scenes.sample(rng, objects) for _ in range(100)]
    held = [facts.check(scene.caption, renderer.render(scene, rng)).all_hold for scene in drawn]
    assert np.mean(held) >= 0.99


def test_the_picture_of_another_prompt_does_not_hold_every_fact() -> None:
    rng = np.random.default_rng(1)
    drawn = [scenes.sample(rng, 3) for _ in range(60)]
    pictures = [renderer.render(scene, rng) for scene in drawn]
    held = [facts.check(scene.caption, other).all_hold for scene, other in zip(drawn, pictures[1:], strict=False)]
    assert np.mean(held) <= 0.02


@pytest.mark.parametrize(
    ("caption", "painted", "missed"),
    [
        ("a red heart above a blue star", "a red heart above a blue fish", ["object 2 is a star"]),
        ("a red heart above a blue star", "a red heart above a green star", ["object 2 is blue"]),
        ("a red heart at night", "a red heart in the snow", ["background is night"]),
        ("a red heart on the left", "a red heart on the right", ["object 1 stands at L"]),
        ("a small red heart", "a red heart", ["object 1 is small"]),
        ("a red heart", "a huge red heart", ["object 1 is of usual size"]),
        ("a huge red heart", "a small red heart", ["object 1 is huge"]),
        ("a heart that is not red", "a red heart", ["object 1 is not red"]),
        ("a heart that is not red", "a blue star", ["object 1 is a heart"]),
        ("a red heart and no hearts", "a red heart", ["no heart"]),
        ("a red heart without any moons", "a red moon", ["object 1 is a heart", "no moon"]),
    ],
)
def test_what_is_wrong_is_what_is_named_and_nothing_else(caption: str, painted: str, missed: list[str]) -> None:
    assert failing(caption, painted) == missed


@pytest.mark.parametrize("colour", ["blue", "yellow", "green", "orange", "purple", "pink", "black", "teal", "brown"])
def test_any_other_colour_will_do_where_one_is_ruled_out(colour: str) -> None:
    assert failing("a heart that is not red", f"a {colour} heart") == []


def test_a_ruled_out_colour_holds_in_every_rendering_of_its_caption() -> None:
    caption = "two hearts that are not red above a star that is not blue at night"
    assert all(facts.check(caption, picture_of(caption, seed=seed)).all_hold for seed in range(20))


def test_what_is_absent_is_no_fact_of_a_prompt_that_does_not_say_so() -> None:
    names = [fact.name for fact in facts.check("a red heart", picture_of("a red heart")).facts]
    assert not [name for name in names if name.startswith("no ")]


@pytest.mark.parametrize(
    ("caption", "painted"),
    [("two red hearts", "three red hearts"), ("five red hearts", "six red hearts"), ("four red hearts", "a red heart")],
)
def test_a_wrong_count_is_noticed(caption: str, painted: str) -> None:
    assert any("nothing else" in name for name in failing(caption, painted))


def test_rows_exchanged_are_noticed() -> None:
    assert failing("a red heart above a blue star", "a blue star above a red heart")
    assert failing("three red hearts above two blue stars", "two blue stars above three red hearts")


def test_colours_of_two_things_exchanged_do_not_pass() -> None:
    assert failing("a red heart and a blue star", "a blue heart and a red star")


def test_sizes_of_two_things_exchanged_do_not_pass() -> None:
    assert failing("a small red heart and a blue star", "a red heart and a small blue star")


def test_a_thing_too_many_is_noticed_even_where_no_layout_expects_one() -> None:
    picture = picture_of("a small red heart in the top left corner").copy()
    picture[30:38, 20:28] = (20, 90, 220)
    assert not facts.check("a small red heart in the top left corner", picture).all_hold


def test_an_empty_picture_holds_the_background_alone() -> None:
    empty = renderer.background("night").round().astype(np.uint8)
    report = facts.check("a red heart at night", empty)
    assert [fact.name for fact in report.facts if fact.holds] == ["background is night"]


def test_a_caption_outside_the_grammar_states_no_facts() -> None:
    report = facts.check("portrait of a dancing eagle woman, artstation", picture_of("a red heart"))
    assert report.facts == ()
    assert math.isnan(report.share)
    assert not report.all_hold


def test_the_share_is_of_the_facts_that_hold() -> None:
    report = facts.check("a red heart above a blue star", picture_of("a red heart above a green star"))
    assert report.share == pytest.approx(1 - 1 / len(report.facts))


def test_every_background_is_painted_and_recognised_in_both_its_phrasings() -> None:
    for name, phrases in BACKGROUNDS.items():
        assert facts.check(f"a red circle {phrases[0]}", picture_of(f"a red circle {phrases[1]}")).all_hold, name


def test_a_picture_of_another_size_is_refused_with_its_size() -> None:
    with pytest.raises(ValueError, match="64"):
        facts.check("a red heart", np.zeros((64, 64, 3), np.uint8))


@pytest.mark.parametrize(
    ("caption", "painted", "kinds"),
    [
        ("a red heart above a blue star", "a red heart above a blue star", set()),
        ("a red heart above a blue star", "a red heart above a blue fish", {"shape"}),
        ("a red heart above a blue star", "a red heart above a green star", {"colour"}),
        ("a red heart above a blue star", "a blue heart above a red star", {"binding"}),
        ("a red heart above a blue star", "a blue star above a red heart", {"relation"}),
        ("a red heart above a red star", "a red star above a red heart", {"relation"}),
        ("a red heart above a blue star", "a red heart left of a blue star", {"place"}),
        ("a red heart on the left", "a red heart on the right", {"place"}),
        ("a small red heart above a blue star", "a red heart above a blue star", {"size"}),
        ("a small red heart and a blue star", "a red heart and a small blue star", {"size"}),
        ("two red hearts", "three red hearts", {"count"}),
        ("three red hearts above two blue stars", "three red hearts above three blue stars", {"count"}),
        ("five red hearts", "four red hearts", {"count"}),
        ("a red heart at night", "a red heart in the snow", {"background"}),
        ("a red heart and a blue star without any moons", "a red heart and a blue moon", {"shape", "absence"}),
        ("a red heart and no hearts", "a red heart", {"absence"}),
        ("a heart that is not red", "a red heart", {"colour"}),
        ("a red heart at night", "a blue star in the snow", {"shape", "colour", "background"}),
    ],
)
def test_a_planted_fault_is_told_by_its_kind(caption: str, painted: str, kinds: set[str]) -> None:
    assert facts.check(caption, picture_of(painted)).misses == kinds <= set(facts.KINDS)


def test_an_empty_picture_misses_its_things_and_nothing_that_only_a_thing_can_have() -> None:
    empty = renderer.background("night").round().astype(np.uint8)
    assert facts.check("a small red heart and no stars at night", empty).misses == {"count"}


def test_a_kind_is_missed_exactly_where_a_fact_does_not_hold() -> None:
    rng = np.random.default_rng(9)
    drawn = [scenes.sample(rng, objects) for objects in PATTERNS for _ in range(25)]
    for at, scene in enumerate(drawn):
        for shown in (scene, hard_negatives.near_miss(rng, scene), drawn[at - 1]):
            report = facts.check(scene.caption, renderer.render(shown, rng))
            assert report.all_hold == (not report.misses), (scene.caption, shown, report)
