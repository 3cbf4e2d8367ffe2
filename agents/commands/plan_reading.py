"""Reads the control topic for `pochade plan`."""

import logging
from typing import NamedTuple

from planner.control.validity import is_newer
from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import Pin, Plan
from streams.control.records import take_in
from streams.control.tail import ControlLog, plan_of, tail
from streams.control.topic import NO_PLAN
from streams.settings import Settings

_log = logging.getLogger(__name__)

READ_S = 15
MAX_RECORDS = 5000  # records from the end: a topic may hold a month of them


class Published(NamedTuple):
    """The plans and the order on the control topic."""

    plans: list[Plan]  # those that readers obeyed, the newest last
    pin: Pin | None


def published(settings: Settings, *versions: int, most: int = MAX_RECORDS) -> Published:
    """The newest up to now, and these versions. Raises PochadeError when the broker does not answer."""
    plans: list[Plan] = []
    pins: list[Pin | None] = [None]

    def on_plan(plan: Plan) -> None:
        if is_newer(plans[-1].version if plans else 0, plan):
            plans.append(plan)

    with ControlLog(settings, READ_S) as log:
        low, high = log.span()
        begin, start = tail(log, lambda _plan: True), max(low, high - most)
        order = [begin.pin] if begin.pin is not None and begin.pin.offset < start else []
        for record in (*order, *log.read(start, high)):
            try:
                take_in(record, on_plan, pins.append)
            except InvalidRecord as invalid:
                _log.warning("what lies at %d of the control topic is no plan: %s", record.offset, invalid)
        oldest = plans[0].version if plans else 0
        earlier = [plan_of(log, version) for version in sorted(set(versions)) if 0 < version < oldest]
    return Published([plan for plan in earlier if plan is not None] + plans, pins[-1])


def in_force(found: Published) -> Plan:
    """Return the newest plan. Raises PochadeError where there is none."""
    if not found.plans:
        raise PochadeError(NO_PLAN)
    return found.plans[-1]


def one_before(found: Published, plan: Plan) -> Plan:
    """The plan that was obeyed before another one. Raises PochadeError where the topic holds none."""
    earlier = [each for each in found.plans if each.version < plan.version]
    if not earlier:
        raise PochadeError(f"plan {plan.version} is the first that the topic holds: there is none before it")
    return earlier[-1]
