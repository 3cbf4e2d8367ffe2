"""The vectors by which prompts are compared."""

import pathlib

import numpy as np
import pytest

from agents.reuse.prompt_key import KEYS, ScorerKey, open_key
from planner.reuse.terms import LIVE_KEYS
from schemas.errors import PochadeError, Unknown
from streams.vectors.keys import ENCODERS, digest_of

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", sorted(KEYS))
def test_any_text_has_a_vector_of_unit_length_the_same_each_time(name: str) -> None:
    key, prompts = open_key(name), ["a red heart", "two blue stars", "", "\u2603 \u00e9", "x" * 9000]
    vectors = key.embed(prompts)
    assert (vectors.shape, vectors.dtype) == ((5, key.dimension), np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_allclose(open_key(name).embed(prompts[:1])[0], vectors[0], atol=1e-5)


@pytest.mark.parametrize("name", sorted(KEYS))
def test_the_digest_is_known_without_loading_a_model_and_is_the_loaded_ones(name: str) -> None:
    assert digest_of(name) == open_key(name).digest


def test_prompts_that_ask_for_the_like_lie_nearer_than_others() -> None:
    key = open_key("")
    near, other, far = key.embed(["a red heart above a star", "a red heart over a star", "five green trees"])
    assert near @ other > near @ far


def test_an_unknown_encoder_is_refused_with_the_known_ones(tmp_path: pathlib.Path) -> None:
    with pytest.raises(Unknown, match=r"'scorre': did you mean 'scorer'\? known are scorer, words"):
        open_key("scorre")
    with pytest.raises(PochadeError, match=r"holds no config\.json"):
        ScorerKey(tmp_path)


def test_plans_are_checked_by_the_names_of_the_encoders_that_there_are() -> None:
    assert set(KEYS) == set(ENCODERS) == set(LIVE_KEYS)
