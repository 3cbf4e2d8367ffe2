"""When a demo freezes the vector store, and what it tells of the planner's strategy."""

import signal
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from replay import demo_reuse
from replay.demo_options import Reuse
from replay.demo_reuse import AS_PUBLISHED, GUARDED, NO_PROFILE, NOT_OURS, ReuseShow
from replay.local.freezing import StoreFreezer
from schemas.messages import Plan
from streams.settings import load
from tests.builders import a_plan


class Run:
    """A run of 100 requests whose plans, clock and signals a test decides."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        reuse: Reuse = Reuse.SHOWN,
        *,
        owns_vectors: bool = True,
        policy: str = "argus",
        guarded: float = 1,
    ) -> None:
        self.now_ms, self.hits = 1_000_000.0, 5
        self.plans, self.notes, self.signals = list[Plan](), list[str](), list[signal.Signals]()
        monkeypatch.setattr(demo_reuse, "epoch_ms", lambda: self.now_ms)
        monkeypatch.setattr(
            demo_reuse,
            "StoreFreezer",
            lambda _pid, lasts_s, clock: StoreFreezer(lambda: 7, lasts_s, clock, lambda _, s: self.signals.append(s)),
        )
        hosted: Any = SimpleNamespace(
            settings=load({"planner": {"policy": policy, "parameters": {"overprovision": 4.4, "guarded": guarded}}}),
            owns_vectors=owns_vectors,
            ready=SimpleNamespace(plans=lambda: self.plans, reused=lambda: self.hits),
        )
        self.show = ReuseShow(reuse, hosted, 15.0, self.notes.append)

    def plan(self, strategy: str) -> None:
        version = len(self.plans) + 1
        self.plans.append(
            a_plan(version=version, strategy=strategy, created_ms=round(self.now_ms), reason=f"reason {version}")
        )

    def tick(self, sent: int, after_s: float = 1.0) -> None:
        self.now_ms += 1000 * after_s
        driver: Any = SimpleNamespace(total=100, counts=lambda: (sent, 0, []))
        self.show.on_tick(driver)


def test_the_store_is_frozen_after_a_fifth_of_the_requests_and_goes_on_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch)
    with ExitStack() as stack:
        run.show.start(stack)
        run.plan("reuse")
        run.tick(19)
        assert run.signals == []
        run.tick(20)
        assert run.signals == [signal.SIGSTOP]
        run.tick(60, after_s=14.9)
        assert run.signals == [signal.SIGSTOP]
        run.tick(61, after_s=0.1)
    assert run.signals == [signal.SIGSTOP, signal.SIGCONT]
    course = run.show.finish()
    assert course is not None
    assert course.frozen.ended_ms - course.frozen.began_ms == 15_000


def test_each_switch_of_strategy_is_told_once_in_the_plans_words(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    for strategy in ("reuse", "models", "models", "reuse"):
        run.plan(strategy)
        run.tick(1)
        run.tick(1)
    told = [note for note in run.notes if "switches" in note]
    assert told == [
        "plan 2 switches the strategy from reuse to models: reason 2",
        "plan 4 switches the strategy from models to reuse: reason 4",
    ]


def test_a_store_is_not_frozen_while_no_plan_reuses_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    run.plan("models")
    run.tick(90)
    assert run.signals == []
    run.plan("reuse")
    run.tick(91)
    assert run.signals == [signal.SIGSTOP]


def test_a_store_is_not_frozen_before_some_images_were_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    run.plan("reuse")
    run.hits = 4
    run.tick(90)
    assert run.signals == []
    run.hits = 5
    run.tick(91)
    assert run.signals == [signal.SIGSTOP]


def test_a_store_that_somebody_else_started_is_never_frozen_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, owns_vectors=False)
    with ExitStack() as stack:
        run.show.start(stack)
        run.plan("reuse")
        run.tick(50)
    assert NOT_OURS in run.notes
    assert run.signals == []


def test_a_run_that_ends_while_the_store_is_frozen_lets_it_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    with ExitStack() as stack:
        run.show.start(stack)
        run.plan("reuse")
        run.tick(20)
    assert run.signals == [signal.SIGSTOP, signal.SIGCONT]


def test_a_catalog_without_measurements_is_told_of_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, Reuse.UNMEASURED)
    with ExitStack() as stack:
        run.show.start(stack)
        run.tick(50)
    assert run.notes == [NO_PROFILE]
    assert run.show.finish() is None


@pytest.mark.parametrize(
    ("policy", "guarded", "said"),
    [("argus", 1, [GUARDED]), ("argus", 0, [AS_PUBLISHED]), ("nirvana", 0, [])],
)
def test_a_demo_says_whether_reused_images_may_show_facts_of_others(
    monkeypatch: pytest.MonkeyPatch, policy: str, guarded: float, said: list[str]
) -> None:
    run = Run(monkeypatch, policy=policy, guarded=guarded)
    with ExitStack() as stack:
        run.show.start(stack)
    assert [note for note in run.notes if note in (GUARDED, AS_PUBLISHED)] == said
