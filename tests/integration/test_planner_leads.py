"""Two planners on the real broker: one leads, the other is refused, and takes over when the leader falls silent."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from agents.planner.loop import PlannerLoop
from agents.runtime.following import FollowedFleet, FollowedPlans
from streams.clock import now_ms
from streams.control.history import published
from streams.kafka.topics import create_topics
from streams.kafka.transactions.lease import KafkaLease
from streams.settings import Settings
from tests.builders import a_catalog
from tests.integration.waiting import poll_until

pytestmark = pytest.mark.broker


@pytest.fixture
def new_planner(settings: Settings) -> Iterator[Callable[[str], PlannerLoop]]:
    create_topics(settings)
    with contextlib.ExitStack() as stack:

        def new(policy: str) -> PlannerLoop:
            own = settings.model_copy(update={"planner": settings.planner.model_copy(update={"policy": policy})})
            views = FollowedPlans(own, "planner", a_catalog()), FollowedFleet(own)
            lease = KafkaLease(own)
            for opened in (*views, lease):
                stack.callback(opened.close)
            for view in views:
                view.start()
            for view in views:
                view.wait_caught_up()
            return PlannerLoop(own, a_catalog(), lease, *views)

        yield new


@pytest.fixture
def lease(settings: Settings) -> Iterator[KafkaLease]:
    """To look at the beats; it holds nothing."""
    with contextlib.closing(KafkaLease(settings)) as looking:
        yield looking


def test_the_newer_planner_leads_and_the_older_takes_over_from_its_silence(
    settings: Settings, new_planner: Callable[[str], PlannerLoop], lease: KafkaLease
) -> None:
    def decided() -> list[tuple[int, str]]:
        return [(plan.version, plan.policy) for plan in published(settings).plans]

    def leads(planner: PlannerLoop, count: int) -> bool:
        """Step, and whether `count` plans are there: what a busy broker does not take in time is lost."""
        planner.step(1000, now_ms())
        return len(decided()) >= count

    older, newer = new_planner("clipper-light"), new_planner("clipper-heavy")
    poll_until(lambda: leads(older, 1), "the older planner's plan")
    assert decided() == [(1, "clipper-light")]
    poll_until(lambda: leads(newer, 2), "the newer planner's plan")
    assert decided() == [(1, "clipper-light"), (2, "clipper-heavy")], "it read the plan before it before it planned"
    older.step(2000, now_ms() + 60_000)  # a plan of its own is due, if it could write
    assert decided() == [(1, "clipper-light"), (2, "clipper-heavy")]
    begun = now_ms()
    newer.step(2500, now_ms())
    poll_until(lambda: lease.last_beat() >= begun, "the leader's beat can be read")
    older.step(3000, now_ms())
    older.step(4000, now_ms())
    assert len(decided()) == 2, "the leader was seen"
    older.step(8000, now_ms() + 60_000)
    assert decided() == [(1, "clipper-light"), (2, "clipper-heavy"), (3, "clipper-light")]
    newer.step(9000, now_ms() + 120_000)
    assert len(decided()) == 3, "the former leader is refused"
