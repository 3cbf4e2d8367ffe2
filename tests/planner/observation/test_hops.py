"""The time between two levels, as results show it."""

from planner.observation.hops import ENOUGH, Hops
from schemas.messages import Stage

JUDGE, HOP, REST = 7, 30, 45  # ms: of the judge, between the levels, and from request to router and image to result


def a_stage(level: str = "light", queue_ms: int = 0, generate_ms: int = 20, confidence: float | None = None) -> Stage:
    return Stage(
        stage=0, level=level, worker_id="w", plan_version=1, queue_ms=queue_ms, generate_ms=generate_ms, batch=1,
        attempt=1, confidence=confidence,
    )  # fmt: skip


def kept(hops: Hops, queue_ms: int, skew_ms: int = 0, at_ms: int = 0) -> None:
    path = (a_stage(queue_ms=queue_ms, generate_ms=20, confidence=0.9),)
    hops.add(path, at_ms, REST + queue_ms + 20 + JUDGE + skew_ms)


def escalated(hops: Hops, queue_ms: int, skew_ms: int = 0, at_ms: int = 0) -> None:
    path = (
        a_stage(queue_ms=3, generate_ms=20, confidence=0.1),
        a_stage(level="heavy", queue_ms=queue_ms, generate_ms=200),
    )
    hops.add(path, at_ms, REST + 3 + 20 + JUDGE + HOP + queue_ms + 200 + skew_ms)


def test_a_hop_is_what_escalation_takes_beside_waits_calls_and_the_judge() -> None:
    hops = Hops()
    for at in range(ENOUGH):
        kept(hops, queue_ms=10 * at)
        escalated(hops, queue_ms=35 * at)
    assert hops.observed_ms() == HOP


def test_a_client_s_clock_and_a_straggler_change_nothing() -> None:
    hops = Hops()
    for _ in range(ENOUGH):
        kept(hops, queue_ms=5, skew_ms=-4000)
        escalated(hops, queue_ms=5, skew_ms=-4000)
    escalated(hops, queue_ms=5, skew_ms=90_000)
    assert hops.observed_ms() == HOP


def test_topics_that_take_longer_under_load_change_nothing() -> None:
    """In a burst more drafts are kept, and all requests take 200 ms more to their first job."""
    hops = Hops()
    for at in range(ENOUGH):
        escalated(hops, queue_ms=5, at_ms=at)
        kept(hops, queue_ms=5, at_ms=100_000 + at, skew_ms=200)
    kept(hops, queue_ms=5, at_ms=30)
    assert hops.observed_ms() == HOP


def test_it_is_unknown_before_enough_of_both_kinds_and_after_a_pause() -> None:
    hops = Hops()
    for _ in range(ENOUGH):
        escalated(hops, queue_ms=5)
    assert hops.observed_ms() is None
    for _ in range(ENOUGH):
        hops.add((a_stage(),), 0, 900)  # straight to heavy: no judge looked at it
    assert hops.observed_ms() is None
    for _ in range(ENOUGH):
        kept(hops, queue_ms=5)
    assert hops.observed_ms() == HOP
    hops.clear()
    assert hops.observed_ms() is None
