"""The shipped discriminator."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np

from agents.models import facts, renderer, scoring, world
from agents.models.discriminator import Discriminator
from agents.models.family import VARIANTS
from agents.models.painter import Painter

ROOT = Path(__file__).parents[3]
MODELS = ROOT / "infra" / "models"
FREE_FORM = [
    "portrait of a dancing eagle woman, intricate, artstation",
    "an old lighthouse keeper reading letters by candlelight",
    "a robot barista pouring coffee, studio photo",
    "misty mountains at dawn, oil painting",
    "a cat wearing a golden crown, digital art",
    "cyberpunk street market in the rain, neon",
    "a tiny house on a floating island",
    "ein Hund im Garten",
]


@cache
def judge() -> Discriminator:
    return Discriminator.load(MODELS / "discriminator")


@cache
def light() -> Painter:
    return Painter(MODELS / "light", VARIANTS["light"].steps, VARIANTS["light"].guidance)


def test_the_right_picture_scores_above_the_same_picture_with_another_prompt() -> None:
    rng = np.random.default_rng(31)
    scenes = [world.sample(rng) for _ in range(100)]
    pictures = [renderer.render(scene, rng) for scene in scenes]
    captions = [scene.caption for scene in scenes]
    matched = np.array(judge().score(pictures, captions))
    swapped = np.array(judge().score(pictures, captions[1:] + captions[:1]))
    assert (matched > swapped).mean() >= 0.9


def test_it_tells_right_light_pictures_from_wrong_ones() -> None:
    rng = np.random.default_rng(32)
    captions = [world.sample(rng).caption for _ in range(300)]
    pictures = light().paint(captions, range(300))
    held = np.array([facts.check(c, p).all_hold for c, p in zip(captions, pictures, strict=True)])
    scores = np.array(judge().score(list(pictures), captions))
    assert ((scores >= 0) & (scores <= 1)).all()
    assert scoring.auc(scores, held) >= 0.70
    assert abs(scores.mean() - held.mean()) <= 0.1  # calibrated on the whole


def test_confidence_varies_among_free_form_prompts() -> None:
    pictures = light().paint(FREE_FORM, range(len(FREE_FORM)))
    scores = judge().score(list(pictures), FREE_FORM)
    assert all(0 < score < 1 for score in scores)
    assert max(scores) - min(scores) > 0.05


def test_free_form_prompts_give_different_pictures() -> None:
    pictures = light().paint(FREE_FORM, [5] * len(FREE_FORM))
    assert len({picture.tobytes() for picture in pictures}) == len(FREE_FORM)


def test_a_picture_of_any_size_is_scored() -> None:
    scene = world.sample(np.random.default_rng(33), 2)
    small = renderer.render(scene, np.random.default_rng(0))
    large = small.repeat(16, 0).repeat(16, 1)
    one, other = judge().score([small, large], [scene.caption] * 2)
    assert abs(one - other) < 0.02


def test_nothing_to_score_gives_nothing() -> None:
    assert judge().score([], []) == []


def test_a_role_that_only_judges_needs_neither_diffusers_nor_transformers() -> None:
    code = (
        "import sys; from pathlib import Path; from agents.models.discriminator import Discriminator;"
        "Discriminator.load(Path('infra/models/discriminator'));"
        "sys.exit(bool({'diffusers', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
