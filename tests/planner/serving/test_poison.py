"""Which requests are refused after one has ended its workers."""

import dataclasses

import pytest

from planner.serving.poison import MAX_MARKS, REMEMBERED_MS, PoisonMarks, mark_of
from schemas.messages import GenerateOptions
from tests.builders import a_request

KILLER = a_request(request_id="killer", prompt="!exit", seed=1)


def marks(*, at_ms: float = 0) -> PoisonMarks:
    known = PoisonMarks()
    known.add("killer", mark_of(KILLER), at_ms)
    return known


@pytest.mark.parametrize(
    "change", [{}, {"request_id": "other"}, {"seed": 2}, {"tier": "batch"}, {"deadline_ms": 5}, {"created_ms": 7}]
)
def test_a_request_of_the_same_tenant_prompt_and_options_is_refused_whatever_else_it_says(
    change: dict[str, int],
) -> None:
    assert marks().equal_to(dataclasses.replace(KILLER, **change), 0) == "killer"


@pytest.mark.parametrize("change", [{"tenant": "other"}, {"prompt": "!exi"}, {"options": GenerateOptions(steps=3)}])
def test_a_request_of_another_tenant_prompt_or_options_is_served(change: dict[str, object]) -> None:
    assert marks().equal_to(dataclasses.replace(KILLER, **change), 0) is None


def test_a_mark_holds_for_an_hour() -> None:
    known = marks(at_ms=1000)
    assert known.equal_to(KILLER, 1000 + REMEMBERED_MS - 1) == "killer"
    assert known.equal_to(KILLER, 1000 + REMEMBERED_MS) is None


def test_a_mark_that_is_removed_refuses_no_request_any_more() -> None:
    known = marks()
    known.remove("killer")
    known.remove("unknown")
    assert known.equal_to(KILLER, 0) is None


def test_the_oldest_mark_leaves_where_there_are_too_many() -> None:
    known = marks()
    for number in range(MAX_MARKS):
        assert known.equal_to(KILLER, 0) == "killer"
        known.add(f"r-{number}", mark_of(a_request(prompt=f"prompt {number}")), 0)
    assert known.equal_to(KILLER, 0) is None


def test_a_mark_keeps_no_text_and_two_marks_of_one_request_cannot_be_compared() -> None:
    first, second = mark_of(KILLER), mark_of(KILLER)
    assert first.digest != second.digest
    assert KILLER.prompt not in repr(first)
