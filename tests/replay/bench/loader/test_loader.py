"""The bench of the loader: its server keeps its pace, and a run measures each side and leaves nothing."""

import contextlib
import pathlib
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from replay.bench.loader import compiled
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


@pytest.mark.parametrize("turns", [1, 2])
def test_compiling_is_measured_as_many_times_as_asked_and_kept_code_is_that_of_the_first_turn(
    turns: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes: list[str] = []

    @contextlib.contextmanager
    def fetched(*_: object) -> Iterator[tuple[pathlib.Path, Any]]:
        yield tmp_path, SimpleNamespace(digest="d")

    def started(_start: object, own: Sequence[str], *_: object) -> dict[str, Any]:
        home = own[-1]
        became = None if not home else "kept" if home in homes else "compiled"
        homes.append(home)
        wall = {"compile": {"kept": 1.0, "compiled": 4.0, None: 0.0}[became], "first_image": 2.0}
        return {"wall": wall, "cpu": wall, "kept_bytes": 5_000_000, **({"compiling": became} if became else {})}

    for name, fake in (("fetched", fetched), ("started", started)):
        monkeypatch.setattr(compiled, name, fake)
    monkeypatch.setattr(compiled, "_images", lambda *_: {"1": {"eager_ms": 2.0, "compiled_ms": 1.0}})
    measured = compiled.run(tmp_path, "tiny", "light", turns, lambda _: None)
    assert len(homes) == 3 * turns
    assert measured["kept_compile_ratio"]["median"] == 0.25
    assert measured["kept_compile_ratio"]["repeats"] == turns
    assert homes[2::3] == [homes[1]] * turns
