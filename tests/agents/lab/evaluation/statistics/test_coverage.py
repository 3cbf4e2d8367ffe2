"""Whether intervals contain what a larger pool shows: on a made-up pool, and on the shipped one for a few draws."""

from pathlib import Path

import numpy as np
import pytest

from agents.lab.evaluation.statistics import coverage as coverage_module
from agents.lab.evaluation.statistics.coverage import Pool, coverage, load, pool_of, save
from agents.profiling.statistics.intervals import Estimate, Resampling
from tests.agents.lab.evaluation.builders import an_evaluation
from tests.agents.lab.evaluation.statistics.pools import POOL

HOW = Resampling(seed=5, resamples=60)


def a_pool(count: int = 3000) -> Pool:
    """Light fails on a third of the prompts, and both rankers see that through noise."""
    rng = np.random.default_rng(8)
    hard = rng.random(count)
    light, heavy = (rng.random(count) > 0.6 * hard).astype(float), (rng.random(count) > 0.1 * hard).astype(float)
    noisy = [1 - hard + rng.normal(0, 0.3, count) for _ in range(2)]
    return Pool(light, heavy, 0.5 + light / 2, 0.5 + heavy / 2, *noisy)


def test_most_intervals_contain_the_pools_value_and_all_figures_are_told() -> None:
    held = coverage(a_pool(), count=200, draws=20, how=HOW)
    assert set(held) == {
        "light: quality", "light: facts", "heavy: quality", "heavy: facts",
        *(f"discriminator: {figure}" for figure in ("auc", "recovery", "gain")),
        *(f"classifier: {figure}" for figure in ("auc", "recovery", "gain")),
    }  # fmt: skip
    assert min(held.values()) >= 0.7  # of 20 draws and 60 resamples


def test_intervals_that_are_too_narrow_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(held: np.ndarray) -> Estimate:
        value = float(held.mean())
        return Estimate(value, value - 0.002, value + 0.002)

    monkeypatch.setattr(coverage_module, "proportion", narrow)
    assert coverage(a_pool(), count=200, draws=20, how=HOW)["light: quality"] < 0.5


def test_a_pool_is_the_main_pair_of_an_evaluation_and_survives_its_file(tmp_path: Path) -> None:
    evaluation = an_evaluation()
    pool = pool_of(evaluation)
    assert np.array_equal(pool.light, evaluation.levels["tiny"].quality)
    save(pool, tmp_path / "pool.npz")
    for before, after in zip(pool, load(tmp_path / "pool.npz"), strict=True):
        assert np.allclose(before, after, atol=2e-3)


def test_the_shipped_pool_has_twenty_thousand_prompts_on_which_levels_differ() -> None:
    pool = load(POOL)
    assert len(pool.light) == 20_000
    assert 0.4 <= pool.light.mean() <= 0.6
    assert pool.heavy.mean() - pool.light.mean() > 0.2
