"""How sure means and their differences are."""

import warnings

import pytest

from replay.reports.intervals import difference, interval


def test_the_interval_of_a_mean_is_students() -> None:
    assert interval([1.0, 2.0, 3.0]) == pytest.approx([2 - 2.484138, 2 + 2.484138], abs=1e-6)  # t(2) = 4.302653
    assert interval([5.0, 5.0]) == [5.0, 5.0]


def test_the_same_seeds_are_compared_in_pairs_so_that_what_they_share_cancels() -> None:
    before, after = [1.0, 5.0, 9.0, 13.0], [1.1, 5.2, 9.1, 13.2]
    paired = difference(before, after, range(4), range(4))
    assert paired.is_paired
    assert paired.mean == pytest.approx(0.15)
    assert paired.interval is not None
    assert paired.interval[0] > 0
    apart = difference(before, after, range(4), range(4, 8))
    assert not apart.is_paired
    assert apart.interval is not None
    assert apart.interval[0] < 0 < apart.interval[1]


def test_different_seeds_have_the_interval_of_welch() -> None:
    # means 2 and 5, variances 1 and 4, three each: standard error 1.290994, 2.941176 degrees of freedom
    found = difference([1.0, 2.0, 3.0], [3.0, 5.0, 7.0], [0, 1, 2], [3, 4, 5])
    assert found.interval == pytest.approx([-1.157, 7.157], abs=2e-3)


def test_one_seed_tells_nothing_of_chance() -> None:
    assert difference([1.0], [2.0], [0], [0]).interval is None
    assert difference([1.0], [2.0, 3.0], [0], [0, 1]).interval is None


def test_runs_that_never_vary_differ_for_certain() -> None:
    assert difference([1.0, 1.0], [2.0, 2.0], [0, 1], [2, 3]).interval == [1.0, 1.0]


def test_a_sample_that_never_varies_is_compared_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = difference([0.9, 0.9, 0.9], [0.1, 0.2, 0.3], [0, 1, 2], [3, 4, 5])
    assert found.interval == pytest.approx([-0.7 - 0.248414, -0.7 + 0.248414], abs=1e-5)
