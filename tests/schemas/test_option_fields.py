"""The declaration of an option: each limit is checked at every door, or refused where it is declared."""

import dataclasses
from typing import Any

import pytest

from planner.catalog import option_limits
from planner.catalog.option_limits import check_options
from schemas.errors import InvalidRequest
from schemas.json_types import properties_of
from schemas.messages import GenerateOptions, GenerateRequest
from schemas.option_fields import option, options_of
from tests.schemas.option_table import _values


def declares(hint: Any, default: Any, **about: Any) -> type:
    return dataclasses.make_dataclass("Mine", [("mine", hint, option(default, "Help.", **about))])


def a_request(**options: Any) -> GenerateRequest:
    return GenerateRequest(request_id="r-1", prompt="a red heart", created_ms=1, options=GenerateOptions(**options))


@pytest.mark.parametrize(
    ("hint", "default", "limits", "message"),
    [
        (str, "", {"high": 40}, "option mine: .* limit numbers; longest limits a text"),
        (str, "", {"low": 0, "high": 40}, "limit numbers"),
        (tuple[str, ...], (), {"high": 40}, "limit numbers"),
        (str, "", {"multiple_of": 8}, "limit numbers"),
        (bool, False, {"low": 0, "high": 1}, "limit numbers"),
        (int | None, None, {"high": 40}, "low with high"),
        (float, 0.0, {"low": 0}, "low with high"),
        (int, 1, {"longest": 40}, "longest limits texts of any words: got 40"),
        (str, "", {"longest": 40, "words": ("a", "b")}, "longest limits texts of any words"),
    ],
)
def test_a_limit_that_the_type_cannot_have_is_refused_where_it_is_declared(
    hint: Any, default: Any, limits: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        options_of(declares(hint, default, **limits))


def test_a_text_longer_than_declared_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = options_of(declares(str, "", longest=5))["mine"]
    monkeypatch.setattr(option_limits, "LIMITED", (("negative_prompt", declared),))
    monkeypatch.setattr(option_limits, "values_of_limited", lambda options: (options.negative_prompt,))
    check_options(a_request(negative_prompt="\u00e9" * 5), 8)
    with pytest.raises(InvalidRequest, match="must have at most 5 characters: got 6; shorten it") as refused:
        check_options(a_request(negative_prompt="a" * 6), 8)
    assert refused.value.field == "negative_prompt"


def test_each_text_of_a_list_is_held_to_the_length_and_not_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = options_of(declares(tuple[str, ...], (), longest=5))["mine"]
    monkeypatch.setattr(option_limits, "LIMITED", (("adapters", declared),))
    monkeypatch.setattr(option_limits, "values_of_limited", lambda options: (options.adapters,))
    check_options(a_request(adapters=("candy", "poster"[:5])), 8)
    with pytest.raises(InvalidRequest, match="adapters must have at most 5 characters: got 6"):
        check_options(a_request(adapters=("candy", "poster")), 8)


def test_the_length_of_a_text_is_in_the_schema_and_in_the_table() -> None:
    one, several = declares(str, "", longest=40), declares(tuple[str, ...], (), longest=40)
    assert properties_of(one)["mine"]["maxLength"] == 40
    assert properties_of(several)["mine"]["items"] == {"type": "string", "maxLength": 40}
    assert _values(options_of(one)["mine"]) == "text, at most 40 characters"
    assert _values(options_of(several)["mine"]) == "list: text, at most 40 characters"
