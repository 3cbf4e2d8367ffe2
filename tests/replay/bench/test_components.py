"""`pochade bench components`: its report says what was measured, and whether that is good enough."""

import pytest

from agents.lab.components_bench import _stream
from agents.lab.components_memory import combinations_of, memory
from planner.catalog.options import resolve_options
from replay.bench.components import growth_of, plot_of, report_of
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


def test_memory_is_measured_over_every_base_with_all_that_fits_it() -> None:
    found = combinations_of(catalogs.load("tiny").level("styles"))
    assert len(set(found)) == len(found)
    assert {each.model for each in found} == {"poster", "chalk", "woodcut"}
    of_poster = [each for each in found if each.model == "poster"]
    assert len(of_poster) == (1 + 6 + 15) * 2, "none, one or two of six adapters, with and without the outline"
    assert all(not each.adapters for each in found if each.model != "poster")


def test_memory_stays_within_the_budgets_that_hold_a_part_of_the_components() -> None:
    found = memory(catalogs.load("tiny").level("styles"), 12, 1)
    assert [each["requests"] for each in found["samples"]] == list(range(1, 13))
    assert found["over_budget"] == {"volume": 0, "host": 0, "device": 0}
    last = found["samples"][-1]
    assert all(0 < last["held_bytes"][tier] <= size for tier, size in found["budget_bytes"].items())
    assert found["moved_bytes"]["device"] > found["budget_bytes"]["device"], "something had to leave the device"


SAMPLES = [
    {"requests": at, "rss_bytes": 1_000_000 * rss, "held_bytes": {"volume": 7, "host": 5, "device": at}}
    for at, rss in enumerate([100, 180, 200, 200, 201, 199, 203, 202, 204, 205])
]
MEMORY = {
    "samples": SAMPLES, "over_budget": {"volume": 0, "host": 0, "device": 0},
    "budget_bytes": {"volume": 9, "host": 9, "device": 9},
}  # fmt: skip


def test_growth_counts_from_when_memory_is_warm_and_more_of_it_misses_the_target() -> None:
    assert growth_of(SAMPLES) == {"rss_most_bytes": 205_000_000, "rss_growth_bytes": 5_000_000}
    assert report_of({**MEASURED, "memory": MEMORY})["targets"]["rss_growth_mb"]["met"]
    leaking = [{**each, "rss_bytes": each["rss_bytes"] + 10**7 * each["requests"]} for each in SAMPLES]
    over = {"volume": 0, "host": 3, "device": 0}
    targets = report_of({**MEASURED, "memory": {**MEMORY, "samples": leaking, "over_budget": over}})["targets"]
    assert not targets["rss_growth_mb"]["met"]
    assert not targets["requests_over_budget"]["met"]


def test_the_plot_shows_resident_memory_and_each_tier_over_requests() -> None:
    drawn = plot_of(MEMORY)
    assert drawn.startswith("<?xml")
    for text in ("resident memory, MB", "requests", "device", "host", "volume"):
        assert f">{text}<" in drawn
