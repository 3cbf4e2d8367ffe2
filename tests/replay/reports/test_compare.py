"""What two reports held against each other say."""

from typing import Any

import pytest

from replay.reports.compare import BETTER, CANNOT_TELL, NO_JUDGEMENT, NOT_COMPARABLE, SAME, WORSE, Row, compare
from schemas.errors import PochadeError
from tests.replay.reports.samples import CHANCE, a_policy, a_report


def row(first: dict[str, Any], second: dict[str, Any], metric: str) -> Row:
    return next(row for row in compare(first, second).rows if row.metric == metric)


def of(**by_seed: list[float]) -> dict[str, Any]:
    return a_report({"ours": a_policy(**by_seed)})


def test_higher_quality_and_fewer_violations_are_better() -> None:
    before = of(quality=[0.90, 0.91, 0.92], violation_rate=[0.03, 0.04, 0.05])
    after = of(quality=[0.92, 0.93, 0.941], violation_rate=[0.02, 0.03, 0.041])
    assert row(before, after, "quality").verdict == BETTER
    assert row(before, after, "violation_rate").verdict == BETTER
    assert row(after, before, "quality").verdict == WORSE
    assert row(after, before, "violation_rate").verdict == WORSE


def test_a_difference_that_chance_explains_cannot_be_told() -> None:
    found = row(of(quality=[0.90, 0.94]), of(quality=[0.91, 0.92]), "quality")
    assert found.verdict == CANNOT_TELL
    assert found.is_paired


def test_one_seed_tells_nothing_and_what_is_equal_is_the_same() -> None:
    assert row(of(quality=[0.9]), of(quality=[0.95]), "quality").verdict == CANNOT_TELL
    assert row(of(quality=[0.9]), of(quality=[0.9]), "quality").verdict == SAME
    assert row(of(quality=[0.9, 0.8]), of(quality=[0.9, 0.8]), "quality").verdict == SAME


def test_of_some_metrics_neither_way_is_better() -> None:
    assert row(of(heavy_share=[0.1, 0.1]), of(heavy_share=[0.9, 0.9]), "heavy_share").verdict == NO_JUDGEMENT


def test_qualities_on_different_scales_are_not_compared() -> None:
    fid = a_report({"ours": a_policy(quality=[-20.0, -20.1], fid=[20.0, 20.1])}, scale="fid")
    found = row(fid, of(quality=[0.9, 0.91]), "quality")
    assert (found.verdict, found.difference, found.interval) == (NOT_COMPARABLE, None, None)
    assert row(fid, fid, "fid").verdict == SAME


def test_metrics_that_one_report_has_no_values_of_are_left_out() -> None:
    assert "fid" not in {row.metric for row in compare(of(fid=[20.0]), of()).rows}


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"slo_s": 9.0}, "different slo_s: 5.0 and 9.0; the figures answer different questions"),
        ({"catalog": "other"}, "different catalog: tiny and other; the figures answer different questions"),
        ({"workers": 3}, "different workers: 4 and 3"),
        ({"first_seed": 7}, "different seeds (0, 7): not compared in pairs"),
        ({"parameters": {"ours": {"batch": 2.0}, CHANCE: {}}}, "different parameters.ours.batch: none and 2.0"),
        ({"hops": True}, "different hops: none and True"),
        ({"classes": {"models": "profiled"}}, "different classes: none and 1 value"),
        ({"seen": "x" * 90}, f"different seen: none and {'x' * 57}..."),
    ],
)
def test_what_differs_beside_the_figures_is_reported(changes: dict[str, Any], warning: str) -> None:
    assert compare(a_report(), a_report(**changes)).warnings == [warning]


def test_of_settings_of_many_values_those_that_differ_are_reported_one_a_line() -> None:
    first = a_report(timing={"beat_ms": 500, "silent_ms": 3000, "residency": {"models": 1, "beside_factor": 0.0}})
    second = a_report(timing={"beat_ms": 500, "silent_ms": 9000, "residency": {"models": 2, "beside_factor": 0.0}})
    assert compare(first, second).warnings == [
        "different timing.residency.models: 1 and 2",
        "different timing.silent_ms: 3000 and 9000",
    ]
    many = compare(a_report(variation={str(n): 0.1 for n in range(20)}), a_report(variation={"0": 0.1})).warnings
    assert len(many) == 9
    assert many[0] == "different variation.1: 0.1 and none"
    assert many[-1] == "different variation: 11 more values differ, listed under setup in each report.json"


def test_different_traces_are_reported() -> None:
    other = a_report()
    other["trace"] = other["trace"] | {"file": "friday.csv", "sha256": "b" * 64}
    (warning,) = compare(a_report(), other).warnings
    assert warning.startswith("different traces (trace.csv and friday.csv)")


def test_reports_of_the_same_run_differ_in_nothing() -> None:
    found = compare(a_report(), a_report())
    assert not found.warnings
    assert {row.verdict for row in found.rows} == {SAME, NO_JUDGEMENT}
    assert {row.policy for row in found.rows} == {"ours", CHANCE}


def test_policies_of_one_report_only_are_reported_and_none_in_common_is_an_error() -> None:
    assert compare(a_report(), of()).warnings == [f"only in the first: {CHANCE}"]
    with pytest.raises(PochadeError, match="no policy in common: ours in the first, other in the second"):
        compare(of(), a_report({"other": a_policy()}))


def test_values_that_differ_behind_their_first_words_are_told_in_full() -> None:
    first, second = (a_report({"ours": a_policy(quality=[0.9, 0.91])}) for _ in range(2))
    first["setup"]["note"], second["setup"]["note"] = 0.12345678, 0.12345679
    assert "different note: 0.12345678 and 0.12345679" in compare(first, second).warnings
