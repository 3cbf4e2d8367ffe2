"""Reads the control topic for `pochade plan`."""

from typing import NamedTuple

from planner.plans import newer
from schemas.errors import PochadeError
from schemas.messages import Pin, Plan
from streams.control import NO_PLAN, read_control
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

    def on_plan(plan: Plan) -> None:
        if newer(plans[-1].version if plans else 0, plan):
            plans.append(plan)

    read_control(settings, on_plan, pins.append, within_s=READ_S)
    return Published(plans, pins[-1])


def in_force(found: Published) -> Plan:
    """The newest plan. Raises PochadeError where there is none."""
    if not found.plans:
        raise PochadeError(NO_PLAN)
    return found.plans[-1]


def one_before(found: Published, plan: Plan) -> Plan:
    """The plan that was obeyed before another one. Raises PochadeError where the topic holds none."""
    earlier = [each for each in found.plans if each.version < plan.version]
    if not earlier:
        raise PochadeError(f"plan {plan.version} is the first that the topic holds: there is none before it")
    return earlier[-1]
