"""A role begins at the end of the control topic, however many plans lie before it."""

import contextlib
from collections.abc import Iterator, Sequence
from unittest import mock

import pytest

from agents.runtime.following import FollowedPlans
from schemas.messages import Pin, Plan, Route
from schemas.record import Incoming, Outgoing
from schemas.topics import PIN_KEY, PLAN, PLAN_KEY
from streams.codec.avro import encode
from streams.codec.headers import FACT
from streams.control import tail
from streams.control.history import published
from streams.control.records import Place
from streams.control.tail import ControlLog, newest, plan_of
from streams.kafka.consumers import consumer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.settings import Settings
from tests.builders import a_catalog, a_plan

pytestmark = pytest.mark.broker

PLANS = 20_000


def a_plan_record(plan: Plan, place: Place | None) -> Outgoing:
    facts = {FACT + name: str(value).encode() for name, value in (place.facts() if place else {}).items()}
    return Outgoing(topic=PLAN, key=PLAN_KEY.encode(), value=encode(plan), headers=facts)


def a_pin_record(policy: str) -> Outgoing:
    return Outgoing(topic=PLAN, key=PIN_KEY.encode(), value=encode(Pin(policy=policy)))


@contextlib.contextmanager
def counted() -> Iterator[list[int]]:
    """How many records are read meanwhile."""
    read: list[int] = []

    def incoming(message: object, prefix: str) -> Incoming:
        read.append(1)
        return one(message, prefix)  # type: ignore[arg-type]

    one = consumer.incoming
    with mock.patch.object(consumer, "incoming", incoming), mock.patch.object(tail, "incoming", incoming):
        yield read


@contextlib.contextmanager
def started(settings: Settings) -> Iterator[FollowedPlans]:
    view = FollowedPlans(settings, "test", a_catalog())
    try:
        view.start()
        view.wait_caught_up()
        yield view
    finally:
        view.close()


def write(producer: KafkaRecordProducer, records: Sequence[Outgoing]) -> None:
    send_all(producer, records)


def test_a_role_reads_a_few_of_20_000_plans_and_knows_the_plan_and_the_order_in_force(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    pins = {10: "first", 700: "second"}  # by offset
    records, pin_at = list[Outgoing](), -1
    for offset in range(PLANS):
        if offset in pins:
            records.append(a_pin_record(pins[offset]))
            pin_at = offset
        else:
            records.append(a_plan_record(a_plan(version=offset + 1), Place(offset, pin_at)))
    write(producer, records)
    with counted() as read, started(settings) as view:
        assert view.plan == a_plan(version=PLANS)
        assert view.newest == PLANS
        assert view.pin is not None
        assert view.pin.policy == "second"
        assert view.place == Place(PLANS, 700)
        assert sum(read) < 300
    with counted() as read, ControlLog(settings) as log:
        assert plan_of(log, 4321) == a_plan(version=4321)
        assert plan_of(log, PLANS + 1) is None
        assert plan_of(log, 701) is None, "an order lies there"
        assert sum(read) < 10_000  # in 45 questions

    with counted() as read:
        found = published(settings, 17)
        assert [plan.version for plan in found.plans[:2]] == [17, PLANS - 5000 + 1]
        assert (found.plans[-1].version, found.pin and found.pin.policy) == (PLANS, "second")
    with ControlLog(settings) as log:
        assert newest(log) == a_plan(version=PLANS)

    # an order that the last plan did not know of, and plans of a catalog that this role does not have
    foreign = [a_plan(version=PLANS + n, routes=(Route(levels={"medium": 1.0}),)) for n in range(1, 201)]
    write(producer, [a_pin_record("third"), *(a_plan_record(plan, Place(PLANS, 700)) for plan in foreign)])
    with counted() as read, started(settings) as view:
        assert view.plan == a_plan(version=PLANS), "the newest that fits"
        assert view.newest == PLANS + 200
        assert view.pin is not None
        assert view.pin.policy == "third"
        assert sum(read) < 1500


def test_behind_plans_of_a_release_that_told_nothing_all_is_read(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    with started(settings) as view:
        assert view.plan is None, "an empty topic"
    old = [a_plan_record(a_plan(version=n), None) for n in range(1, 101)]
    write(producer, [a_pin_record("first"), *old])
    with started(settings) as view:
        assert view.plan == a_plan(version=100)
        assert view.pin is not None
        assert view.pin.policy == "first"
