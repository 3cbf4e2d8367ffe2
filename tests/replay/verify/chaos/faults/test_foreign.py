"""Faults by others, on a world whose topics are a list."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from replay.load.driver import STUCK_MS
from replay.verify.chaos.faults import foreign, input
from replay.verify.chaos.schedule import EXIT, Fault
from replay.verify.chaos.world import Purged, World
from schemas.record import Delivered, Outgoing
from streams.settings import load
from tests.replay.verify.chaos.faults.test_input import over


class Producer:
    """A producer that remembers."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []

    def send(self, record: Outgoing) -> None:
        self.sent.append(record)


@pytest.fixture
def world() -> World:
    hosted: Any = SimpleNamespace(settings=load({}), processes=[])
    return World(hosted, SimpleNamespace(), Producer())  # type: ignore[arg-type]


def a_fault(kind: str, dice: int = 1) -> Fault:
    return Fault(number=0, at_ms=0, kind=kind, target="", lasts_ms=0, dice=dice)


def test_foreign_records_of_all_kinds_come_on_internal_topics_alone(world: World) -> None:
    said = [over(foreign.record(world, a_fault("foreign-record", dice))) for dice in range(60)]
    assert {name for name in foreign.VALUES if any(name in each for each in said)} == set(foreign.VALUES)
    sent = world.producer.sent  # type: ignore[attr-defined]
    assert {each.topic for each in sent} == set(foreign.TOPICS)
    assert len(sent) == 3 * 60


def test_requests_whose_records_were_deleted_unread_are_gone_and_others_are_not(world: World) -> None:
    world.placed = {"before": (0, 4), "first": (0, 5), "last": (0, 8), "after": (0, 9), "elsewhere": (1, 6)}
    assert world.gone() == frozenset()
    world.purged = [Purged(partition=0, begin=5, end=9)]
    assert world.gone() == {"first", "last"}


def test_a_run_is_over_once_all_that_was_acknowledged_has_ended_or_nothing_moves_any_more(world: World) -> None:
    world.acknowledged = {"ended", "open"}
    world.ended = {"ended": "COMPLETED"}
    assert not world.is_over(1000)
    assert not world.is_over(1000 + STUCK_MS)
    assert world.is_over(1001 + STUCK_MS)
    world.ended["open"] = "COMPLETED"
    assert world.is_over(1002 + STUCK_MS)


def test_a_request_that_ends_its_workers_is_sent_again_once_it_has_ended(world: World) -> None:
    asked: list[Any] = []

    def submit(request: Any) -> Future[Delivered]:
        asked.append(request)
        world.ended[request.request_id] = "FAILED" if len(asked) == 1 else "REJECTED"
        done: Future[Delivered] = Future()
        done.set_result(Delivered(partition=0, offset=len(asked)))
        return done

    world.client = SimpleNamespace(submit=submit)  # type: ignore[assignment]
    assert over(input.poison_repeat(world, a_fault("poison-repeat"))) == (
        "an equal request, sent 3 times, ended FAILED, REJECTED, REJECTED"
    )
    assert len({each.request_id for each in asked}) == 3
    assert {each.prompt for each in asked} == {f"{EXIT} again 1"}
    assert world.placed == {each.request_id: (0, number) for number, each in enumerate(asked, 1)}
