"""Reads the control topic for `pochade plan`, and writes an operator's order to it."""

import getpass
from typing import NamedTuple

from agents.writing import outgoing
from schemas import topics
from schemas.errors import PochadeError
from schemas.messages import Pin, Plan
from schemas.record import Incoming
from streams.codec import decode
from streams.producer import KafkaRecordProducer, send_all
from streams.reading import Follower, now_ms
from streams.settings import Settings

READ_S = 15


class Published(NamedTuple):
    """What lies on the control topic."""

    plans: list[Plan]  # those that readers obeyed, the newest last
    pin: Pin | None


def published(settings: Settings) -> Published:
    """Everything up to now. Raises PochadeError when the broker does not answer."""
    plans: list[Plan] = []
    pins: list[Pin | None] = [None]

    def on_record(record: Incoming) -> None:
        if record.key == topics.PIN_KEY.encode():
            found = decode(record.value, Pin) if record.value else None
            pins.append(found if found and (found.policy or found.plan_version) else None)
        elif record.value:
            plan = decode(record.value, Plan)
            if not plans or plan.version > plans[-1].version:
                plans.append(plan)

    follower = Follower(settings, [topics.PLAN], on_record).start()
    try:
        follower.wait_caught_up(READ_S)
    finally:
        follower.close()
    return Published(plans, pins[-1])


def in_force(found: Published) -> Plan:
    """The newest plan. Raises PochadeError where there is none."""
    if not found.plans:
        raise PochadeError("no plan has been published: is a planner running? (`pochade serve planner`)")
    return found.plans[-1]


def of_version(found: Published, version: int) -> Plan:
    """A plan by its version. Raises PochadeError with those that there are."""
    for plan in found.plans:
        if plan.version == version:
            return plan
    newest = in_force(found).version
    raise PochadeError(
        f"there is no plan {version}: the topic holds {found.plans[0].version} to {newest}; "
        "see them with `pochade plan history`"
    )


def order(settings: Settings, policy: str, parameters: dict[str, float], plan_version: int = 0) -> None:
    """Write an order; "" and 0: none, the configured policy plans again."""
    pin = Pin(
        policy=policy, parameters=parameters, by=getpass.getuser(), created_ms=now_ms(), plan_version=plan_version
    )
    producer = KafkaRecordProducer(settings)
    record = outgoing(topics.PLAN, pin, request_id=topics.PIN_KEY, cause={}, role="operator", now_ms=now_ms())
    try:
        send_all(producer, [record], READ_S)
    finally:
        producer.close()
