"""An observation goes to a file and comes back equal; what is wrong with a file is reported."""

import pathlib

import pytest

from agents.planner.observation_file import idle_workers, read, write
from planner.observation.observation import Queue, Served
from schemas.errors import PochadeError
from tests.builders import NOW_MS, a_worker, an_observation


def test_a_whole_observation_comes_back_the_same(tmp_path: pathlib.Path) -> None:
    seen = an_observation(
        hardness=(0.1,) * 10, classes={"models": {"light": 0.25, "heavy": 0.75}},
        workers=(a_worker(allocated="heavy"),),
        slo_ms=5000.0, forecast_rps=12.5, counts=(3, 4), queues=(Queue("light", 2.0, 1.5),),
        served=Served(10, 0.9, None), ignored=2,
    )  # fmt: skip
    write(seen, tmp_path / "seen.json")
    assert read(tmp_path / "seen.json") == seen


def test_idle_workers_are_named_in_order_and_serve_nothing() -> None:
    workers = idle_workers(12, NOW_MS)
    assert [worker.worker_id for worker in workers] == sorted(worker.worker_id for worker in workers)
    assert (len(workers), workers[0].worker_id, {worker.home for worker in workers}) == (12, "worker-01", {""})


def test_a_file_that_cannot_be_read_or_written_is_reported(tmp_path: pathlib.Path) -> None:
    with pytest.raises(PochadeError, match="plan shadow POLICY --save FILE"):
        read(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PochadeError, match="cannot be read"):
        read(tmp_path / "bytes.json")
    with pytest.raises(PochadeError, match="name another place"):
        write(an_observation(), tmp_path / "no-folder" / "seen.json")
