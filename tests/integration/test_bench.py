"""Benches run from beginning to end and print their figures; what they are is not judged here.

Those of the ledger, of a killed router and of a storm of retries: `make nightly PART=benches`.
"""

import pathlib

import pytest

from tests.integration.benches import reported, there

__all__ = ["there"]

pytestmark = pytest.mark.integration


def test_overhead_is_reported_with_its_baseline(there: tuple[pathlib.Path, list[str]]) -> None:
    report = reported(*there, "overhead", "--count", "10", "--rate", "10", "--warm-up", "1")
    assert report["lost"] == 0
    assert {"p50", "p99"} <= set(report["overhead_ms"]) & set(report["baseline_ms"])
    assert report["ratio_p50"] == pytest.approx(report["overhead_ms"]["p50"] / report["baseline_ms"]["p50"], rel=0.01)


def test_a_worker_is_reported_beside_a_bare_loop(there: tuple[pathlib.Path, list[str]]) -> None:
    light = reported(*there, "worker", "--light", "4", "--heavy", "0", "--repeats", "1")["variants"]["light"]
    assert light["worker_per_s"]["median"] > 0
    assert light["baseline_per_s"]["repeats"] == 2
