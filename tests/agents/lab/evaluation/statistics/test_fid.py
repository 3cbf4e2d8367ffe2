"""The Frechet distance."""

import numpy as np
import pytest
from scipy import linalg

from agents.lab.evaluation.statistics import fid
from agents.profiling.statistics.intervals import Resampling
from schemas.errors import PochadeError


def features(count: int, seed: int, width: int = 6) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, (count, width)) @ rng.normal(0, 1, (width, width))


def test_a_set_is_at_no_distance_from_itself() -> None:
    one = features(200, 1)
    assert fid.frechet_distance(one, one) == pytest.approx(0, abs=1e-9)


def test_the_distance_of_a_shift_is_its_square() -> None:
    one = features(200, 1)
    for shift in (0.5, 1.0, 3.0):
        moved = one + np.array([shift, 0, 0, 0, 0, 0])
        assert fid.frechet_distance(one, moved) == pytest.approx(shift**2)


def test_a_change_of_spread_alone_shows() -> None:
    one = features(200, 1)
    centred = one - one.mean(0)
    assert fid.frechet_distance(centred, 2 * centred) == pytest.approx((centred.std(0, ddof=1) ** 2).sum())


def test_it_agrees_with_the_textbook_formula_and_has_no_direction() -> None:
    one, other = features(300, 2), features(250, 3) + 0.3
    (m1, s1), (m2, s2) = ((x.mean(0), np.cov(x.T)) for x in (one, other))
    textbook = ((m1 - m2) ** 2).sum() + np.trace(s1 + s2 - 2 * linalg.sqrtm(s1 @ s2).real)
    assert fid.frechet_distance(one, other) == pytest.approx(textbook)
    assert fid.frechet_distance(other, one) == pytest.approx(textbook)


def test_fewer_images_than_features_are_no_trouble() -> None:
    assert np.isfinite(fid.frechet_distance(features(5, 1, 32), features(4, 2, 32)))


def test_small_samples_of_one_distribution_look_further_apart_than_large_ones() -> None:
    every = np.random.default_rng(6).normal(0, 1, (4000, 16))
    assert fid.floor(every[:200]) > 3 * fid.floor(every)


def test_the_spread_shrinks_with_more_images() -> None:
    how = Resampling(seed=1, resamples=40)
    one, other = np.random.default_rng(7).normal(0, 1, (2, 3000, 4)) + np.array([0, 1])[:, None, None]
    assert fid.standard_error(one, other, how) < 0.5 * fid.standard_error(one[:200], other[:200], how)


@pytest.mark.parametrize(("one", "other"), [((10, 3), (10, 4)), ((1, 3), (10, 3)), ((10,), (10, 3))])
def test_features_that_cannot_be_compared_are_refused(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    with pytest.raises(PochadeError):
        fid.frechet_distance(np.zeros(one), np.zeros(other))
