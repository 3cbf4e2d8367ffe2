"""A plan is found by its version among the records of the control topic, which a list stands in for."""

import contextlib
import dataclasses

import pytest

from agents.runtime.views import PlanView
from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import Pin, Plan
from schemas.record import Incoming
from schemas.topics import PIN_KEY, PLAN, PLAN_KEY
from streams.codec.avro import encode
from streams.codec.headers import FACT
from streams.control import topic
from streams.control.records import Place
from streams.control.tail import foreign, tail
from streams.control.topic import await_answer, plan_of_version
from streams.settings import load
from tests.builders import a_catalog, a_plan


class Log:
    """`ControlLog` over records in memory."""

    def __init__(self, *said: Plan | Pin, answered: int = -1) -> None:
        """`answered`: offset of the newest order that the planner of all plans had read."""
        self.records = [
            Incoming(
                topic=PLAN,
                partition=0,
                offset=offset,
                timestamp_ms=offset,
                key=(PLAN_KEY if isinstance(each, Plan) else PIN_KEY).encode(),
                value=encode(each),
                headers={FACT + name: str(v).encode() for name, v in Place(answered + 1, answered).facts().items()},
            )
            for offset, each in enumerate(said)
        ]

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None: ...

    def span(self) -> tuple[int, int]:
        return 0, len(self.records)

    def read(self, start: int, end: int, most: int | None = None) -> list[Incoming]:
        return self.records[start:end][:most]


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


def test_an_order_is_answered_by_the_first_plan_whose_planner_had_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(a_plan(version=1, policy="old"), Pin(policy="new"), a_plan(version=2, policy="new"), answered=1)
    monkeypatch.setattr(topic, "ControlLog", lambda *_: log)
    assert await_answer(load({}), 1, "new", 0) == "plan 2 by new is in force"
    with pytest.raises(PochadeError, match="plan 2 by new is in force in spite of the order"):
        await_answer(load({}), 1, "another", 0)


def test_a_plan_whose_planner_had_not_read_the_order_does_not_answer_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(a_plan(version=1), Pin(policy="new"), a_plan(version=2, policy="new"))
    monkeypatch.setattr(topic, "ControlLog", lambda *_: log)
    with pytest.raises(PochadeError, match="no plan has answered the order within 0 s: `pochade doctor`"):
        await_answer(load({}), 1, "new", 0)


def test_of_forged_plans_a_role_that_starts_obeys_the_same_as_one_that_runs() -> None:
    """One with a lower version and headers that hide all before it; ones with versions that are impossible."""
    plans = [a_plan(version=n) for n in range(1, 5)]
    forged = [a_plan(version=2, policy="forged"), a_plan(version=2**53), a_plan(version=-5)]
    log = Log(*plans, *forged)
    hiding = {FACT + name: str(value).encode() for name, value in Place(4, 3).facts().items()}
    log.records[4] = dataclasses.replace(log.records[4], headers=hiding)
    view = PlanView("router", a_catalog())
    begin = tail(log, view.fits)  # type: ignore[arg-type]
    for record in log.read(begin.start, 99):
        with contextlib.suppress(InvalidRecord):
            view.on_record(record)
    assert view.plan == plans[-1]


def test_plans_that_no_planner_has_written_are_found_by_their_headers_or_versions() -> None:
    log = Log(a_plan(version=1), a_plan(version=2), Pin(policy="mine"), a_plan(version=2**53))
    stamped = log.records[0].headers | {FACT + "version": b"1"}
    log.records[0] = dataclasses.replace(log.records[0], headers=stamped)
    log.records.append(dataclasses.replace(log.records[0], offset=4, value=None))
    assert foreign(log) == [1, 3, 4]  # type: ignore[arg-type]
