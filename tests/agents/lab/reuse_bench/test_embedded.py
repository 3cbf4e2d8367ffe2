"""The caption of the tiny world in a prompt of other words."""

import pytest

from agents.lab.reuse_bench.embedded import find_caption


@pytest.mark.parametrize(
    "prompt", ["a red heart", "masterpiece by wlop, a red heart", "A RED HEART, highly detailed, of a dream"]
)
def test_a_caption_is_found_amid_other_clauses(prompt: str) -> None:
    found = find_caption(prompt)
    assert found is not None
    assert [(each.shape, each.colour) for each in found.objects] == [("heart", "red")]


@pytest.mark.parametrize(
    "prompt",
    ["the king of spain", "a red heart, a blue dragon", "a red heart, without him", ", ".join("abcdefghijklm")],
)
def test_none_is_found_where_other_clauses_may_state_more(prompt: str) -> None:
    assert find_caption(prompt) is None
