"""What is promised of images is read, looked up by the next stricter rung, and refused where it is impossible."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from planner.catalog.guarantees import OVERALL, Guarantee, Promise, check_guarantees
from planner.catalog.validate import InvalidCatalog
from schemas.errors import Unknown
from streams.parsing import guarantees as guarantees_text


def a_row(alpha: float, threshold: float = 0.5, band: int = 0, **more: Any) -> Promise:
    return Promise(band=band, alpha=alpha, threshold=threshold, bound=alpha, **({"kept_share": 0.4, "n": 900} | more))


def a_guarantee(*rows: Promise, **more: Any) -> Guarantee:
    known: dict[str, Any] = {
        "level": "light", "discriminator": "look", "delta": 0.05, "n": 1000, "date": "2026-11-29",
        "standard": "all stated facts hold", "bounds": (0.0, 0.5, 1.0), "rows": rows,
    }  # fmt: skip
    return Guarantee(**(known | more))


LADDER = a_guarantee(a_row(0.1, 0.9), a_row(0.2, 0.7), a_row(0.3, 0.4), a_row(0.3, 0.6, band=1))


def test_a_share_between_two_rungs_has_the_stricter_one() -> None:
    found = [LADDER.at_most(alpha, band=0) for alpha in (0.09, 0.1, 0.15, 0.2, 0.99)]
    assert [row and row.threshold for row in found] == [None, 0.9, 0.9, 0.7, 0.4]


def test_a_band_has_its_own_rows_and_hardness_says_which() -> None:
    assert LADDER.at_most(0.2, band=1) is None
    assert LADDER.at_most(0.2, band=OVERALL) is None
    assert [LADDER.band(hardness) for hardness in (0.0, 0.49, 0.5, 1.0)] == [0, 0, 1, 1]


def test_what_a_threshold_keeps_has_the_strictest_promise_whose_threshold_it_reaches() -> None:
    found = [LADDER.best(0, threshold) for threshold in (0.39, 0.4, 0.75, 0.95, 1.0)]
    assert [row and row.alpha for row in found] == [None, 0.3, 0.2, 0.1, 0.1]


def test_a_profile_s_guarantees_are_read_back_as_they_were_written() -> None:
    text = json.dumps({"levels": {}, "guarantees": [asdict(LADDER)]})
    assert guarantees_text.parse(text, "it.json") == (LADDER,)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', "[" * 10_000])
def test_a_text_without_guarantees_has_none(text: str) -> None:
    assert guarantees_text.parse(text, "it.json") == ()


def test_a_misspelt_key_is_named() -> None:
    table = asdict(LADDER)
    table["standart"] = table.pop("standard")
    with pytest.raises(Unknown, match="standard"):
        guarantees_text.parse(json.dumps({"guarantees": [table]}), "it.json")


@pytest.mark.parametrize(
    "wrong",
    [
        {"delta": 0.0}, {"date": "today"}, {"bounds": (0.0, 0.9)}, {"rows": (a_row(0.1, 1.2),)},
        {"rows": (a_row(0.1, band=2),)}, {"rows": (replace(a_row(0.1), bound=0.2),)}, {"rows": (a_row(0.1, n=1001),)},
    ],
)  # fmt: skip
def test_an_impossible_guarantee_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidCatalog):
        check_guarantees([a_guarantee(**wrong)], "profile it")


def test_a_level_and_discriminator_have_one_guarantee() -> None:
    with pytest.raises(InvalidCatalog, match="one of each"):
        check_guarantees([LADDER, LADDER], "profile it")
