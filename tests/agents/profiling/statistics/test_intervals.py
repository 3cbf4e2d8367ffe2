"""Intervals hold what they promise."""

import math

import numpy as np
import pytest

from agents.learning.calibration import auc
from agents.learning.recovery import oracle_quality_at, quality_at, random_quality_at, recovered
from agents.profiling.statistics.intervals import Resampling, mean, proportion, resampled

DRAWS, COUNT = 200, 250


def test_intervals_of_a_mean_cover_it_about_95_times_in_100() -> None:
    rng = np.random.default_rng(8)
    hits = 0
    for seed in range(300):
        estimate = mean(rng.beta(5, 1, 120), Resampling(seed=seed, resamples=200))
        hits += estimate.low <= 5 / 6 <= estimate.high
    assert 0.90 <= hits / 300 <= 0.985


def test_intervals_of_a_proportion_cover_it_even_near_one() -> None:
    rng = np.random.default_rng(9)
    estimates = [proportion(rng.random(100) < 0.98) for _ in range(400)]
    assert np.mean([e.low <= 0.98 <= e.high for e in estimates]) >= 0.93


@pytest.mark.parametrize(("light", "heavy"), [(-0.05, 1.1), (1.3, 2.2)], ids=["standard", "easy"])
def test_intervals_hold_what_a_pool_of_many_prompts_shows(light: float, heavy: float) -> None:
    """On a made-up pool in which light and heavy get all facts right as often as the shipped levels do on a stream."""
    rng = np.random.default_rng(10)
    ease = rng.normal(0, 1, 20_000)
    right = tuple((rng.normal(level + ease, 1) > 0).astype(float) for level in (light, heavy))
    scores = ease + rng.normal(0, 0.7, len(ease))

    def figures(rows: np.ndarray) -> np.ndarray:  # AUC, recovery, gain, quality
        on_light, on_heavy, half = right[0][rows], right[1][rows], np.array([0.5])
        chance, best = random_quality_at(on_light, on_heavy, half), oracle_quality_at(on_light, on_heavy, half)
        quality = quality_at(scores[rows], on_light, on_heavy, half)
        found = recovered(quality, chance, best)
        return np.array([auc(scores[rows], on_light >= on_heavy), found[0], (quality - chance)[0], quality[0]])

    truth, held = figures(np.arange(len(ease))), np.zeros(4)
    for seed in range(DRAWS):
        drawn = rng.choice(len(ease), COUNT, replace=False)
        worse = int((right[0] < right[1])[drawn].sum())
        found = resampled(lambda rows, d=drawn: figures(d[rows]), COUNT, Resampling(seed=seed, resamples=80), worse)
        held += [found.estimate(at).low <= truth[at] <= found.estimate(at).high for at in range(len(truth))]
    assert (held / DRAWS >= 0.93).all(), held / DRAWS


def test_an_interval_is_wider_the_fewer_prompts_tell() -> None:
    values = np.random.default_rng(13).random(400)
    widths = []
    for telling in (400, 40, 8):
        drawn = resampled(lambda rows: np.array([values[rows].mean()]), 400, Resampling(seed=1), telling).estimate(0)
        widths.append(drawn.high - drawn.low)
    assert widths[0] < widths[1] < widths[2] < 1.5 * widths[0]


def test_differences_are_paired_so_what_two_share_cancels() -> None:
    values = np.random.default_rng(11).normal(0, 1, 200)
    drawn = resampled(
        lambda rows: np.array([values[rows].mean(), values[rows].mean() + 0.1]), 200, Resampling(seed=1, resamples=100)
    )
    difference = drawn.difference(1, 0)
    assert difference.high - difference.low < 1e-9 < drawn.estimate(0).high - drawn.estimate(0).low


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    values = np.random.default_rng(12).random(50)
    assert mean(values, Resampling(seed=1)) == mean(values, Resampling(seed=1)) != mean(values, Resampling(seed=2))


def test_a_figure_undefined_in_a_resample_has_no_interval() -> None:
    drawn = resampled(
        lambda rows: np.array([float("nan") if 0 not in rows else 1.0]), 5, Resampling(seed=1, resamples=50)
    )
    assert drawn.estimate(0).value == 1
    assert math.isnan(drawn.estimate(0).low)


def test_nothing_and_a_single_value_have_no_interval() -> None:
    assert math.isnan(mean(np.array([]), Resampling(seed=1)).value)
    assert mean(np.array([0.5]), Resampling(seed=1)).value == 0.5
    assert math.isnan(mean(np.array([0.5]), Resampling(seed=1)).low)
    assert math.isnan(proportion(np.array([], bool)).value)
