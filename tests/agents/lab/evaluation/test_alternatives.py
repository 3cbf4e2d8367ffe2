"""Settings of a level beside the shipped one: what counts as sharp, and what a row says."""

from dataclasses import replace

import numpy as np
import pytest

from agents.lab.evaluation.alternatives import SETTINGS, Alternative, compared, sharpness, variants_of
from agents.lab.family import CATALOG, VARIANTS

N = 200


def an_alternative(steps: int, wrong: int, shift: float = 0.0) -> Alternative:
    """Of N prompts the first `wrong` have a fact wrong; its features lie `shift` from the true ones."""
    right = np.arange(N) >= wrong
    features = np.random.default_rng(3).normal(size=(N, 4)) + shift
    variant = replace(VARIANTS["heavy"], steps=steps)
    return Alternative(variant=variant, right=right, features=features, sharpness=8.0)


def test_a_blurred_image_is_less_sharp() -> None:
    sharp = np.random.default_rng(1).integers(0, 255, (1, 48, 48, 3), np.uint8)
    blurred = ((sharp.astype(int) + np.roll(sharp, 1, axis=1) + np.roll(sharp, 1, axis=2)) // 3).astype(np.uint8)
    assert sharpness(blurred) < sharpness(sharp)
    assert sharpness(np.full((1, 48, 48, 3), 7, np.uint8)) == 0.0


def test_a_setting_is_compared_with_the_shipped_one_on_the_same_prompts() -> None:
    true = np.random.default_rng(3).normal(size=(N, 4))
    shipped, other = an_alternative(4, wrong=20), an_alternative(2, wrong=30, shift=1.0)
    row = compared(other, shipped, true, time_share=0.6, true_sharpness=10.0)
    assert (row["steps"], row["prompts"], row["shipped"], row["time_share"]) == (2, N, False, 0.6)
    assert row["above_shipped"] == pytest.approx(-0.05)
    assert row["above_shipped_ci"][0] < -0.05 < row["above_shipped_ci"][1]
    assert row["fid_above_shipped"] == pytest.approx(4.0)
    assert 0 < row["fid_difference_standard_error"] < 1
    assert row["sharpness_of_true"] == pytest.approx(0.8)
    itself = compared(shipped, shipped, true, time_share=1.0, true_sharpness=10.0)
    assert (itself["shipped"], itself["above_shipped"], itself["fid_above_shipped"]) == (True, 0.0, 0.0)


def test_the_shipped_setting_is_compared_once_and_first() -> None:
    for level, variants in variants_of(CATALOG).items():
        settings = [(variant.steps, variant.guidance) for variant in variants]
        assert variants[0] == VARIANTS[level]
        assert len(settings) == len(set(settings))
        assert set(settings) >= set(SETTINGS[level])
