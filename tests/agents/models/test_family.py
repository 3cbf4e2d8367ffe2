"""The shipped light and heavy variants, as anybody would load them."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from agents.models import facts, scoring, world
from agents.models.family import VARIANTS
from agents.models.painter import Painter

MODELS = Path(__file__).parents[3] / "infra" / "models"
NAMES = tuple(VARIANTS)


@cache
def painter(name: str) -> Painter:
    return Painter(MODELS / name, VARIANTS[name].steps, VARIANTS[name].guidance)


@cache
def right(name: str, objects: tuple[int, ...], count: int) -> np.ndarray:
    """Whether each of `count` fresh prompts per number of objects came out with all facts right."""
    rng = np.random.default_rng(20_261_121)
    captions = [world.sample(rng, number).caption for number in objects for _ in range(count)]
    pictures = painter(name).paint(captions, range(len(captions)))
    return np.array([facts.check(c, p).all_hold for c, p in zip(captions, pictures, strict=True)])


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_paints_the_same_picture_alone_and_in_a_batch(name: str) -> None:
    alone = painter(name).paint(["a red heart above a blue star"], [7])[0].astype(int)
    again = painter(name).paint(["a red heart above a blue star"], [7])[0].astype(int)
    batch = painter(name).paint(["a green tree", "a red heart above a blue star"], [8, 7])[1].astype(int)
    assert (alone == again).all()
    assert np.abs(alone - batch).max() <= 2  # rounding of the last bit differs with the batch


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_paints_another_picture(name: str) -> None:
    one, other = painter(name).paint(["portrait of a woman, oil on canvas"] * 2, [1, 2])
    assert (one != other).any()


def test_heavy_gets_nearly_every_prompt_of_one_or_two_objects_right() -> None:
    assert right("heavy", (1, 2), 50).mean() >= 0.95


def test_light_is_clearly_behind_heavy_on_three_and_four_objects() -> None:
    light, heavy = (right(name, (3, 4), 30).astype(float) for name in ("light", "heavy"))
    gap = heavy - light
    assert gap.mean() > 3 * scoring.standard_error(gap)


def test_light_is_good_at_single_objects() -> None:
    assert right("light", (1,), 50).mean() >= 0.75


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prompt", ["", "❤️ Übermut, 日本語", "word " * 200])
def test_any_text_gives_a_picture(name: str, prompt: str) -> None:
    picture = painter(name).paint([prompt], [1])[0]
    assert picture.shape == (32, 32, 3)
    assert picture.std() > 0


def test_the_family_is_small_and_names_no_path_of_the_machine_it_was_trained_on() -> None:
    files = [path for path in MODELS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 25e6
    for path in files:
        if path.suffix == ".json":
            assert not re.search("/(tmp|work|root|home)/", path.read_text()), path


def test_what_was_measured_is_there_for_the_planner() -> None:
    measured = json.loads((MODELS / "measured.json").read_text())
    for name, setting in VARIANTS.items():
        figures = measured["variants"][name]
        assert (figures["steps"], figures["guidance"]) == (setting.steps, setting.guidance)
        assert set(figures["latency_ms"]) == {"1", "2", "4", "8"}
        assert set(figures["all_facts_by_objects"]) == {"1", "2", "3", "4"}
    latency = {name: measured["variants"][name]["latency_ms"]["1"] for name in VARIANTS}
    assert latency["heavy"] >= 5 * latency["light"]
    curve = [point["deferred"] for point in measured["discriminator"]["deferral_curve"]]
    assert len(curve) == 21
    assert curve == sorted(curve)
