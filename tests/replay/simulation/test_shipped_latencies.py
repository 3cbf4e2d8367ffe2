"""The times between processes that ship: readable, and written by what a live run reports."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from replay.simulation import shipped_latencies
from replay.simulation.draws.hop_latencies import KINDS, RANKS, HopLatencies, whole
from schemas.errors import PochadeError
from tests.replay.simulation import live_latencies

HOPS = HopLatencies(
    **{kind: whole([(0.0, float(at + 1)), (0.0, 9.0)]) for at, kind in enumerate(KINDS)},
    paint_of={"light": whole([(0.0, 1.0)])},
)
REPORT: dict[str, Any] = {
    "made": {"command": "pochade replay run x"},
    "setup": {"workers": 3},
    "trace": {"requests": 9, "seconds": 1.5},
    "policies": {"joint": {}},
    "live": {"speed_ms": [1.5], "hops": asdict(HOPS)},
}


@pytest.fixture
def folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(shipped_latencies, "FILE", tmp_path / "hops.json")
    shipped_latencies.shipped_hop_latencies.cache_clear()
    yield tmp_path
    shipped_latencies.shipped_hop_latencies.cache_clear()


def test_what_ships_has_every_time_but_what_belongs_to_a_model() -> None:
    found = shipped_latencies.shipped_hop_latencies()
    assert all(getattr(found, kind) for kind in shipped_latencies.SHIPPED)
    assert not found.paint
    assert not found.paint_of


def test_the_file_of_a_live_run_is_read_as_its_times(folder: Any) -> None:
    text = live_latencies.file_of(REPORT, "2 cores")
    (folder / "hops.json").write_text(text)
    found = shipped_latencies.shipped_hop_latencies()
    assert (found.arrive, found.judge, found.plan, found.paint) == (HOPS.arrive, HOPS.judge, HOPS.plan, ())
    assert json.loads(text)["machine"] == "2 cores"


def test_a_machine_that_takes_twice_as_long_has_every_time_twice(folder: Any) -> None:
    probed = [float(rank) for rank in range(len(RANKS))]
    (folder / "hops.json").write_text(
        live_latencies.file_of(REPORT | {"live": {**REPORT["live"], "speed_ms": probed}}, "2 cores")
    )
    found = live_latencies.shipped_hop_latencies_at(tuple(2 * ms for ms in probed))
    assert found.arrive == (tuple(2 * ms for ms in HOPS.arrive[0]),)
    assert found.plan == (tuple(2 * ms for ms in HOPS.plan[0]),)


@pytest.mark.parametrize("text", ["", "{}", '{"hops": {"arrive": [1.0]}}', '{"hops": {"walk": []}}'])
def test_a_file_that_is_damaged_says_so(folder: Any, text: str) -> None:
    (folder / "hops.json").write_text(text)
    with pytest.raises(PochadeError, match=r"hops\.json has"):
        shipped_latencies.shipped_hop_latencies()
