"""Faults of input, on a world whose topics are a list."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from replay.verify.chaos.faults import input
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import NotThere, World
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, IMAGES, OUTCOMES
from streams.settings import load
from tests.builders import a_request


def a_record(topic: str, name: str, offset: int = 0) -> Incoming:
    return Incoming(topic=topic, partition=0, offset=offset, timestamp_ms=1, key=name.encode(), value=b"x")


class Asked:
    """A client and a producer that remember."""

    def __init__(self) -> None:
        self.submitted: list[str] = []
        self.cancelled: list[str] = []
        self.sent: list[str] = []

    def submit(self, request: Any) -> None:
        self.submitted.append(request.request_id)

    def cancel(self, name: str, _reason: str) -> None:
        self.cancelled.append(name)

    def send(self, record: Any) -> None:
        self.sent.append(record.key.decode())


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def world(asked: Asked) -> World:
    hosted: Any = SimpleNamespace(settings=load({}), processes=[])
    world = World(hosted, asked, asked)  # type: ignore[arg-type]
    world.asked = {name: a_request(request_id=name) for name in ("open", "ended")}
    world.ended = {"ended": "COMPLETED"}
    return world


def a_fault(kind: str, dice: int = 1) -> Fault:
    return Fault(number=0, at_ms=0, kind=kind, target="", lasts_ms=0, dice=dice)


def over(steps: Iterator[float]) -> str:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return str(end.value)


@pytest.mark.parametrize("dice", range(8))
def test_a_cancel_comes_the_moment_a_request_is_met_where_it_hurts(world: World, asked: Asked, dice: int) -> None:
    steps = input.cancel(world, a_fault("cancel", dice))
    next(steps)
    for topic in (CLASSIFIED, "jobs.light.v1", IMAGES, OUTCOMES):
        world._on_record(a_record(topic, "a stranger"))
        world._on_record(a_record(topic, "ended"))
        assert not asked.cancelled or asked.cancelled == ["open"]
        world._on_record(a_record(topic, "open"))
    assert asked.cancelled == ["open"], "once, in the thread that reads"
    assert over(steps).startswith("cancelled open when it lay on ")
    assert not world.ambushes


def test_cancels_come_at_every_stage_of_a_request() -> None:
    assert {a_fault("cancel", dice).draw().choice(input.MOMENTS) for dice in range(40)} == set(input.MOMENTS)


def test_a_cancel_that_meets_nothing_waits_no_longer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input, "AMBUSH_S", 0.1)
    with pytest.raises(NotThere):
        over(input.cancel(world, a_fault("cancel")))
    assert not world.ambushes


def test_records_of_open_requests_that_are_written_again_are_counted(world: World, asked: Asked) -> None:
    world.old.extend([a_record(OUTCOMES, "ended"), a_record(IMAGES, "open"), a_record("jobs.light.v1", "open")])
    assert over(input.replay(world, a_fault("replay"))).startswith("3 old records again")
    assert sorted(asked.sent) == ["ended", "open", "open"]
    assert world.doubled == {"open"}


def test_requests_are_repeated_those_that_ended_among_them(world: World, asked: Asked) -> None:
    assert over(input.repeat(world, a_fault("repeat"))) == "2 requests again, 1 of which had ended"
    assert sorted(asked.submitted) == ["ended", "open"]
