"""The control topic: reads plans and operators' orders, writes an order."""

import logging
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
from streams.control.records import OnPlan, take_in
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
ORDERED = "ordered: the leading planner follows within its next period"  # how an order ended, for its record
NO_PLAN = "no plan has been published: is a planner running? (`pochade serve planner`)"


def read_plans(settings: Settings, on_plan: OnPlan, start: int, barrier: Barrier) -> None:
    """Hand over the plans from an offset to a barrier, which whoever may write plans has written.

    Raises:
        PochadeError: the broker does not answer in time.
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

    Raises:
        PochadeError: there is none, with those that there are.
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
) -> None:
    """Write an operator's order: a policy, or a plan to go back to; neither: the configured policy plans again.

    `by`: who orders it; "": the user of this process.

    Raises:
        PochadeError: the broker does not take it in time.
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
        send_all(producer, [record], WRITE_TIMEOUT_S)
    finally:
        producer.close()
