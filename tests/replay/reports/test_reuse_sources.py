"""The earlier image that a reused one began from is found by what its result states."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from agents.reuse.prompt_key import open_key
from replay.reports.reuse_sources import CHILD, embedder, has_stored, sources_of
from schemas.errors import PochadeError
from schemas.messages import LatentRef, Plan, Result, StageReuse
from tests.builders import a_plan, a_reuse_plan
from tests.replay.runs import a_result, a_step

LATENT = LatentRef(uri="memory:1", sha256="0" * 64, bytes=9, autoencoder="a")
VECTORS = {"a red heart": (1.0, 0.0), "a red star": (0.8, 0.6), "a blue fish": (0.0, 1.0)}
PLANS = (a_plan(reuse=a_reuse_plan()),)


def embed(prompts: Sequence[str]) -> np.ndarray:
    return np.array([VECTORS[prompt] for prompt in prompts])


def stored(name: str, prompt: str, at_ms: int, **changes: Any) -> Result:
    return a_result(a_step(latent=LATENT, reuse=StageReuse(steps=8, miss="none"), **changes), request_id=name,
                    prompt=prompt, latency_ms=at_ms)  # fmt: skip


def reused(name: str, prompt: str, similarity: float, at_ms: int) -> Result:
    begun = StageReuse(step=2, steps=8, similarity=similarity)
    return a_result(a_step(reuse=begun, generate_ms=20), request_id=name, prompt=prompt, latency_ms=at_ms)


def found(result: Result, *earlier: Result, plans: Sequence[Plan] = PLANS) -> str | None:
    source = sources_of([result], [result, *earlier], plans, embed).get(result.request_id)
    return source.request_id if source else None


def test_the_source_is_the_earlier_image_whose_prompt_has_the_stated_similarity() -> None:
    earlier = stored("heart", "a red heart", 10), stored("fish", "a blue fish", 20)
    assert found(reused("r", "a red star", 0.8, 100), *earlier) == "heart"
    assert found(reused("r", "a red star", 0.6, 100), *earlier) == "fish"


def test_where_no_prompt_has_the_stated_similarity_no_source_is_claimed() -> None:
    assert found(reused("r", "a red star", 0.7, 100), stored("heart", "a red heart", 10)) is None
    assert found(reused("r", "a red star", 0.8, 100)) is None


def test_an_image_that_came_later_was_not_stored_or_began_from_one_itself_is_no_source() -> None:
    late = stored("late", "a red heart", 90)
    unstored = a_result(a_step(), request_id="unstored", prompt="a red heart", latency_ms=10)
    assert found(reused("r", "a red star", 0.8, 100), late, unstored) is None
    assert not has_stored(reused("r", "a red star", 0.8, 100))


def test_of_equal_prompts_the_newest_is_shown_and_their_number_is_told() -> None:
    result = reused("r", "a red heart", 1.0, 100)
    earlier = [stored("one", "a red heart", 10), stored("two", "a red heart", 20), stored("fish", "a blue fish", 30)]
    source = sources_of([result], earlier, PLANS, embed)["r"]
    assert (source.request_id, source.prompt, source.among) == ("two", "a red heart", 2)


def test_nothing_is_embedded_for_a_run_that_reused_nothing() -> None:
    def fails(_: Sequence[str]) -> np.ndarray:
        raise AssertionError("there is nothing to embed")

    assert sources_of([stored("one", "a red heart", 10)], [], PLANS, fails) == {}


def test_prompts_are_embedded_as_the_workers_do() -> None:
    prompts = ["a red heart", "two blue fish"]
    assert np.allclose(embedder("words")(prompts), open_key("words").embed(prompts))
    assert "open_key" in CHILD


def test_an_encoder_that_nobody_knows_is_reported() -> None:
    with pytest.raises(PochadeError, match=r"sources of reused images cannot be found.*unknown encoder"):
        embedder("nonsense")(["a red heart"])
