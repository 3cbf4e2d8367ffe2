"""Finds the plan and the order in force at the end of the control topic, without reading a month of plans.

Each plan says in its headers how far its planner had read the topic, and where the newest order before that lay. A role
that starts reads on from there, and that one order. Plans of an older release say neither: the whole topic is read.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from schemas import topics
from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import Plan
from schemas.record import Incoming
from streams.broker import probe
from streams.control.records import Place, is_foreign, place_in, plan_in
from streams.kafka.clients import topic_name
from streams.kafka.consumers.consumer_factory import AT_AN_END_MS, open_consumer
from streams.kafka.consumers.polling import incoming, poll_records
from streams.kafka.errors import UNKNOWN_YET, patiently
from streams.settings import Settings

STEP = 64  # records from the end that are looked at first; doubled until a plan is found
MAX_RECORDS = 4096  # records that are looked at for a plan that fits
ANSWER_S = 60
BATCH = 500


class Tail(NamedTuple):
    """The offset to begin reading at, and the order that was in force there."""

    start: int
    pin: Incoming | None = None


class ControlLog:
    """Reads pieces of the topic; a context manager, used by one thread."""

    def __init__(self, settings: Settings, within_s: float = ANSWER_S) -> None:
        probe.reach(settings)
        self._prefix = settings.kafka.prefix
        self._name = topic_name(settings, topics.PLAN)
        self._until_s = time.monotonic() + within_s
        self._consumer = open_consumer(settings, "control", {"fetch.wait.max.ms": AT_AN_END_MS})

    def __enter__(self) -> "ControlLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def span(self) -> tuple[int, int]:
        """The first offset, and the one after the last. Raises PochadeError."""
        where = TopicPartition(self._name, 0)

        def ask() -> tuple[int, int]:
            first, end = self._consumer.get_watermark_offsets(where, timeout=ANSWER_S / 6)
            return first, end

        try:
            low, high = patiently(ask, max(0.1, self._until_s - time.monotonic()), UNKNOWN_YET)
        except KafkaException as error:
            raise self._failed(error.args[0]) from error
        return low, high

    def _failed(self, error: KafkaError) -> PochadeError:
        return PochadeError(f"could not read {self._name}: {error.str()}")

    def read(self, start: int, end: int, most: int | None = None) -> list[Incoming]:
        """The committed records from `start` to before `end`, or the first `most` of them.

        Raises PochadeError: the broker does not answer in time, or refuses.
        """
        found: list[Incoming] = []
        if start >= end:
            return found
        self._consumer.assign([TopicPartition(self._name, 0, start)])
        while time.monotonic() < self._until_s:
            try:
                polled = poll_records(self._consumer, most or BATCH, 0.1)
            except KafkaException as error:
                raise self._failed(error.args[0]) from error
            for message in polled.records:
                if (message.offset() or 0) >= end:
                    return found
                found.append(incoming(message, self._prefix))
                if most is not None and len(found) >= most:
                    return found
            if polled.ends:  # before `end` where a transaction is open: what it holds is not committed
                return found
        raise PochadeError(f"could not read {self._name} from offset {start} on in time: is the broker reachable?")


def tail(log: ControlLog, fits: Callable[[Plan], bool]) -> Tail:
    """Return where a role begins to read, to meet the newest plan that fits its catalog, and the order in force.

    Raises as `ControlLog`.
    """
    low, high = log.span()
    back, seen = STEP, high
    place: Place | None = None
    while seen > low:
        seen = max(low, high - back)
        plans = [(record, plan) for record in log.read(seen, high) if (plan := _plan_in(record)) is not None]
        plans.sort(key=lambda each: (each[1].version, -each[0].offset))  # of one version the first record is obeyed
        place = next((place_in(record) for record, _ in reversed(plans)), None)
        if plans and place is None:  # of an older release, or no planner's
            return Tail(low)
        fitting = next((record.offset for record, plan in reversed(plans) if fits(plan)), None)
        if place is not None and (fitting is not None or back >= MAX_RECORDS):
            start = max(low, min(place.read_to, high if fitting is None else fitting))
            return Tail(start, _order(log, place, low, start))
        back *= 2
    return Tail(low)


def _order(log: ControlLog, place: Place, low: int, start: int) -> Incoming | None:
    """Return the order at a place; None also where a newer order, which is read later, has taken its place."""
    if not low <= place.pin_at < start:
        return None
    found = log.read(place.pin_at, place.pin_at + 1, 1)
    return found[0] if found and found[0].key == topics.PIN_KEY.encode() else None


def newest(log: ControlLog) -> Plan | None:
    """Return the newest plan; None without one. Raises as `ControlLog`."""
    low, high = log.span()
    start, back = high, STEP
    while start > low:
        start = max(low, high - back)
        if plans := [plan for record in log.read(start, high) if (plan := _plan_in(record)) is not None]:
            return max(plans, key=lambda plan: plan.version)
        back *= 2
    return None


def foreign(log: ControlLog) -> list[int]:
    """The offsets of the newest records in the place of plans that no planner wrote. Raises as `ControlLog`."""
    low, high = log.span()
    records = log.read(max(low, high - STEP), high)
    found = [(record, _plan_in(record)) for record in records if record.key == topics.PLAN_KEY.encode()]
    return [record.offset for record, plan in found if plan is None or is_foreign(record, plan)]


def oldest(log: ControlLog) -> Plan | None:
    """Return the first plan on the topic; None without one. Raises as `ControlLog`."""
    return _first_plan(log, *log.span())[1]


def plan_of(log: ControlLog, version: int) -> Plan | None:
    """The first plan of this version; None: there is none. Versions rise, so that a few records are enough.

    Raises as `ControlLog`.
    """
    low, end = log.span()
    found: Plan | None = None
    while low < end:
        middle = (low + end) // 2
        offset, plan = _first_plan(log, middle, end)
        if plan is None or plan.version >= version:
            found = plan if plan is not None and plan.version == version else found
            end = middle
        else:
            low = offset + 1
    return found


def _first_plan(log: ControlLog, start: int, end: int) -> tuple[int, Plan | None]:
    while start < end:
        records = log.read(start, end, STEP)
        for record in records:
            if (plan := _plan_in(record)) is not None:
                return record.offset, plan
        if not records:
            break
        start = records[-1].offset + 1
    return end, None


def _plan_in(record: Incoming) -> Plan | None:
    try:
        return plan_in(record)
    except InvalidRecord:  # the topic's followers report it
        return None
