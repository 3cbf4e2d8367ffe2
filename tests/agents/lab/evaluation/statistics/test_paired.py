"""The interval of a paired difference of shares."""

import numpy as np
import pytest

from agents.lab.evaluation.statistics.paired import paired_difference


def test_a_paired_difference_has_the_published_interval() -> None:
    """Source: Tango 1998, table III: of 50 pairs 12 hold the first time only and 2 the second time only."""
    first = np.array([1] * 36 + [1] * 12 + [0] * 2, bool)
    second = np.array([1] * 36 + [0] * 12 + [1] * 2, bool)
    found = paired_difference(first, second)
    assert found.value == pytest.approx(0.2)
    assert (found.low, found.high) == pytest.approx((0.061, 0.345), abs=0.0005)


def test_pairs_that_all_agree_prove_no_more_than_their_number() -> None:
    few, many = (paired_difference(np.ones(n, bool), np.ones(n, bool)) for n in (60, 1200))
    assert few.low == pytest.approx(-0.06, abs=0.001)
    assert many.low == pytest.approx(-0.0032, abs=0.0001)
    assert many.high == -many.low


def test_a_paired_difference_ends_at_one_where_every_pair_says_so() -> None:
    found = paired_difference(np.zeros(5, bool), np.ones(5, bool))
    assert (found.value, found.low) == (-1.0, -1.0)
    assert -0.5 < found.high < 0
    assert np.isnan(paired_difference(np.zeros(0, bool), np.zeros(0, bool)).value)
