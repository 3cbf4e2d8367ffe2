"""A threshold keeps its promise, in simulation and as a matter of form.

The reference is scipy's exact interval of a share: MAPIE would bring scikit-learn for the same numbers.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from agents.learning.bounds import bounds_of, keep_threshold, upper_bound
from planner.catalog.guarantees import OVERALL, Guarantee, check_guarantees
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


BANDS = (0.0, 0.5, 1.0)


def a_guarantee(rng: np.random.Generator, count: int = 4000, alphas: tuple[float, ...] = (0.2,)) -> Guarantee:
    """Of images whose confidence s is right with probability s in the easier band, and s^2 in the harder."""
    scores, hardness = rng.random(count), rng.random(count)
    right = rng.random(count) < np.where(hardness < 0.5, scores, scores**2)
    known = {"standard": "it is right", "date": "2026-11-29", "alphas": alphas}
    return bounds_of("light", "look", scores, right, hardness, BANDS, **known)  # type: ignore[arg-type]


def test_a_guarantee_holds_overall_and_in_all_bands_together() -> None:
    rng, broken = np.random.default_rng(31), {"overall": 0, "bands": 0}
    for _ in range(200):
        t = {row.band: row.threshold for row in a_guarantee(rng, alphas=(0.3,)).rows}
        assert t.keys() == {OVERALL, 0, 1}  # it is not kept by promising nothing
        easy, hard = (1 + t[0]) / 2, (1 - t[1] ** 3) / 3 / (1 - t[1])  # the true shares right
        both = ((1 - t[OVERALL] ** 2) / 2 + (1 - t[OVERALL] ** 3) / 3) / 2 / (1 - t[OVERALL])
        broken["overall"] += both < 0.7
        broken["bands"] += easy < 0.7 or hard < 0.7
    assert max(broken.values()) <= 10, broken


def test_harder_bands_need_higher_thresholds_and_each_says_what_it_rests_on() -> None:
    found = a_guarantee(np.random.default_rng(32), alphas=(0.2, 0.3))
    check_guarantees([found], "it")
    by = {(row.band, row.alpha): row for row in found.rows}
    assert by[0, 0.2].threshold < by[OVERALL, 0.2].threshold < by[1, 0.2].threshold
    assert by[1, 0.3].threshold < by[1, 0.2].threshold
    assert by[0, 0.2].n + by[1, 0.2].n == by[OVERALL, 0.2].n == found.n == 4000
    assert (found.level, found.discriminator, found.date) == ("light", "look", "2026-11-29")


def test_too_few_images_promise_nothing() -> None:
    assert a_guarantee(np.random.default_rng(33), count=40, alphas=(0.1,)).rows == ()


def test_a_level_without_a_judge_has_the_exact_bound_of_all_its_images() -> None:
    right, hardness = np.arange(1000) % 10 > 0, np.arange(1000) / 1000
    found = bounds_of("heavy", "", None, right, hardness, (0.0, 0.25, 1.0), standard="it is right", date="2026-11-29")
    check_guarantees([found], "it")
    exact = [stats.binomtest(w, n, alternative="less").proportion_ci(1 - d, method="exact").high
             for w, n, d in ((100, 1000, 0.05 / 3), (25, 250, 0.05 / 3), (75, 750, 0.05 / 3))]  # fmt: skip
    assert [row.bound for row in found.rows] == pytest.approx(exact)
    assert [(row.band, row.n, row.kept_share) for row in found.rows] == [(OVERALL, 1000, 1), (0, 250, 1), (1, 750, 1)]


@pytest.mark.parametrize(("judge", "scores"), [("look", None), ("", np.zeros(4)), ("look", np.zeros(5))])
def test_scores_of_other_images_or_of_no_discriminator_are_refused(judge: str, scores: np.ndarray | None) -> None:
    with pytest.raises(PochadeError):
        bounds_of("light", judge, scores, np.ones(4, bool), np.zeros(4), BANDS, standard="", date="2026-11-29")
