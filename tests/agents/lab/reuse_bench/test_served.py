"""Figures of a stream: saved steps, hits, misses, and what is lost against the same seeds without reuse."""

from typing import Any

import numpy as np
import pytest

from agents.lab.profiling.reuse.observed import Marks
from agents.lab.reuse_bench.served import NO_FIGURES, Served, figures, misses_of
from schemas.messages import StageReuse

FULL = StageReuse(steps=8, miss="floor")


def hit(step: int = 4, similarity: float = 0.9) -> StageReuse:
    return StageReuse(step=step, steps=8, similarity=similarity)


def marks(*quality: float) -> Marks:
    return Marks(np.array(quality), np.array(quality))


def served(prompts: str, reuse: list[StageReuse], **changes: Any) -> Served:
    values: dict[str, Any] = {"begun": marks(), "noise": marks(), "fewer": marks(), "misses": misses_of(reuse)}
    return Served(prompts=tuple(prompts), reuse=tuple(reuse), **(values | changes))


def test_steps_that_exact_repeats_save_are_counted_apart() -> None:
    ones = marks(1, 1)
    stream = served("abac", [FULL, FULL, hit(6, 1.0), hit(4)], begun=ones, noise=ones, fewer=ones)
    found = figures(stream, seed=1)
    assert found["saved_steps_share"] == pytest.approx(4 / 8 / 4)
    assert found["saved_exact_share"] == pytest.approx(6 / 8 / 4)
    assert (found["hit_rate"], found["exact_hit_rate"], found["exact_share"]) == (0.5, 0.25, 0.25)


def test_a_repeat_that_began_from_another_prompt_is_no_exact_hit() -> None:
    one = marks(1)
    stream = served("aa", [FULL, hit(4, 0.93)], begun=one, noise=one, fewer=one)
    assert figures(stream, seed=1)["exact_hit_rate"] == 0.0


def test_misses_are_counted_by_reason() -> None:
    reasons = [FULL, StageReuse(steps=8, miss="guard"), FULL]
    assert figures(served("abc", reasons), seed=1)["misses"] == {"floor": 2, "guard": 1}


def test_what_hits_lose_is_told_over_all_requests() -> None:
    stream = served("abcd", [FULL, FULL, FULL, hit()], begun=marks(0), noise=marks(1), fewer=marks(1))
    found = figures(stream, seed=1)
    assert found["quality_delta"]["value"] == -0.25
    assert found["facts_delta"]["value"] == -0.25
    low, high = found["quality_delta"]["ci"]
    assert low < -0.25 < high
    assert found["against_fewer_steps"]["value"] == -1.0


def test_a_few_images_without_a_loss_prove_little() -> None:
    one = marks(1)
    found = figures(served("abcd", [FULL, FULL, FULL, hit()], begun=one, noise=one, fewer=one), seed=1)
    for name in ("quality_delta", "facts_delta"):
        assert found[name]["value"] == 0.0
        assert found[name]["ci"][0] < -0.3, name


def test_hits_that_nobody_can_judge_are_counted_and_left_out() -> None:
    unknown = marks(np.nan)
    found = figures(served("ab", [FULL, hit()], begun=unknown, noise=unknown, fewer=unknown), seed=1)
    assert found["unjudged_hits"] == 1
    assert found["quality_delta"]["requests"] == 1
    assert found["against_fewer_steps"]["value"] is None
    assert found["against_fewer_steps"]["ci"] is None


def test_nothing_is_held_against_fewer_steps_where_they_cannot_be_set() -> None:
    one = marks(1)
    assert figures(served("ab", [FULL, hit()], begun=one, noise=one, fewer=None), seed=1)["against_fewer_steps"] is None


def test_a_bench_without_a_stream_has_the_same_keys_with_nothing_in_them() -> None:
    assert NO_FIGURES.keys() == figures(served("a", [FULL]), seed=1).keys()
    assert set(NO_FIGURES.values()) == {None}
