"""What a supervisor of workers knows: the newest plan, and who lives."""

from schemas.topics import FLEET, PIN_KEY, PLAN, PLAN_KEY
from streams.control.plan_and_fleet import PlanAndFleet
from tests.agents.stubs import a_record
from tests.builders import NOW_MS, a_heartbeat, a_plan


def test_the_newest_plan_counts_and_pins_are_none() -> None:
    topics = PlanAndFleet()
    for version in (2, 1):
        topics.on_record(a_record(a_plan(version=version), topic=PLAN, key=PLAN_KEY.encode()))
    topics.on_record(a_record(a_plan(version=9), topic=PLAN, key=PIN_KEY.encode()))
    plan = topics.plan()
    assert plan is not None
    assert plan.version == 2
    topics.on_record(a_record(a_heartbeat(worker_id="s-1", variant=""), topic=FLEET))
    assert list(topics.live(NOW_MS, 10**15)) == ["s-1"]
