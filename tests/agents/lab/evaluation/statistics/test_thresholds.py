"""A threshold keeps its promise, in simulation and as a matter of form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from agents.lab.evaluation.statistics.thresholds import keep_threshold, upper_bound
from schemas.errors import PochadeError

SETS = st.integers(20, 300).flatmap(lambda n: st.tuples(arrays(float, n, elements=st.floats(0, 1)), arrays(bool, n)))


def a_set(rng: np.random.Generator, count: int = 800) -> tuple[np.ndarray, np.ndarray]:
    """Images whose confidence s is right with probability s."""
    scores = rng.random(count)
    return scores, rng.random(count) < scores


def test_the_bound_holds_in_95_of_100_calibrations() -> None:
    rng = np.random.default_rng(21)
    found = [keep_threshold(*a_set(rng), alpha=0.2, delta=0.05) for _ in range(400)]
    wrong = np.array([(1 - threshold.value) / 2 for threshold in found if threshold])  # of those above it, in truth
    assert (wrong > 0.2).sum() / 400 <= 0.05
    assert len(wrong) > 360  # and the promise is not kept by refusing to give one,
    assert wrong.mean() > 0.11  # or by keeping next to nothing


@pytest.mark.parametrize("starts", [1, 10])
def test_where_no_threshold_is_safe_one_is_found_at_most_delta_of_the_time(starts: int) -> None:
    rng = np.random.default_rng(22)
    found = 0
    for _ in range(600):
        scores, right = rng.random(400), rng.random(400) < 0.799
        found += keep_threshold(scores, right, alpha=0.2, delta=0.1, starts=starts) is not None
    assert found / 600 <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / 600)


def test_several_starts_find_what_one_start_at_the_top_cannot() -> None:
    rng = np.random.default_rng(23)
    one = [keep_threshold(*a_set(rng), alpha=0.2, starts=1) for _ in range(20)]
    assert sum(threshold is None for threshold in one) > 10


@given(SETS, st.floats(0.05, 0.6))
@settings(max_examples=60)
def test_what_it_says_of_the_calibration_set_is_so(drawn: tuple[np.ndarray, np.ndarray], alpha: float) -> None:
    scores, right = drawn
    found = keep_threshold(scores, right, alpha=alpha)
    if found is not None:
        kept = scores >= found.value
        assert (found.kept, found.kept_share) == (kept.sum(), kept.mean())
        assert (~right[kept]).mean() == found.wrong_share < found.bound <= alpha


@given(SETS, st.floats(0.05, 0.6), st.floats(0, 0.3))
@settings(max_examples=60)
def test_a_looser_promise_never_keeps_less(drawn: tuple[np.ndarray, np.ndarray], alpha: float, looser: float) -> None:
    strict, loose = (keep_threshold(*drawn, alpha=a) for a in (alpha, alpha + looser))
    assert strict is None or (loose is not None and loose.value <= strict.value)


def test_all_right_keeps_all_and_all_wrong_or_too_few_keeps_none() -> None:
    scores = np.random.default_rng(24).random(300)
    found = keep_threshold(scores, np.ones(300, bool), alpha=0.1)
    assert found is not None
    assert found.value == 0
    assert found.kept == 300
    assert keep_threshold(scores, np.zeros(300, bool), alpha=0.1) is None
    assert keep_threshold(scores[:20], np.ones(20, bool), alpha=0.1) is None


@pytest.mark.parametrize(("wrong", "kept"), [(0, 59), (3, 100), (40, 200), (7, 7)])
def test_the_bound_is_clopper_and_pearsons(wrong: int, kept: int) -> None:
    exact = stats.binomtest(wrong, kept, alternative="less").proportion_ci(0.95, method="exact").high
    assert upper_bound(wrong, kept, 0.05) == pytest.approx(exact)


def test_nothing_is_known_of_no_images() -> None:
    assert upper_bound(0, 0, 0.05) == 1


@pytest.mark.parametrize(
    "wrong", [{"alpha": 0.0}, {"delta": 1.0}, {"starts": 0}, {"candidates": np.array([0.1, 0.2]), "starts": 1}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(PochadeError):
        keep_threshold(np.zeros(5), np.ones(5, bool), **({"alpha": 0.1} | wrong))  # type: ignore[arg-type]


def test_scores_and_truths_of_different_images_are_refused() -> None:
    with pytest.raises(PochadeError, match="same images"):
        keep_threshold(np.zeros(5), np.ones(4, bool), alpha=0.1)
