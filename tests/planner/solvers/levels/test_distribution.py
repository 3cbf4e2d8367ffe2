"""H(v) from the last thousand prompts."""

from collections import Counter, deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.observation.observation import PROMPTS, class_shares
from planner.solvers.levels.distribution import predicted

CLASSES = ("a", "b", "c", "d", "e", "f")


def distance(h: dict[str, float], truth: dict[str, float]) -> float:
    return float(np.sqrt(sum((h[c] - truth[c]) ** 2 for c in CLASSES)))


def drawn(truth: dict[str, float], n: int, seed: int) -> list[str]:
    return [str(c) for c in np.random.default_rng(seed).choice(CLASSES, n, p=[truth[c] for c in CLASSES])]


TRUTH = dict(zip(CLASSES, (0.3, 0.25, 0.2, 0.15, 0.1, 0.0), strict=True))
OTHER = dict(zip(CLASSES, (0.0, 0.05, 0.1, 0.15, 0.3, 0.4), strict=True))


def test_a_thousand_prompts_tell_the_distribution_within_sampling_noise() -> None:
    """L2 of .04 at most as a rule; ARGUS's .01 is below the noise of a thousand draws (facts/mission-table.md A.7)."""
    errors = [distance(predicted(class_shares(drawn(TRUTH, PROMPTS, seed)), CLASSES), TRUTH) for seed in range(40)]
    assert np.mean(errors) <= 0.03
    assert np.quantile(errors, 0.8) <= 0.04


def test_a_new_mix_is_known_after_a_window_of_prompts() -> None:
    recent = deque(drawn(TRUTH, PROMPTS, 1), maxlen=PROMPTS)
    recent.extend(drawn(OTHER, PROMPTS, 2))
    assert distance(predicted(class_shares(recent), CLASSES), OTHER) <= 0.05


@given(st.dictionaries(st.sampled_from((*CLASSES, "", "unheard of")), st.floats(0, 1)))
def test_no_class_is_impossible_and_all_sum_to_one(seen: dict[str, float]) -> None:
    h = predicted(seen, CLASSES)
    assert tuple(h) == CLASSES
    assert min(h.values()) > 0
    assert sum(h.values()) == pytest.approx(1)


def test_smoothing_moves_a_share_by_no_more_than_it_says() -> None:
    seen = {c: count / PROMPTS for c, count in Counter({"a": 997, "b": 3}).items()}
    h = predicted(seen, CLASSES)
    assert max(abs(h[c] - seen.get(c, 0)) for c in CLASSES) <= len(CLASSES) / (2 * PROMPTS)
    assert h["c"] == pytest.approx(0.5 / 1003)


def test_with_nothing_seen_all_classes_are_alike() -> None:
    assert set(predicted({}, ("a", "b")).values()) == {0.5}
    assert predicted({"": 1.0}, ("a", "b")) == predicted({"a": float("nan")}, ("a", "b")) == {"a": 0.5, "b": 0.5}
