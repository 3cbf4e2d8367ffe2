"""The bench of the loader: its server keeps its pace, and a run measures each side and leaves nothing."""

import pathlib
import time

import pytest

from replay.bench.loader.run import run
from replay.bench.loader.server import CHUNK, Pace

MIB = 1 << 20


def test_a_small_run_measures_all_three_and_leaves_nothing(tmp_path: pathlib.Path) -> None:
    measured = run(tmp_path, megabytes=3, ranges=2, repeats=2, connection_mb_s=20, note=lambda _: None)
    assert measured["targets"].keys() == {
        "throttled_ratio", "unthrottled_ratio", "unthrottled_synced_ratio", "local_ratio",
    }  # fmt: skip
    for name in ("throttled", "unthrottled", "local"):
        low, high = measured[name]["ratio"]["interval"]
        assert low <= high
    assert measured["throttled"]["plain_get_mb_per_s"]["max"] < 30, "one connection has 20 MB/s and what buffers take"
    assert measured["local"]["reads"] == 2
    assert list(tmp_path.iterdir()) == []


def test_a_connection_is_held_to_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    monkeypatch.setattr(time, "sleep", slept.append)
    pace = Pace(CHUNK)
    for _ in range(5):
        pace.wait(CHUNK)
    pace.settle()
    assert sum(slept) == pytest.approx(5.0)


def test_no_pace_means_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("waited"))
    for _ in range(5):
        Pace(0).wait(MIB)
