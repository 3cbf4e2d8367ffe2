"""Prompts that come back, as those of people do."""

import statistics

from agents.lab.world import captions
from replay.load.prompts import builtin_prompts
from replay.load.returning import EDITED, GAPS, REPEATED, Coming, returning_prompts

MANY = 4000


def differing(one: str, other: str) -> int:
    """Number of words that differ at their places."""
    mine, theirs = one.split(), other.split()
    return abs(len(mine) - len(theirs)) + sum(a != b for a, b in zip(mine, theirs, strict=False))


def kinds(drawn: list[Coming]) -> tuple[list[int], list[int]]:
    """The numbers of the prompts that repeat an earlier one, and of those that change a word of one."""
    back = [at for at, each in enumerate(drawn) if each.source is not None]
    repeats = [at for at in back if drawn[at].prompt == drawn[drawn[at].source or 0].prompt]
    return repeats, sorted(set(back) - set(repeats))


def test_the_shares_that_repeat_and_that_change_one_word_are_as_wanted() -> None:
    drawn = returning_prompts(MANY, seed=3)
    repeats, edits = kinds(drawn)
    assert abs(len(repeats) / MANY - REPEATED) < 0.02
    assert abs(len(edits) / MANY - EDITED) < 0.03
    assert {differing(drawn[at].prompt, drawn[drawn[at].source or 0].prompt) for at in edits} == {1}


def test_the_earlier_prompt_is_a_few_requests_back() -> None:
    gaps = [at - each.source for at, each in enumerate(returning_prompts(MANY)) if each.source is not None]
    assert set(gaps) == set(GAPS)
    assert 5 <= statistics.median(gaps) <= 8


def test_every_changed_prompt_is_an_image_that_the_tiny_world_can_generate() -> None:
    wrong = {
        each.prompt for seed in range(20) for each in returning_prompts(240, seed) if not captions.parse(each.prompt)
    }
    assert wrong == set()


def test_new_prompts_are_ours_and_the_stream_belongs_to_its_seed() -> None:
    drawn = returning_prompts(50, seed=1)
    assert {each.prompt for each in drawn if each.source is None} <= set(builtin_prompts(1000))
    assert returning_prompts(50, seed=1) == drawn
    assert returning_prompts(50, seed=2) != drawn
    assert returning_prompts(0) == []
