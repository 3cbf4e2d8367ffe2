"""`pochade bench components`: its report says what was measured, and whether that is good enough."""

import pytest

from agents.lab.components_bench import _stream
from planner.catalog.options import resolve_options
from replay.bench.components import report_of
from streams import catalogs

TURNS = {"adapters": ["a", "b", "c"], "one_ms": [100.0, 110.0], "three_ms": [105.0, 120.0], "ratios": [1.05, 1.09]}
MEASURED = {"turns": TURNS, "fused_difference": 4e-6, "hits": {"lru": {"device_share": 0.5}}}


def test_the_report_says_medians_ratio_and_targets() -> None:
    report = report_of(MEASURED)
    assert report["request_cpu_ms"]["three_in_turn"]["median"] == 112.5
    assert report["turns_ratio"]["median"] == 1.07
    assert report["hits"] == MEASURED["hits"]
    assert [each["met"] for each in report["targets"].values()] == [True, True]


SLOW = {"turns": {**TURNS, "ratios": [1.4, 1.5]}}


@pytest.mark.parametrize(
    ("change", "missed"), [({"fused_difference": 2e-4}, "fused_difference"), (SLOW, "turns_ratio")]
)
def test_a_missed_target_is_told(change: dict[str, object], missed: str) -> None:
    assert [name for name, each in report_of({**MEASURED, **change})["targets"].items() if not each["met"]] == [missed]


def test_the_stream_asks_for_some_bases_and_adapters_more_than_for_others_and_only_for_what_fits() -> None:
    variant = catalogs.load("tiny").level("styles")
    chosen = [resolve_options(options, variant).components for options in _stream(variant, 300, 1)]
    bases = [each.base for each in chosen]
    assert bases.count("poster") > bases.count("chalk") > bases.count("woodcut") > 10
    assert {each.base for each in chosen if each.adapters} == {"poster"}
    assert _stream(variant, 300, 1) == _stream(variant, 300, 1)
