"""The requests in flight of late: means over a window, by tenant and by the variant that they name."""

import pytest

from planner.observation import in_flight
from planner.observation.in_flight import InFlight


def test_the_mean_counts_each_request_from_its_beginning_to_its_end_within_the_window() -> None:
    flights = InFlight()
    flights.begin("a", "t", "", 0)
    flights.begin("b", "t", "styles", 0)
    flights.end("a", 5000)
    assert flights.means(10_000) == {"t": {"": 0.5, "styles": 1.0}}
    assert flights.means(12_500) == {"t": {"": 0.25, "styles": 1.0}}
    assert flights.asked(12_500) == {"styles"}
    flights.end("b", 12_500)
    assert flights.means(30_000) == {}


def test_a_request_counts_once_however_often_its_record_is_read_and_whichever_topic_is_read_first() -> None:
    flights = InFlight()
    flights.begin("a", "t", "", 0)
    flights.begin("a", "t", "", 100)
    flights.end("b", 100)
    flights.begin("b", "u", "", 50)
    assert flights.means(10_000) == {"t": {"": 1.0}}


def test_what_was_turned_away_for_want_of_workers_counts_for_as_long_as_it_would_have_run() -> None:
    flights = InFlight()
    flights.begin("a", "t", "heavy", 0)
    assert flights.count() == 1
    flights.end("a", 0, counts_on_ms=2000)
    assert flights.count() == 0, "it has its result"
    assert flights.asked(1000) == {"heavy"}
    assert flights.asked(2000) == frozenset()
    assert flights.means(10_000)["t"]["heavy"] == pytest.approx(0.2)


def test_memory_is_bounded_and_the_oldest_request_counts_as_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "MAX_OPEN", 2)
    flights = InFlight()
    for number in range(5):
        flights.begin(number, "t", "", 0)
    assert flights.means(10_000)["t"][""] == pytest.approx(2.0)
