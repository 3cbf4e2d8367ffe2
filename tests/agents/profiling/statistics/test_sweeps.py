"""The choice of K, and the rows of a sweep."""

import numpy as np
import pytest

from agents.profiling.statistics.intervals import Resampling
from agents.profiling.statistics.sweeps import Sweep, choose_k, points

HOW = Resampling(seed=1, resamples=200)
RISING = np.linspace(0, 1, 500)  # hardness


def a_sweep(*losses: float, count: int = 500) -> Sweep:
    """K = 10, 20, ...; each K gets a fact of four wrong, on that share of the prompts."""
    rng = np.random.default_rng(41)
    wrong = np.stack([rng.random(count) < loss for loss in losses])
    return Sweep(
        rows=np.arange(count),
        k=10 * (1 + np.arange(len(losses))),
        cost_share=1 - 0.2 * (1 + np.arange(len(losses))),
        quality=1.0 - wrong,
        facts=1 - 0.25 * wrong,
        blank_quality=np.ones(count),
        blank_facts=np.ones(count),
    )


def test_the_largest_step_that_surely_loses_little_is_chosen() -> None:
    assert choose_k(a_sweep(0.0, 0.002, 0.008, 0.05), RISING, HOW) == 30


def test_a_step_whose_loss_is_small_but_not_surely_so_is_not_chosen() -> None:
    assert choose_k(a_sweep(0.0, 0.025, count=200), RISING[:200], HOW) == 10


def test_the_search_ends_at_the_first_step_that_fails() -> None:
    assert choose_k(a_sweep(0.0, 0.2, 0.0), RISING, HOW) == 10


def test_where_even_the_first_step_fails_one_generates_from_noise() -> None:
    assert choose_k(a_sweep(0.1, 0.0), RISING, HOW) is None


def test_a_step_that_loses_much_on_the_hardest_prompts_alone_is_not_chosen() -> None:
    sweep = a_sweep(0.0, 0.0)
    hit = np.flatnonzero(RISING > 0.75)[::20]
    sweep.quality[1, hit] = 0  # .056 of the hardest quarter, .014 of all
    assert choose_k(sweep, RISING, HOW) == 10
    assert choose_k(sweep, np.random.default_rng(1).permutation(RISING), HOW) == 20, "spread over all it would pass"


def test_rows_tell_quality_work_and_the_loss_against_blank() -> None:
    row = points(a_sweep(0.0, 0.05), np.linspace(0, 1, 500), HOW)[1]
    assert (row["k"], row["cost_share"]) == (20, pytest.approx(0.6))
    assert row["above_blank"] == pytest.approx(row["quality"] - 1)
    assert row["above_blank_ci"][0] < row["above_blank"] < row["above_blank_ci"][1] < 0


def test_a_sweep_over_some_prompts_keeps_to_their_rows() -> None:
    sweep = a_sweep(0.0, 0.05, count=8)
    some = np.arange(8) % 2 == 1
    assert sweep.where(some).rows.tolist() == [1, 3, 5, 7]
    assert sweep.where(some).quality.tolist() == sweep.quality[:, 1::2].tolist()
