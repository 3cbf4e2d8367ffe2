"""Simulated events come in order of time, and time in which nothing but repetitions is entered can be skipped."""

import pytest

from replay.simulation.event_queue import EventQueue


class Bell:
    """Rings each second, from the half of it on."""

    def __init__(self, events: EventQueue) -> None:
        self._events = events
        self.rung_ms: list[float] = []
        events.repeat(500.0, Bell.ring, self)

    def ring(self) -> None:
        self.rung_ms.append(self._events.now_ms)
        self._events.repeat(self._events.now_ms + 1000.0, Bell.ring, self)


def test_whole_steps_are_skipped_and_repetitions_go_on_with_their_phase() -> None:
    events = EventQueue()
    bell = Bell(events)
    events.advance(2000.0)
    assert events.skip(61_900.0, 5000.0) == 55_000.0
    assert events.now_ms == 57_000.0
    events.advance(59_000.0)
    assert bell.rung_ms == [500.0, 1500.0, 57_500.0, 58_500.0]


@pytest.mark.parametrize(("until_ms", "skipped_ms"), [(4000.0, 0.0), (9000.0, 5000.0), (90_000.0, 5000.0)])
def test_what_happens_once_is_not_skipped(until_ms: float, skipped_ms: float) -> None:
    events, happened = EventQueue(), list[float]()
    Bell(events)
    events.at(9999.0, happened.append, 1.0)
    assert events.skip(until_ms, 5000.0) == skipped_ms
    events.advance(9999.0)
    assert happened == [1.0]
