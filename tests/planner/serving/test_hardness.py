"""The hardness score: pure figures, no language model."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.hardness import (
    DEFAULT_WEIGHTS,
    FEATURES,
    HALF,
    QUANTILES,
    InvalidReference,
    PromptFeatures,
    Reference,
    build_reference,
    hardness,
    normalised,
    raw_score,
)

counts = st.integers(0, 10_000)
prompts = st.builds(PromptFeatures, **dict.fromkeys(FEATURES, counts))
scores = st.floats(0, 1)


def some_features(**changed: int) -> PromptFeatures:
    return PromptFeatures(**(dict.fromkeys(FEATURES, 1) | changed))


def a_reference(quantiles: list[float] | None = None) -> Reference:
    rising = [i / (QUANTILES - 1) for i in range(QUANTILES)]
    return Reference(
        version="test/1",
        description="made up",
        n=1000,
        weights=DEFAULT_WEIGHTS,
        quantiles=tuple(rising if quantiles is None else quantiles),
    )


@given(prompts)
def test_every_feature_and_the_score_stay_between_0_and_1(features: PromptFeatures) -> None:
    assert all(0 <= value < 1 for value in normalised(features).values())
    assert 0 <= raw_score(features) < 1


@given(prompts, st.sampled_from(FEATURES))
def test_one_more_of_anything_makes_a_prompt_harder(features: PromptFeatures, name: str) -> None:
    more = dataclasses.replace(features, **{name: getattr(features, name) + 1})
    assert raw_score(more) > raw_score(features)


def test_an_empty_prompt_scores_0_and_half_points_score_half() -> None:
    assert raw_score(PromptFeatures(**dict.fromkeys(FEATURES, 0))) == 0
    at_half = PromptFeatures(**{name: int(half) for name, half in HALF.items()})
    assert raw_score(at_half) == pytest.approx(0.5)


def test_objects_weigh_most_and_every_rule_weighs_something() -> None:
    assert max(DEFAULT_WEIGHTS, key=lambda name: DEFAULT_WEIGHTS[name]) == "num_objects"
    assert set(DEFAULT_WEIGHTS) == set(FEATURES) == set(HALF)
    assert min(DEFAULT_WEIGHTS.values()) > 0


def test_the_score_follows_the_weights_it_is_given_whatever_their_scale() -> None:
    only_verbs = dict.fromkeys(FEATURES, 0.0) | {"action_verbs": 5.0}
    assert raw_score(some_features(action_verbs=1, num_objects=50), only_verbs) == pytest.approx(0.5)
    tenfold = {name: 10 * weight for name, weight in DEFAULT_WEIGHTS.items()}
    assert raw_score(some_features(), tenfold) == pytest.approx(raw_score(some_features()))


@given(scores, scores, st.lists(scores, min_size=QUANTILES, max_size=QUANTILES))
def test_hardness_rises_with_the_score(one: float, other: float, quantiles: list[float]) -> None:
    reference = a_reference(sorted(quantiles))
    low, high = sorted((one, other))
    assert 0 <= hardness(low, reference) <= hardness(high, reference) <= 1


def test_hardness_is_0_below_all_reference_prompts_and_1_above() -> None:
    reference = a_reference([0.2 + 0.006 * i for i in range(QUANTILES)])
    assert hardness(0.1, reference) == 0
    assert hardness(0.9, reference) == 1


def test_hardness_between_two_quantiles_is_linear() -> None:
    assert hardness(0.425, a_reference()) == pytest.approx(0.425)
    assert hardness(0.42, a_reference()) == pytest.approx(0.42)


def test_equal_scores_share_the_middle_of_their_ranks() -> None:
    quantiles = [0.1] * 21 + [0.1 + 0.01 * i for i in range(1, 81)]
    assert hardness(0.1, a_reference(quantiles)) == pytest.approx(0.10)  # ranks 0 .. 20 of 100
    assert hardness(0.5, a_reference([0.5] * QUANTILES)) == 0.5


def test_hardness_on_its_own_prompts_is_spread_evenly() -> None:
    own = [some_features(prompt_length=length) for length in range(1000)]
    reference = build_reference("test/1", "lengths", [raw_score(features) for features in own])
    values = [hardness(raw_score(features), reference) for features in own]
    assert values == pytest.approx([i / 999 for i in range(1000)], abs=0.01)


def test_a_reference_survives_its_own_json() -> None:
    for weights in (DEFAULT_WEIGHTS, {}):  # a learned score has none
        reference = build_reference("test/1", "two", [0.25, 0.5], weights)
        assert Reference.parse(reference.render()) == reference


def test_a_reference_of_no_prompts_is_refused() -> None:
    with pytest.raises(InvalidReference, match="no prompts"):
        build_reference("test/1", "none", [])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"quantiles": [0.1, 0.2]}, "needs 101 quantiles, got 2"),
        ({"quantiles": [0.5] * 100 + [0.4]}, "must rise"),
        ({"quantiles": [0.5] * 100 + [math.nan]}, "must rise"),
        ({"quantiles": None}, "rebuild"),
        ({"weights": {"prompt_length": 1}}, "weights must be of"),
        ({"weights": dict.fromkeys(FEATURES, 0)}, "not all 0"),
        ({"weights": dict.fromkeys(FEATURES, 1) | {"num_objects": -1}}, "not all 0"),
        ({"weights": "heavy"}, "rebuild"),
    ],
)
def test_a_broken_reference_says_what_is_wrong(change: dict[str, object], complaint: str) -> None:
    broken = json.loads(a_reference().render()) | change
    with pytest.raises(InvalidReference, match=complaint):
        Reference.parse(json.dumps(broken))


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "{"])
def test_text_that_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(InvalidReference, match="rebuild"):
        Reference.parse(text)
