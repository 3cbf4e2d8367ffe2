"""Profiles: what was measured comes back as values, and a broken file is reported by file and field."""

import json
from typing import Any

import numpy as np
import pytest

from planner.catalog.curves import PairRow
from planner.catalog.evidence.joining import with_profile
from planner.catalog.measured import Start
from planner.catalog.profile import FORMAT, Profile
from planner.catalog.prompt_table import prompt_table
from planner.catalog.validate import InvalidCatalog
from planner.reuse.terms import Difference, Floor, GuardShares
from schemas.errors import Unknown
from streams.parsing.profile import parse
from tests.builders import a_catalog

LEVEL: dict[str, Any] = {
    "latency_ms": {"1": 10, "4": 25.5}, "spread_ms": {"1": 1}, "clock": "cpu", "load_ms": 200, "cold_load_ms": 4000,
    "memory_bytes": 9_000_000, "cuda_bytes": 0, "quality": 0.8, "quality_by_band": [0.9, None], "facts": 0.5,
}  # fmt: skip

ROW: dict[str, Any] = {
    "light": "light", "heavy": "heavy", "router_ratio": 0.3, "disc_ratio": 0.5, "latency_ms": 90.0, "quality": 0.95,
    "hardness": 0.7, "threshold": 0.4, "paint_over_step": 10, "quality_by_band": [0.99, 0.91], "low": 0.94,
    "high": 0.96, "prompts": 20,
}  # fmt: skip


CACHING: dict[str, Any] = {
    "version": 2,
    "key": "scorer", "dimension": 96, "seed": 1, "requests": 1200, "steps": 8, "tolerance": 0.005, "exact_share": 0.1,
    "guard": {"equal": 0.5, "style": 0.5, "differs": {"colour": 0.125}},
    "routes": [
        {"share": 0.5, "floors": [[0.95, 0.5]], "hit_rate": 0.3, "exact_rate": 0.1, "saved_share": 0.15,
         "saved_exact_share": 0.05, "change": [0, -0.004, 0.003], "facts_change": [0, -0.001, 0.001]},
    ],
}  # fmt: skip


def a_profile_file(**changes: Any) -> dict[str, Any]:
    """The JSON tables of two levels and their cascade."""
    cascade = {
        "light": "light", "heavy": "heavy", "discriminator": "look", "latency_ms": 2.5, "chosen_k": 4,
        "deferral": [{"threshold": 0.5, "deferred": 0.25}, {"threshold": 1.0, "deferred": 1.0}],
        "deferral_by_band": [[], [{"threshold": 0.5, "deferred": 0.4}]],
        "paint_over": [{"k": 4, "cost_share": 0.5, "quality": 0.9, "quality_by_band": [0.95, 0.85]}],
    }  # fmt: skip
    return {
        "format": FORMAT, "created": "2026-11-21", "machine": {"anything": 1}, "catalog": "tiny", "seed": 3,
        "prompts": 100, "bands": [0, 0.5, 1], "levels": {"light": LEVEL, "heavy": LEVEL}, "cascades": [cascade],
        "reuse": {"heavy": [{"k": 2, "cost_share": 0.75}]},
    } | changes  # fmt: skip


def parsed(**changes: Any) -> Profile:
    return parse(json.dumps(a_profile_file(**changes)), "tiny.json")


def without(table: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}


def test_what_was_measured_comes_back_as_values() -> None:
    profile = parsed()
    assert profile.levels["light"].latency_ms == {1: 10.0, 4: 25.5}
    assert profile.levels["light"].quality_by_band == (0.9, None)
    (cascade,) = profile.cascades
    assert cascade.deferral[0] == (0.5, 0.25)
    assert cascade.deferral_by_band[1][0].deferred == 0.4
    assert cascade.paint_over == (Start(4, 0.5, 0.9, (0.95, 0.85)),)
    assert profile.reuse["heavy"] == (Start(2, 0.75),)


def test_measurements_of_caching_come_back_as_the_rules_that_plans_are_made_of() -> None:
    cached = parsed(caching={"heavy": CACHING}).caching
    assert cached["heavy"].routes[0].floors == (Floor(0.95, 0.5),)
    assert cached["heavy"].guard == GuardShares(equal=0.5, style=0.5, differs={Difference.COLOUR: 0.125})
    assert cached["heavy"].routes[0].change.low == -0.004
    assert parsed().caching == {}


