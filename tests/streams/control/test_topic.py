"""A plan is found by its version among the records of the control topic, which a list stands in for."""

import pytest

from schemas.errors import PochadeError
from schemas.messages import Pin, Plan
from schemas.record import Incoming
from schemas.topics import PIN_KEY, PLAN, PLAN_KEY
from streams.codec.avro import encode
from streams.control import topic
from streams.control.topic import plan_of_version
from streams.settings import load
from tests.builders import a_plan


class Log:
    """`ControlLog` over records in memory."""

    def __init__(self, *said: Plan | Pin) -> None:
        self._records = [
            Incoming(
                topic=PLAN,
                partition=0,
                offset=offset,
                timestamp_ms=offset,
                key=(PLAN_KEY if isinstance(each, Plan) else PIN_KEY).encode(),
                value=encode(each),
            )
            for offset, each in enumerate(said)
        ]

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None: ...

    def span(self) -> tuple[int, int]:
        return 0, len(self._records)

    def read(self, start: int, end: int, most: int | None = None) -> list[Incoming]:
        return self._records[start:end][:most]


def said(monkeypatch: pytest.MonkeyPatch, *records: Plan | Pin) -> None:
    monkeypatch.setattr(topic, "ControlLog", lambda _settings: Log(*records))


def test_the_plan_of_a_version_is_the_first_one_which_readers_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [a_plan(version=version, created_ms=at) for at, version in enumerate((3, 4, 4, 7), 1)]
    said(monkeypatch, Pin(policy="mine"), *plans)
    assert [plan_of_version(load({}), version) for version in (3, 4, 7)] == [plans[0], plans[1], plans[3]]


def test_a_version_that_is_not_there_is_reported_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    said(monkeypatch, a_plan(version=3), a_plan(version=7), Pin(policy="mine"))
    for version in (1, 5, 9):
        with pytest.raises(PochadeError, match=f"there is no plan {version}: the topic holds 3 to 7; see them"):
            plan_of_version(load({}), version)


def test_where_no_plan_was_published_that_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    said(monkeypatch, Pin(policy="mine"))
    with pytest.raises(PochadeError, match="no plan has been published"):
        plan_of_version(load({}), 1)
