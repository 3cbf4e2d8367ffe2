"""The hybrid: chosen on calibration prompts, a function of one prompt's scores."""

import numpy as np
import pytest

from agents.lab.evaluation.statistics.hybrid import Hybrid, choose_hybrid
from agents.learning.recovery import overall_recovery
from schemas.errors import PochadeError


def prompts(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    light = (np.random.default_rng(seed).random(count) < 0.6).astype(float)
    return light, np.ones(count)


def noisy(light: np.ndarray, noise: float, seed: int) -> np.ndarray:
    return light + np.random.default_rng(seed).normal(0, noise, len(light))


def test_the_rankers_best_on_the_calibration_prompts_are_chosen() -> None:
    light, heavy = prompts(500, 1)
    hybrid = choose_hybrid(
        {"poor": noisy(light, 3, 1), "good": noisy(light, 0.5, 2)},
        {"good": noisy(light, 0.5, 3), "poor": noisy(light, 3, 4)},
        light,
        heavy,
    )
    assert (hybrid.prompt, hybrid.image) == ("good", "good")


def test_a_ranker_without_merit_figures_does_not_win_over_one_that_has_them() -> None:
    light, _ = prompts(50, 1)
    hybrid = choose_hybrid({"first": light, "second": light}, {"one": light}, light, light)  # nothing to gain: all nan
    assert hybrid.prompt == "first"


def test_mean_rank_of_independent_rankers_recovers_more_than_either() -> None:
    light, heavy = prompts(2000, 5)
    prompt, image = noisy(light, 1, 6), noisy(light, 1, 7)
    hybrid = choose_hybrid({"p": prompt[:1000]}, {"i": image[:1000]}, light[:1000], heavy[:1000])
    fresh = slice(1000, None)
    both = overall_recovery(hybrid.scores(prompt[fresh], image[fresh]), light[fresh], heavy[fresh])
    alone = max(overall_recovery(s[fresh], light[fresh], heavy[fresh]) for s in (prompt, image))
    assert both > alone + 0.02


def test_a_score_does_not_depend_on_the_other_prompts() -> None:
    light, heavy = prompts(100, 8)
    prompt, image = noisy(light, 1, 9), noisy(light, 1, 10)
    hybrid = choose_hybrid({"p": prompt}, {"i": image}, light, heavy)
    every = hybrid.scores(prompt, image)
    assert hybrid.scores(prompt[:3], image[:3]) == pytest.approx(every[:3])


def test_ranks_are_quantiles_of_the_calibration_scores_whatever_their_scale() -> None:
    scale = np.array([3.0, 1.0, 2.0, 2.0])
    hybrid = Hybrid(prompt="p", image="i", prompt_scale=scale, image_scale=scale * 100, weight=0.25)
    got = hybrid.scores(np.array([1.0, 2.0, 3.0, -9.0, 9.0]), np.array([100.0, 200.0, 300.0, -9e9, 9e9]))
    assert got == pytest.approx([0.125, 0.5, 0.875, 0.125, 0.875])


def test_the_weight_is_the_prompts_part() -> None:
    scale = np.arange(10.0)
    hybrid = Hybrid(prompt="p", image="i", prompt_scale=scale, image_scale=scale, weight=1.0)
    assert hybrid.scores(np.array([2.0]), np.array([9.0])) == pytest.approx([0.25])


def test_a_hybrid_needs_a_ranker_of_each_kind() -> None:
    light, heavy = prompts(10, 1)
    with pytest.raises(PochadeError, match="of each kind"):
        choose_hybrid({}, {"i": light}, light, heavy)
