"""The control topic: reads plans and operators' orders, writes an order."""

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException, Message, TopicPartition

from schemas import topics
from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import Pin, Plan
from schemas.record import Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.codec.headers import stamp
from streams.codec.schema_topic import announce
from streams.control.records import OnPlan, place_in, plan_in, take_in
from streams.control.tail import ControlLog, newest, oldest, plan_of
from streams.kafka.clients import topic_name
from streams.kafka.consumers.polling import incoming
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.transactions.barrier import Barrier, open_reader, read_past
from streams.security.process_user import process_user
from streams.settings import Settings

log = logging.getLogger(__name__)

WRITE_TIMEOUT_S = 15
OBEY_S = 20.0  # for a plan after an order: twice the time until a planner that stands by leads, and plans
SEARCH_S = 0.2  # between two looks whether there is one
NO_PLAN = "no plan has been published: is a planner running? (`pochade serve planner`)"


def read_plans(settings: Settings, on_plan: OnPlan, start: int, barrier: Barrier) -> None:
    """Hand over the plans from an offset to a barrier, which a writer of plans has written.

    Raises PochadeError: the broker does not answer in time.
    """

    def on_records(messages: Sequence[Message]) -> None:
        for message in messages:
            try:
                take_in(incoming(message, settings.kafka.prefix), on_plan, lambda _: None)
            except InvalidRecord:
                metrics.UNUSABLE.labels(topics.PLAN).inc()
                log.exception("a record of %s cannot be used", topics.PLAN)

    reader = open_reader(settings, "plans")
    try:
        read_past(reader, TopicPartition(topic_name(settings, topics.PLAN), 0, start), barrier, on_records)
    except KafkaException as error:
        raise PochadeError(f"cannot read the plans of {settings.kafka.prefix}: {error.args[0].str()}") from error
    finally:
        reader.close()


def plan_of_version(settings: Settings, version: int) -> Plan:
    """The plan of this version that readers obeyed. Raises PochadeError as `of_version`, or for a silent broker."""
    with ControlLog(settings) as control:
        found = plan_of(control, version)
        plans = [found] if found is not None else [oldest(control), newest(control)]
    return of_version([plan for plan in plans if plan is not None], version)


def of_version(plans: Sequence[Plan], version: int) -> Plan:
    """Return the first plan of this version, which is the one that readers obeyed.

    Raises PochadeError: there is none, with those that there are.
    """
    for plan in plans:
        if plan.version == version:
            return plan
    if not plans:
        raise PochadeError(NO_PLAN)
    versions = [plan.version for plan in plans]
    raise PochadeError(
        f"there is no plan {version}: the topic holds {min(versions)} to {max(versions)}; "
        "see them with `pochade plan history`"
    )


def order(
    settings: Settings,
    policy: str = "",
    parameters: Mapping[str, float] | None = None,
    plan_version: int = 0,
    by: str = "",
) -> int:
    """Write an operator's order: a policy, or a plan to go back to; neither: the configured policy plans again.

    Return its offset, for `await_answer`. `by`: who orders it; "": the user of this process.

    Raises PochadeError: the broker does not take it in time.
    """
    now = now_ms()
    pin = Pin(
        policy=policy,
        parameters=dict(parameters or {}),
        by=by or process_user(),
        created_ms=now,
        plan_version=plan_version,
    )
    headers = stamp({}, kind="Pin", source="operator", subject=topics.PIN_KEY, time_ms=now)
    record = Outgoing(topic=topics.PLAN, key=topics.PIN_KEY.encode(), value=encode(pin), headers=headers)
    producer = KafkaRecordProducer(settings)
    try:
        announce(settings, producer, (Pin,))
        return send_all(producer, [record], WRITE_TIMEOUT_S)[0].offset
    finally:
        producer.close()


def await_answer(settings: Settings, offset: int, policy: str = "", within_s: float = OBEY_S) -> str:
    """Wait until a plan answers the order at an offset; return in a sentence which one does.

    `policy`: by which it must be; "": by any. Raises PochadeError: there is none in time, or it is by another policy.
    """
    with ControlLog(settings, within_s + WRITE_TIMEOUT_S) as control:
        plan = _answer(control, offset, time.monotonic() + within_s)
    if plan is None:
        raise PochadeError(
            f"no plan has answered the order within {within_s:g} s: `pochade doctor` says whether a planner leads, and "
            "its log why it makes none; the order holds until `pochade plan unpin`"
        )
    if policy and plan.policy != policy:
        raise PochadeError(
            f"plan {plan.version} by {plan.policy} is in force in spite of the order: {plan.reason}; "
            "the order holds until `pochade plan unpin`"
        )
    return f"plan {plan.version} by {plan.policy} is in force"


def _answer(control: ControlLog, offset: int, until_s: float) -> Plan | None:
    """Return the first plan whose planner had read an order or a later one; None if there is none in time."""
    start = offset + 1
    while True:
        for record in control.read(start, control.span()[1]):
            start = record.offset + 1
            place = place_in(record)
            if place is None or place.pin_at < offset:
                continue
            with contextlib.suppress(InvalidRecord):
                if (plan := plan_in(record)) is not None:
                    return plan
        if time.monotonic() >= until_s:
            return None
        time.sleep(SEARCH_S)
