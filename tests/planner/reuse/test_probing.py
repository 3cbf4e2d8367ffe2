"""When a worker tests the stores in the background."""

from planner.reuse.breaker import Breaker, Call
from planner.reuse.probing import is_idle, probe_due
from schemas.messages import Route
from tests.builders import a_plan, a_reuse_plan


def test_a_fleet_that_is_away_is_idle_and_one_whose_jobs_ask_is_not() -> None:
    plain, later = (Route(levels={"heavy": 1.0}),), (Route(levels={"heavy~k4": 1.0}),)
    assert is_idle(a_plan(reuse=a_reuse_plan(), routes=plain))
    assert not is_idle(a_plan(reuse=a_reuse_plan(), routes=later)), "beside models, as one plan may"
    assert not is_idle(a_plan(reuse=a_reuse_plan(), routes=plain, strategy="reuse"))
    assert not is_idle(a_plan(routes=plain)), "nobody asks for reuse"


def test_behind_a_closed_breaker_only_the_idle_probe_once_a_period() -> None:
    assert not probe_due(Breaker(), 0.0, 5000.0, is_idle=False)
    assert not probe_due(Breaker(), 0.0, 4999.0, is_idle=True)
    assert probe_due(Breaker(), 0.0, 5000.0, is_idle=True)
    assert probe_due(Breaker(), 9000.0, 5000.0, is_idle=True), "a clock that jumps back probes at once"


def test_behind_an_open_breaker_the_breaker_says_when() -> None:
    breaker = Breaker()
    for _ in range(5):
        breaker = breaker.after_call(Call(100.0, has_failed=True), 1000.0)
    assert not probe_due(breaker, 0.0, 5999.0, is_idle=True)
    assert probe_due(breaker, 5999.0, 6000.0, is_idle=False)
