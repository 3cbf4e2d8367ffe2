"""The swept table in a profile: what is read back, what is refused, and which of its rows a catalog plans with."""

import json
from typing import Any

import pytest

from planner.catalog.curves import PairRow
from planner.catalog.evidence import with_profile
from planner.catalog.profile import parse
from planner.catalog.validate import InvalidCatalog
from schemas.errors import Unknown
from tests.builders import a_catalog
from tests.planner.catalog.test_profiles import a_profile_file

ROW: dict[str, Any] = {
    "light": "light", "heavy": "heavy", "router_ratio": 0.3, "disc_ratio": 0.5, "latency_ms": 90.0, "quality": 0.95,
    "hardness": 0.7, "threshold": 0.4, "paint_over_step": 10, "quality_by_band": [0.99, 0.91], "low": 0.94,
    "high": 0.96, "prompts": 20,
}  # fmt: skip


def a_table(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    table = {"version": 1, "created": "today", "command": "pochade profile cascades", "prompts": 100, "resamples": 1000,
             "seed": 1, "sure": 1.0, "optimism": 0.002, "rows": list(rows or [ROW])}  # fmt: skip
    return a_profile_file(settings=table | changes)


def test_a_row_comes_back_with_what_it_rests_on() -> None:
    table = parse(json.dumps(a_table()), "tiny.json").settings
    assert table
    ((row, low, high, prompts),) = table.rows
    assert row == PairRow("light", "heavy", 0.3, 0.5, 90.0, 0.95, 0.7, 0.4, 10, (0.99, 0.91))
    assert (low, high, prompts) == (0.94, 0.96, 20)
    assert table.optimism == 0.002


def test_a_profile_without_a_table_is_one() -> None:
    profile = parse(json.dumps(a_profile_file()), "tiny.json")
    assert profile.settings is None
    assert with_profile(a_catalog(), profile).pair_rows == ()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"version": 2}, r"settings: version must be 1: got 2; sweep again"),
        ({"rows": [ROW | {"router_ratio": 1.5}]}, r"router_ratio must be in \[0, 1\]: got 1.5"),
        ({"rows": [ROW | {"quality_by_band": [0.9]}]}, r"rows?.*quality_by_band must be of 2 bands|must be of 2 bands"),
        ({"rows": [ROW | {"quality_by_band": [0.9, []]}]}, r"quality_by_band must be a number"),
        ({"rows": [ROW | {"quality_by_band": [0.9, float("nan")]}]}, r"quality must be finite"),
        ({"rows": [ROW | {"paint_over_step": -1}]}, r"paint_over_step must be >= 0: got -1"),
        ({"rows": [{k: v for k, v in ROW.items() if k != "low"}]}, r"\[0\]: low must be a number: got None"),
    ],
)
def test_a_broken_table_is_told_by_its_field(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidCatalog, match=told):
        parse(json.dumps(a_table(**changes)), "tiny.json")


def test_a_key_that_is_not_known_is_refused() -> None:
    with pytest.raises(Unknown, match="prompts"):
        parse(json.dumps(a_table(ROW | {"promts": 3})), "tiny.json")


def test_a_catalog_plans_with_the_rows_of_the_cascades_it_offers_from_steps_that_there_are() -> None:
    rows = [ROW, ROW | {"paint_over_step": 25}, ROW | {"light": "heavy", "heavy": "light"}]
    catalog = with_profile(a_catalog(), parse(json.dumps(a_table(*rows)), "tiny.json"))
    assert [row.paint_over_step for row in catalog.pair_rows] == [10]  # heavy has 25 steps


def test_a_catalog_s_own_rows_come_before_those_of_its_profile() -> None:
    own = (PairRow("light", "heavy", 0.0, 0.0, 20.0, 0.8),)
    assert with_profile(a_catalog(pair_rows=own), parse(json.dumps(a_table()), "tiny.json")).pair_rows == own
