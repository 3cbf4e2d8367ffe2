"""Schedules of outages, as the simulator reads them."""

import pathlib

import pytest

from replay.simulation.failures import read_failures
from replay.traces.outages import Change, Losses, lines, schedule
from schemas.errors import PochadeError

IDS = [f"w-{number}" for number in range(8)]


def test_argus_loses_half_of_eight_workers_twice_for_40_minutes() -> None:
    changes = schedule(Losses(), seed=1)
    assert [(change.at_s, change.is_up) for change in changes] == [
        (at, is_up) for at, is_up in [(9000, False), (11_400, True), (24_000, False), (26_400, True)] for _ in range(4)
    ]
    assert {change.who for change in changes[:4]} == {change.who for change in changes[4:8]}
    assert schedule(Losses(), seed=1) == changes != schedule(Losses(), seed=2)


def test_the_simulator_reads_the_schedule(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "failures.csv"
    path.write_text("\n".join(lines(schedule(Losses(at_s=(1.5,), for_s=10, lost=2), seed=3))))
    outages = read_failures(path, IDS)
    assert [outage.at_ms for outage in outages] == [1500, 1500, 11_500, 11_500]
    assert {outage.worker_id for outage in outages} <= set(IDS)


def test_stores_are_lost_by_name() -> None:
    losses = Losses(lost=0, stores=("vector-store",), at_s=(5,), for_s=1)
    assert schedule(losses, 0) == [Change(5, "vector-store", False), Change(6, "vector-store", True)]
    assert lines(schedule(losses, 0)) == ["at_s,worker,change", "5,vector-store,down", "6,vector-store,up"]


@pytest.mark.parametrize(
    ("losses", "complaint"),
    [
        (Losses(lost=9), "1 to the 8 workers.* got 9"),
        (Losses(lost=0), "1 to the 8 workers.* got 0"),
        (Losses(stores=("vektor-store",)), "unknown store 'vektor-store'.* did you mean 'vector-store'"),
        (Losses(at_s=(0, 10), for_s=20), "must end before the next"),
        (Losses(at_s=(-1,)), "--at must be 0 or later"),
        (Losses(at_s=()), "--at must be 0 or later"),
        (Losses(for_s=0), "--for above 0"),
    ],
)
def test_a_schedule_that_cannot_be_is_reported(losses: Losses, complaint: str) -> None:
    with pytest.raises(PochadeError, match=complaint):
        schedule(losses, 0)
