"""The skew of a trace's components, and that of made requests against what MLoRA reports."""

from collections.abc import Sequence

import numpy as np
import pytest

from replay.bench.skew import Skew, gini, skew_of
from replay.bench.traces.combinations import base_weights
from replay.traces.trace import Overrides, of_arrivals
from schemas.messages import GenerateOptions
from tests.replay.bench.traces.test_combinations import made
from tests.replay.simulation.runs import asking


@pytest.fixture(scope="module")
def skew() -> Skew:
    return skew_of(made(20_000))


def test_made_requests_are_as_skewed_as_the_study_reports(skew: Skew) -> None:
    assert gini(base_weights()) == pytest.approx(0.876, abs=0.005)
    assert skew.first == pytest.approx(0.288, abs=0.02)
    assert skew.first_five == pytest.approx(0.704, abs=0.02)
    assert skew.popular_adapters == pytest.approx(0.235, abs=0.05)
    assert skew.without_adapters == pytest.approx(0.788, abs=0.02)
    assert 3 <= skew.most_adapters <= 6


def test_nine_of_ten_made_combinations_come_fewer_than_five_times(skew: Skew) -> None:
    assert skew.combinations > 2000
    assert skew.rare == pytest.approx(0.893, abs=0.02)


def of_bases(*names: str, adapters: Sequence[tuple[str, ...]] = ()) -> Skew:
    several = adapters or [()] * len(names)
    wishes = [
        Overrides(options=GenerateOptions(model=name, adapters=own)) for name, own in zip(names, several, strict=True)
    ]
    return skew_of(asking(np.arange(len(names)) * 1.0, wishes))


def test_skew_is_none_where_all_are_asked_for_alike_and_great_where_one_has_all() -> None:
    assert gini([5, 5, 5, 5]) == pytest.approx(0)
    assert gini([0, 0, 0, 100]) == pytest.approx(0.75)
    assert gini([]) == 0
    even = of_bases(*"abcdefghij")
    assert (even.gini, even.first, even.first_five) == (pytest.approx(0), 0.1, 0.5)
    assert (even.without_adapters, even.most_adapters, even.popular_adapters) == (1, 0, 0)


def test_combinations_are_told_apart_by_their_adapters_whatever_their_order() -> None:
    skew = of_bases(*"aaaaaab", adapters=[("x", "y"), ("y", "x"), ("x", "y"), ("x", "y"), ("y", "x"), (), ()])
    assert skew.combinations == 3
    assert skew.rare == pytest.approx(2 / 3)  # five times is not rare
    assert skew.most_adapters == 2
    assert skew.without_adapters == pytest.approx(2 / 7)


def test_a_trace_that_asks_for_nothing_has_no_skew() -> None:
    skew = skew_of(of_arrivals([0.0, 1.0], "bare", "bare"))
    assert (skew.gini, skew.first, skew.without_adapters, skew.combinations) == (0, 0, 1, 1)