def test_a_level_that_nobody_judged_has_no_quality() -> None:
    plain = without(without(without(LEVEL, "quality"), "quality_by_band"), "facts")
    assert parsed(levels={"light": LEVEL, "heavy": plain}).levels["heavy"].quality is None


@pytest.mark.parametrize(("hardness", "band"), [(0.0, 0), (0.49, 0), (0.5, 1), (1.0, 1)])
def test_a_hardness_lies_in_one_band(hardness: float, band: int) -> None:
    assert parsed().band(hardness) == band


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"format": 99}, r"profile tiny.json: format must be 2: got 99"),
        ({"bands": [0, 0.7, 0.5, 1]}, r"tiny.json: bands must be rising from 0 to 1"),
        ({"bands": [0, 0.5]}, r"tiny.json: bands"),
        ({"levels": {}}, r"tiny.json: levels"),
        ({"levels": {"light": without(LEVEL, "load_ms"), "heavy": LEVEL}}, r"levels.light.load_ms"),
        ({"levels": {"light": LEVEL | {"load_ms": -1}, "heavy": LEVEL}}, r"levels.light.load_ms must be >= 0"),
        ({"levels": {"light": LEVEL | {"load_ms": "1"}, "heavy": LEVEL}}, r"levels.light.load_ms must be a number"),
        ({"levels": {"light": LEVEL | {"latency_ms": {"2": 5}}, "heavy": LEVEL}}, r"light.latency_ms .*batch 1"),
        ({"levels": {"light": LEVEL | {"latency_ms": {"one": 5}}, "heavy": LEVEL}}, r"levels.light.latency_ms"),
        ({"levels": {"light": LEVEL | {"clock": "sun"}, "heavy": LEVEL}}, r"levels.light.clock must be cpu or wall"),
        ({"levels": {"light": LEVEL | {"quality_by_band": [1]}, "heavy": LEVEL}}, r"quality_by_band must be of 2"),
        ({"levels": {"heavy": LEVEL}}, r"cascades\[0\] must be between its levels: got 'light'"),
        ({"reuse": {"heavy": [{"k": 3, "cost_share": 1}, {"k": 1, "cost_share": 1}]}}, r"reuse.heavy must be rising"),
        ({"caching": {"heavy": without(CACHING, "key")}}, r"caching.heavy.key must be given"),
        ({"caching": {"heavy": CACHING | {"steps": 1}}}, r"caching.heavy: steps must be >= 2: got 1"),
        ({"caching": {"heavy": CACHING | {"guard": {"equal": 0.5, "differs": {"hue": 0.1}}}}}, r"guard.differs.hue"),
        ({"cascades": [{"light": "light"}]}, r"cascades\[0\]\.heavy must be given"),
    ],
)
def test_what_is_wrong_is_reported_by_file_and_field(changes: dict[str, Any], reported: str) -> None:
    with pytest.raises(InvalidCatalog, match=reported):
        parsed(**changes)


def test_a_curve_that_falls_is_refused_with_its_place() -> None:
    falls = [{"threshold": 0.2, "deferred": 0.5}, {"threshold": 0.1, "deferred": 0.6}]
    cascade = a_profile_file()["cascades"][0] | {"deferral": falls}
    with pytest.raises(InvalidCatalog, match=r"cascades\[0\].deferral must be shares that rise"):
        parsed(cascades=[cascade])


def test_a_misspelt_key_is_reported_with_the_nearest() -> None:
    with pytest.raises(Unknown, match=r"levels.light.*did you mean 'load_ms'"):
        parsed(levels={"light": LEVEL | {"lod_ms": 1}, "heavy": LEVEL})


def test_a_text_that_is_no_json_is_reported() -> None:
    with pytest.raises(InvalidCatalog, match=r"profile tiny.json is not JSON"):
        parse("{", "tiny.json")


