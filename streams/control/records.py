"""Encodes and decodes records of the control topic: plans and what is remembered beside them, and operators' orders.

The plan that readers obey is the one with the highest version that its record's offset allows. This is a function of
the records alone, so that all readers agree, wherever they began to read.
"""

from collections.abc import Callable
from typing import NamedTuple

from planner.control.validity import is_possible
from schemas import topics
from schemas.errors import InvalidRecord
from schemas.messages import Pin, Plan
from schemas.record import Incoming
from streams.codec.avro import decode
from streams.codec.headers import FACT

READ_TO, PIN_AT, VERSION = "read_to", "pin_at", "version"  # facts in a plan's headers
NO_PIN = -1

OnPlan = Callable[[Plan], object]
OnPin = Callable[[Pin | None], None]  # an operator's order; None: there is none any more


def take_in(
    record: Incoming, on_plan: OnPlan, on_pin: OnPin, on_memory: OnPlan = lambda _plan: None
) -> None:  # fmt: skip
    """Hand over what a record of the control topic says. Raises InvalidRecord.

    `on_memory`: takes the plan in force with what its policy remembers by now, and expects.
    """
    if record.key == topics.PIN_KEY.encode():
        pin = decode(record.value, Pin) if record.value else None
        on_pin(pin if pin and (pin.policy or pin.plan_version) else None)
    elif (plan := plan_in(record)) is not None:
        on_plan(plan)
    elif record.key == topics.MEMORY_KEY.encode() and record.value:
        on_memory(decode(record.value, Plan))


def plan_in(record: Incoming) -> Plan | None:
    """Return the plan of a record; None if the record is no plan's. Raises InvalidRecord."""
    if record.key != topics.PLAN_KEY.encode() or not record.value:
        return None
    plan = decode(record.value, Plan)
    if not is_possible(plan.version, record.offset):
        raise InvalidRecord(f"no planner has written the plan at {record.offset}: its version is {plan.version}")
    return plan


def is_foreign(record: Incoming, plan: Plan) -> bool:
    """Whether a plan's headers show that no planner wrote its record. Copied headers are not detected."""
    return record.headers.get(FACT + VERSION) != str(plan.version).encode()


class Place(NamedTuple):
    """A position on the topic: the offset up to which it was read, and the offset of the newest order before it."""

    read_to: int = 0
    pin_at: int = NO_PIN

    def facts(self) -> dict[str, object]:
        """The position as a plan's headers."""
        return {READ_TO: self.read_to, PIN_AT: self.pin_at}


def place_in(record: Incoming) -> Place | None:
    """Return the position in a plan's headers; None if there is none before the record.

    Its planner was of a release that wrote none, or no planner wrote it.
    """
    try:
        place = Place(int(record.headers[FACT + READ_TO]), int(record.headers[FACT + PIN_AT]))
    except (KeyError, ValueError):
        return None
    return place if place.pin_at < place.read_to <= record.offset else None
