"""What is served at all, and what is still in time."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.admission.admission import check_request, meant_deadline
from planner.serving.deadlines import can_meet, predicted_finish_ms
from schemas.errors import InvalidRequest
from schemas.messages import GenerateOptions
from tests.builders import NOW_MS, a_request


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"prompt": "é" * 50},
        {"seed": 0},
        {"seed": 2**63 - 1},
        {"deadline_ms": 1},
        {"prompt": " x\n"},
        {"options": GenerateOptions(negative_prompt=None)},  # type: ignore[arg-type]  # as a text option that states nothing
    ],
)
def test_requests_that_can_be_served_pass(changes: dict[str, Any]) -> None:
    check_request(a_request(**changes), 100, NOW_MS)


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"prompt": ""}, "prompt must not be empty"),
        ({"prompt": " \t\n "}, "prompt must not be empty"),
        ({"prompt": "\u200b \u200d\ufeff"}, "prompt must not be empty"),
        ({"prompt": "\u2800\u3164\ufe0f"}, "prompt must not be empty"),
        ({"options": GenerateOptions(image="x" * 90, model="y" * 20)}, "image must be the URI of an image"),
        ({"options": GenerateOptions(negative_prompt="x" * 90, model="y" * 20)}, "got 117; shorten negative_prompt"),
        ({"prompt": "é" * 51}, "at most 100 bytes of UTF-8: got 102; shorten it"),
        ({"prompt": "a\0b"}, "NUL: got one at position 1; remove it"),
        ({"prompt": "\ud800"}, "valid Unicode"),
        ({"seed": -1}, r"seed must be in \[0, 2\*\*63\): got -1"),
        ({"seed": 2**63}, "seed must be"),
        ({"created_ms": NOW_MS * 1000}, "created_ms must be epoch milliseconds"),
    ],
)
def test_what_can_never_be_served_is_refused_with_the_request_named(changes: dict[str, Any], reported: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{reported}.*request r-1"):
        check_request(a_request(**changes), 100, NOW_MS)


@pytest.mark.parametrize("prompt", ["\u2665\ufe0f", "a\u200b", "\u0e33", "\U0001f468\u200d\U0001f469"])
def test_a_prompt_with_one_character_that_shows_is_served(prompt: str) -> None:
    check_request(a_request(prompt=prompt), 100, NOW_MS)


@pytest.mark.parametrize(
    ("deadline_ms", "meant"),
    [
        (5000, "deadline_in_ms 5000?"),
        (NOW_MS // 1000 + 60, f"seconds since 1970: did you mean {(NOW_MS // 1000 + 60) * 1000}"),
        (NOW_MS * 1000, f"microseconds since 1970: did you mean {NOW_MS}"),
        (NOW_MS - 1, ""),
        (NOW_MS + 60_000, ""),
        (0, ""),
        (-5, ""),
    ],
)
def test_a_deadline_in_another_unit_is_recognised(deadline_ms: int, meant: str) -> None:
    said = meant_deadline(deadline_ms, NOW_MS)
    assert meant in said
    assert bool(said) == bool(meant)


@given(st.text(min_size=1, max_size=300))
def test_any_text_is_served_or_refused_never_an_error_of_another_kind(prompt: str) -> None:
    try:
        check_request(a_request(prompt=prompt), 100, NOW_MS)
    except InvalidRequest:
        return
    assert 0 < len(prompt.encode()) <= 100


def test_a_finish_at_the_deadline_is_in_time() -> None:
    finish_ms = predicted_finish_ms(NOW_MS, 30, 20)
    assert can_meet(NOW_MS + 50, finish_ms)
    assert not can_meet(NOW_MS + 49, finish_ms)
    assert can_meet(None, predicted_finish_ms(NOW_MS, math.inf, 20))
    assert not can_meet(2**62, predicted_finish_ms(NOW_MS, math.inf, 20))


@pytest.mark.parametrize("request_id", ["", "x" * 201])
def test_an_id_that_many_would_share_or_no_key_could_hold_is_refused(request_id: str) -> None:
    with pytest.raises(InvalidRequest, match="request_id must have 1 to 200 characters"):
        check_request(a_request(request_id=request_id), 1000, NOW_MS)


def test_a_tenant_of_more_characters_than_an_id_may_have_is_refused() -> None:
    check_request(a_request(tenant="x" * 200), 1000, NOW_MS)
    with pytest.raises(InvalidRequest, match="tenant must have at most 200 characters: got 5000") as refusal:
        check_request(a_request(tenant="x" * 5000), 10_000, NOW_MS)
    assert refusal.value.field == "tenant"


def test_a_creation_time_before_the_epoch_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="created_ms"):
        check_request(a_request(created_ms=-1), 1000, NOW_MS)


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant": "x" * 101},
        {"options": GenerateOptions(negative_prompt="é" * 51)},
        {"options": GenerateOptions(model="x" * 50, adapters=("y" * 30, "z" * 20), controls=("c",))},
    ],
)
def test_what_travels_beside_the_prompt_is_bounded_too(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="at most 100 bytes of UTF-8 together"):
        check_request(a_request(**changes), 100, NOW_MS)


def test_a_deadline_beyond_what_the_ledger_remembers_is_refused() -> None:
    # ten days ahead: completed at once, forgotten after eight days, and ended a second time at its deadline
    check_request(a_request(deadline_ms=NOW_MS + 5000), 1000, NOW_MS, 5)
    check_request(a_request(deadline_ms=NOW_MS - 1), 1000, NOW_MS, 5)
    with pytest.raises(InvalidRequest, match="at most 5 s ahead"):
        check_request(a_request(deadline_ms=NOW_MS + 5001), 1000, NOW_MS, 5)
