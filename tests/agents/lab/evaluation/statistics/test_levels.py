"""Quarters of hardness, and dominated levels."""

from dataclasses import replace

import numpy as np
import pytest

from agents.lab.evaluation.observations import Level
from agents.lab.evaluation.statistics.levels import cheapest_right, cost_ratio, dominated
from agents.profiling.statistics.sweeps import quarters


def a_level(quality: float, cost_ms: float) -> Level:
    return Level(quality=np.full(4, quality), facts=np.ones(4), cost_ms=cost_ms)


def test_quarters_are_equally_large_even_where_hardness_ties() -> None:
    assert np.bincount(quarters(np.array([0.5] * 40))).tolist() == [10] * 4
    assert np.bincount(quarters(np.random.default_rng(1).random(1000))).tolist() == [250] * 4


def test_the_first_quarter_is_the_easiest() -> None:
    assert quarters(np.array([0.9, 0.1, 0.5, 0.3])).tolist() == [3, 0, 2, 1]


def test_a_level_is_dominated_by_one_that_is_no_dearer_and_no_worse() -> None:
    levels = {"light": a_level(0.8, 10), "heavy": a_level(0.99, 400), "s8": a_level(0.95, 76), "l4": a_level(0.96, 64)}
    assert dominated(levels) == {"s8": "l4"}


def test_equal_cost_and_a_better_image_dominates_but_a_twin_does_not() -> None:
    assert dominated({"a": a_level(0.8, 10), "b": a_level(0.9, 10)}) == {"a": "b"}
    assert dominated({"a": a_level(0.8, 10), "b": a_level(0.8, 10)}) == {}


def test_the_cost_ratio_spans_the_levels() -> None:
    assert cost_ratio({"a": a_level(0.8, 10), "b": a_level(0.9, 330)}) == pytest.approx(33)


def test_the_cheapest_level_with_all_facts_right_is_told_for_every_prompt() -> None:
    def right(*rows: bool) -> np.ndarray:
        return np.array(rows, float)

    levels = {
        "heavy": replace(a_level(1, 400), quality=right(True, True, True, False)),
        "light": replace(a_level(1, 10), quality=right(True, False, False, False)),
        "middle": replace(a_level(1, 60), quality=right(True, True, False, False)),
    }
    shares = {name: share["value"] for name, share in cheapest_right(levels).items()}
    assert shares == {"light": 0.25, "middle": 0.25, "heavy": 0.25, "": 0.25}