def some_arrays(**changes: np.ndarray) -> dict[str, np.ndarray]:
    """Three prompts on two levels, one of them refined from two steps."""
    return {
        "prompts": np.array(["a", "b", "c"]), "seeds": np.array([1, 2, 3]), "hardness": np.array([0.1, 0.5, 1.0]),
        "levels": np.array(["light", "heavy"]), "cost_ms": np.array([1.0, 9.0]),
        "quality": np.array([[0.5, 1.0], [np.nan, 1.0], [0.25, 0.75]], np.float16),
        "facts": np.zeros((3, 2)), "judged": np.array(["look: light > heavy"]),
        "confidence": np.full((3, 1), np.nan), "over_rows": np.array([2]), "over_k": np.array([2, 4]),
        "over_quality": np.array([[1.0, 0.5]]),
    } | changes  # fmt: skip


def test_a_table_gives_each_levels_quality_by_prompt() -> None:
    table = prompt_table(some_arrays(), "tiny-quality.npz")
    assert table.prompts == ("a", "b", "c")
    assert table.of("light")[[0, 2]].tolist() == [0.5, 0.25]
    assert np.isnan(table.of("light")[1])
    with pytest.raises(InvalidCatalog, match=r"level must be one of light, heavy: got 'middle'"):
        table.of("middle")


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"hardness": np.array([0.1, 0.5])}, r"tiny-quality.npz: hardness must be of shape \(3,\)"),
        ({"quality": np.zeros((3, 1))}, r"quality must be of shape \(3, 2\)"),
        ({"quality": np.full((3, 2), 1.5)}, r"quality must be in \[0, 1\]"),
        ({"over_rows": np.array([7])}, r"over_rows must be rows of 3 prompts"),
        ({"confidence": np.full((3, 1), -1.0)}, r"confidence must be in \[0, 1\]"),
    ],
)
def test_an_array_that_does_not_fit_is_named(changes: dict[str, np.ndarray], reported: str) -> None:
    with pytest.raises(InvalidCatalog, match=reported):
        prompt_table(some_arrays(**changes), "tiny-quality.npz")


def test_a_missing_array_is_named() -> None:
    arrays = some_arrays()
    del arrays["seeds"]
    with pytest.raises(InvalidCatalog, match=r"tiny-quality.npz: seeds must be there"):
        prompt_table(arrays, "tiny-quality.npz")


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
    ("changes", "reported"),
    [
        ({"version": 2}, r"settings: version must be 1: got 2; sweep again"),
        ({"rows": [ROW | {"router_ratio": 1.5}]}, r"router_ratio must be in \[0, 1\]: got 1.5"),
        ({"rows": [ROW | {"quality_by_band": [0.9]}]}, r"rows?.*quality_by_band must be of 2 bands|must be of 2 bands"),
        (
            {"rows": [ROW | {"quality_by_band": [0.9, []]}]},
            r"settings\.rows\[0\]\.quality_by_band\[1\] must be a number",
        ),
        ({"rows": [ROW | {"quality_by_band": [0.9, float("nan")]}]}, r"quality must be finite"),
        ({"rows": [ROW | {"paint_over_step": -1}]}, r"paint_over_step must be >= 0: got -1"),
        ({"rows": [{k: v for k, v in ROW.items() if k != "low"}]}, r"settings\.rows\[0\]\.low must be given"),
    ],
)
def test_a_broken_table_is_reported_by_its_field(changes: dict[str, Any], reported: str) -> None:
    with pytest.raises(InvalidCatalog, match=reported):
        parse(json.dumps(a_table(**changes)), "tiny.json")


def test_a_key_that_is_not_known_is_refused() -> None:
    with pytest.raises(Unknown, match="prompts"):
        parse(json.dumps(a_table(ROW | {"promts": 3})), "tiny.json")


def test_a_catalog_plans_with_the_rows_of_the_cascades_it_offers_from_steps_that_there_are() -> None:
    rows = [ROW, ROW | {"paint_over_step": 25}, ROW | {"light": "heavy", "heavy": "light"}]
    catalog = with_profile(a_catalog(), parse(json.dumps(a_table(*rows)), "tiny.json"))
    assert [row.refine_from_step for row in catalog.pair_rows] == [10]  # heavy has 25 steps


def test_a_catalog_s_own_rows_come_before_those_of_its_profile() -> None:
    own = (PairRow("light", "heavy", 0.0, 0.0, 20.0, 0.8),)
    assert with_profile(a_catalog(pair_rows=own), parse(json.dumps(a_table()), "tiny.json")).pair_rows == own
