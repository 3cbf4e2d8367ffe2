"""Scenes and captions that are wrong in one fact."""

import numpy as np
import pytest

from agents.lab.training.discriminators.hard_negatives import holds, near_miss, reworded, with_colours_decided
from agents.lab.world import captions, facts, renderer
from tests.agents.lab.training.judging import some_scenes

SCENES = some_scenes(120, 9)


def test_a_settled_scene_is_one_that_its_caption_describes() -> None:
    rng = np.random.default_rng(1)
    for scene in SCENES:
        shown = with_colours_decided(rng, scene)
        assert holds(scene, shown)
        assert not any(thing.is_unlike for thing in shown.objects)


@pytest.mark.parametrize("objects", [1, 2, 6])
def test_a_near_miss_is_wrong_and_only_just(objects: int) -> None:
    rng = np.random.default_rng(2)
    for scene in some_scenes(40, objects, objects):
        missed = near_miss(rng, scene)
        assert not holds(scene, missed)
        report = facts.check(scene.caption, renderer.render(missed, rng))
        assert not report.all_hold
        if objects == 6:  # of thirteen facts or more, a swap breaks four or so
            assert report.share > 0.5


def test_a_reworded_caption_is_inside_the_grammar_and_not_true() -> None:
    rng = np.random.default_rng(3)
    for scene in SCENES:
        shown = with_colours_decided(rng, scene)
        stated = captions.parse(reworded(rng, scene.caption, shown))
        assert stated is not None
        assert not holds(stated, shown)


def test_a_reworded_caption_mostly_keeps_its_other_words() -> None:
    rng = np.random.default_rng(4)
    changed = [reworded(rng, scene.caption, with_colours_decided(rng, scene)) for scene in SCENES]
    kept = [
        len(set(scene.caption.split()) & set(text.split())) / len(set(scene.caption.split()))
        for scene, text in zip(SCENES, changed, strict=True)
    ]
    assert np.median(kept) > 0.7
    assert all(scene.caption != text for scene, text in zip(SCENES, changed, strict=True))
