"""Encodes and decodes records of the control topic: plans, an operator's orders, and how far a planner had read."""

from collections.abc import Callable
from typing import NamedTuple

from schemas import topics
from schemas.messages import Pin, Plan
from schemas.record import Incoming
from streams.codec.avro import decode
from streams.codec.headers import FACT

READ_TO, PIN_AT = "read_to", "pin_at"  # facts in a plan's headers
NO_PIN = -1

OnPlan = Callable[[Plan], object]
OnPin = Callable[[Pin | None], None]  # an operator's order; None: there is none any more


def take_in(record: Incoming, on_plan: OnPlan, on_pin: OnPin) -> None:
    """Hand over what a record of the control topic says."""
    if record.key == topics.PIN_KEY.encode():
        pin = decode(record.value, Pin) if record.value else None
        on_pin(pin if pin and (pin.policy or pin.plan_version) else None)
    elif record.key == topics.PLAN_KEY.encode() and record.value:
        on_plan(decode(record.value, Plan))


class Place(NamedTuple):
    """A position on the topic: the offset up to which it was read, and the offset of the newest order before it."""

    read_to: int = 0
    pin_at: int = NO_PIN

    def facts(self) -> dict[str, object]:
        """The position as a plan's headers."""
        return {READ_TO: self.read_to, PIN_AT: self.pin_at}


def place_in(record: Incoming) -> Place | None:
    """Return the position in a plan's headers; None if its planner was of a release that wrote none."""
    try:
        return Place(int(record.headers[FACT + READ_TO]), int(record.headers[FACT + PIN_AT]))
    except (KeyError, ValueError):
        return None
