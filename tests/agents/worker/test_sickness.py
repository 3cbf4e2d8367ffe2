"""The faults of a worker's device outlive its process: after three within an hour it stays away."""

import pathlib

from agents.worker.sickness import WITHIN_MS, FaultHistory

CUDA = "CUDA error: an illegal memory access\nwas encountered"


def test_a_worker_stays_away_after_three_faults_until_an_hour_after_the_first(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "workers" / "w-1.faults"
    for at_ms in (0, 1000):
        FaultHistory(file).add(["r-1"], CUDA, at_ms)
    assert FaultHistory(file).away_until_ms(1000) == (0, "")
    FaultHistory(file).add(["r-2"], CUDA, 2000)
    assert FaultHistory(file).away_until_ms(2000) == (WITHIN_MS, CUDA)
    assert FaultHistory(file).away_until_ms(WITHIN_MS - 1) == (WITHIN_MS, CUDA)
    assert FaultHistory(file).away_until_ms(WITHIN_MS) == (0, "")
    FaultHistory(file).add(["r-3"], CUDA, WITHIN_MS)
    assert FaultHistory(file).away_until_ms(WITHIN_MS) == (1000 + WITHIN_MS, CUDA)
    assert len(file.read_text().splitlines()) == 3, "what is over is written no more"


def test_a_fault_with_a_request_that_has_ended_several_workers_does_not_count(tmp_path: pathlib.Path) -> None:
    poison = set[str]()
    history = FaultHistory(tmp_path / "w-1.faults", poison.__contains__)
    for number in range(3):
        history.add([f"r-{number}", "beside"], CUDA, number)
    assert history.away_until_ms(10) != (0, "")
    poison.add("r-1")
    assert history.away_until_ms(10) == (0, "")


def test_a_damaged_file_counts_as_far_as_it_can_be_read(tmp_path: pathlib.Path) -> None:
    history = FaultHistory(tmp_path / "w-1.faults")
    for number in range(3):
        history.add([], CUDA, number)
    history.file.write_text(history.file.read_text() + '[4, "r')
    assert history.away_until_ms(10) != (0, "")
    history.file.write_bytes(b"\0\n[1]\n3\n")
    assert history.away_until_ms(10) == (0, "")
    history.file.unlink()
    assert history.away_until_ms(10) == (0, "")
