"""The deferral curve as traffic shows it."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog.entries import shares_below
from planner.observation.deferral import observed_deferral


def test_a_thousand_images_tell_another_distribution_to_within_a_twentieth() -> None:
    dice = random.Random(1)
    scores = [(dice.random(), dice.betavariate(2, 5)) for _ in range(1000)]
    (curve,) = observed_deferral("light", "look", scores).curves
    assert curve is not None
    sample = [dice.betavariate(2, 5) for _ in range(10_000)]
    for threshold in (0.1, 0.2, 0.3, 0.4, 0.6):
        truth = sum(confidence < threshold for confidence in sample) / len(sample)
        assert shares_below(curve, (threshold,))[0] == pytest.approx(truth, abs=0.05)


def test_bands_are_distinguished_so_that_routing_hard_prompts_elsewhere_changes_no_curve() -> None:
    easy, hard = [(0.1, 0.9)] * 150, [(0.9, 0.1)] * 150
    whole = observed_deferral("light", "look", easy + hard, (0.0, 0.5, 1.0))
    routed = observed_deferral("light", "look", easy, (0.0, 0.5, 1.0))
    assert whole.curves[0] == routed.curves[0]
    assert routed.curves[1] is None


def test_a_bound_belongs_to_the_band_above_it_and_one_to_the_last() -> None:
    seen = observed_deferral("light", "look", [(0.5, 0.2), (1.0, 0.2)], (0.0, 0.5, 1.0), enough=2)
    assert seen.curves[0] is None
    assert seen.curves[1] is not None


def test_scores_that_are_no_numbers_in_range_are_ignored_and_counted() -> None:
    bad = [(0.5, math.nan), (math.nan, 0.5), (0.5, 1.2), (-0.1, 0.5)]
    seen = observed_deferral("light", "look", bad + [(0.5, 0.5)] * 3, enough=3)
    assert (seen.images, seen.ignored) == (3, 4)
    assert seen.curves[0] is not None


def test_too_few_images_tell_nothing() -> None:
    assert observed_deferral("light", "look", [(0.5, 0.5)] * 99).curves == (None,)
    assert observed_deferral("light", "look", [], enough=0).curves == (None,)


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0, 0.97))
def test_a_seen_curve_rises_and_agrees_with_the_images(confidences: list[float], threshold: float) -> None:
    (curve,) = observed_deferral("light", "look", [(0.5, c) for c in confidences], enough=1).curves
    assert curve is not None
    assert list(curve) == sorted(curve)
    (share,) = shares_below(curve, (threshold,))
    least, most = (sum(c < t for c in confidences) / len(confidences) for t in (threshold - 0.01, threshold + 0.01))
    assert least - 1e-9 <= share <= most + 1e-9
