"""What calls for a plan, and what does not."""

import pytest

from planner.control.replan import Signals, why_now

PERIOD_MS = 5000
CALM = Signals(("w-1", "w-2"), (), 500.0)


@pytest.mark.parametrize(
    ("changed", "since_ms", "told"),
    [
        (CALM, 4999, ""),
        (CALM, 5000, "the period is over"),
        (CALM._replace(workers=("w-1",)), 0, "w-2 is lost"),
        (CALM._replace(workers=("w-1", "w-2", "w-3")), 0, "w-3 joined"),
        (CALM._replace(workers=("w-1", "w-3")), 0, "w-2 is lost; w-3 joined"),
        (CALM._replace(pin=("p", "{}")), 0, "an operator's order"),
        (CALM._replace(backlog_ms=2001.0), 1000, "the backlog grew from 0.5 to 2.0 s a worker"),
        (CALM._replace(backlog_ms=2001.0), 999, ""),
        (CALM._replace(backlog_ms=2000.0), 1000, ""),
        (CALM._replace(backlog_ms=0.0), 1000, ""),
    ],
)
def test_a_plan_is_due_for_a_reason(changed: Signals, since_ms: int, told: str) -> None:
    assert why_now(CALM, changed, since_ms, PERIOD_MS) == told


def test_the_first_plan_is_due_at_once() -> None:
    assert why_now(None, CALM, 0, PERIOD_MS) == "the first plan"
