"""Intervals hold what they promise."""

import math

import numpy as np

from agents.lab.evaluation.intervals import Resampling, mean, proportion, resampled
from agents.lab.evaluation.ranking import recovery


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


def test_intervals_of_recovery_cover_what_many_prompts_show() -> None:
    rng = np.random.default_rng(10)

    def prompts(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        hardness = rng.random(count)
        light = (rng.random(count) > hardness).astype(float)
        return -hardness + rng.normal(0, 0.3, count), light, np.ones(count)

    truth = recovery(*prompts(400_000), 0.5)
    hits = 0
    for seed in range(60):
        scores, light, heavy = prompts(200)
        drawn = resampled(
            lambda rows, s=scores, lo=light, hi=heavy: np.array([recovery(s[rows], lo[rows], hi[rows], 0.5)]),
            200,
            Resampling(seed=seed, resamples=100),
        ).estimate(0)
        hits += drawn.low <= truth <= drawn.high
    assert 0.85 <= hits / 60 <= 1


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
