"""Reads the control topic for `pochade plan`."""

import logging
from typing import NamedTuple

from planner.control.renewal.same_plan import remembering
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
    ordered_after: int = 0  # version of the newest plan when the order was given; 0: older than what was read


def published(settings: Settings, *versions: int, most: int = MAX_RECORDS) -> Published:
    """Read the newest plans up to now, and these versions. Raises PochadeError when the broker does not answer."""
    plans: list[Plan] = []
    pins: list[Pin | None] = [None]
    ordered_after = 0

    def on_plan(plan: Plan) -> None:
        if is_newer(plans[-1].version if plans else 0, plan):
            plans.append(plan)

    def on_memory(plan: Plan) -> None:
        plans[-1:] = [remembering(each, plan) for each in plans[-1:]]

    def on_order(pin: Pin | None) -> None:
        nonlocal ordered_after
        pins.append(pin)
        ordered_after = plans[-1].version if plans else 0

    with ControlLog(settings, READ_S) as log:
        low, high = log.span()
        begin, start = tail(log, lambda _plan: True), max(low, high - most)
        order = [begin.pin] if begin.pin is not None and begin.pin.offset < start else []
        for record in (*order, *log.read(start, high)):
            try:
                take_in(record, on_plan, on_order, on_memory)
            except InvalidRecord as invalid:
                _log.warning("what lies at %d of the control topic is no plan: %s", record.offset, invalid)
        oldest = plans[0].version if plans else 0
        earlier = [plan_of(log, version) for version in sorted(set(versions)) if 0 < version < oldest]
    return Published([plan for plan in earlier if plan is not None] + plans, pins[-1], ordered_after)


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


def one_undone(found: Published) -> Plan:
    """The plan that a rollback from the plan in force returns to.

    It is the newest plan of another policy, or from before the operator's order that holds. Where there is neither, it
    is the plan before. Raises PochadeError where the topic holds none.
    """
    now = in_force(found)
    before_order = found.ordered_after if found.pin is not None else 0
    for plan in reversed(found.plans):
        if plan.policy != now.policy or plan.version <= before_order:
            return plan
    return one_before(found, now)
