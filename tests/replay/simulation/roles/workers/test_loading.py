"""Live and simulated workers reckon alike with the time that their jobs wait for components."""

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agents.components.opening import Keeping
from agents.components.profiled import ProfiledDevice, ProfiledSource, open_profiled
from agents.components.store import ComponentStore
from agents.engines import Generated, GenerationTask
from agents.worker.driving import WindowDriver
from agents.worker.jobs import Taken
from planner.catalog.options import ResolvedOptions
from planner.components.component import Component, Tier
from planner.components.eviction import utility
from planner.components.from_catalog import of_variant, requested
from planner.serving.dispatch.worker import PACE_OVER, WorkerLogic
from replay.simulation.component_setup import ComponentSetup
from replay.simulation.event_queue import EventQueue
from replay.simulation.roles.workers.component_state import ComponentState
from schemas.messages import CallTimes, GenerateOptions, Outcome, Status
from schemas.topics import IMAGES
from streams.clock import now_ms
from streams.settings import WorkerComponentSettings
from tests.agents.stubs import StubEngine, a_record, read
from tests.agents.worker.driving import a_driver, answers
from tests.builders import a_classified, a_job, a_plan, a_request
from tests.memory_store import MemoryImageStore
from tests.replay.simulation.test_components import LOAD_MS, ROOMY, RUN_MS, catalog_of, ran, requests, setup_of

STORY = ("a", "a+x", "b", "a", "a+x", "a", "c", "a")
Said = list[tuple[str, float]]


class LoadingEngine(StubEngine):
    """A live engine whose components move at once, and which says that they took what they take."""

    def __init__(self) -> None:
        super().__init__()
        settings = WorkerComponentSettings(host_bytes=ROOMY.host, device_bytes=ROOMY.device)
        self.store = open_profiled(catalog_of().level("light"), Keeping(settings=settings), sleep=_at_once)

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: Callable[[], bool], **more: Any
    ) -> Generated | None:
        assert self.store is not None
        ids = requested(how.components).ids
        load_ms = self.store.lacking_ms(ids)
        self.store.bring(ids)
        generated = super().generate(tasks, how, should_stop, **more)
        return None if generated is None else generated._replace(times=CallTimes(load_ms=load_ms))


def a_generator() -> WindowDriver:
    engine = LoadingEngine()
    return a_driver("w-0", engine, catalog_of().level("light"), MemoryImageStore(), set(), 3)


def taken(asked: str, **request: Any) -> Taken:
    base, _, adapter = asked.partition("+")
    options = GenerateOptions(model=base, adapters=(adapter,) if adapter else ())
    return Taken(a_record(a_job(a_classified(a_request(options=options, **request)))), 1)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    """What is in hand as each call begins, and what a job that waits counts as after each window."""
    found: Said = []
    loading, end = WorkerLogic.on_loading, WorkerLogic.end

    def on_loading(self: WorkerLogic, load_ms: float) -> None:
        loading(self, load_ms)
        found.append(("in hand", self.in_hand_ms))

    def on_end(self: WorkerLogic) -> None:
        end(self)
        found.append(("waits", self.waiting_ms(1)))

    monkeypatch.setattr(WorkerLogic, "on_loading", on_loading)
    monkeypatch.setattr(WorkerLogic, "end", on_end)
    return found


def test_both_say_the_same_of_a_call_that_loads_and_of_jobs_that_wait_behind_it(said: Said) -> None:
    ran(requests(20_000, *STORY), setup_of(catalog_of()))
    simulated = said.copy()
    said.clear()
    generator = a_generator()
    for asked in STORY:
        generator.worker.begin([taken(asked)], 1)
        answers(generator, [taken(asked)])
        generator.worker.end()
    assert _rounded(said) == _rounded(simulated)
    first_waits_ms = RUN_MS + LOAD_MS["remote"] / PACE_OVER
    assert _rounded(said[:3]) == [("in hand", RUN_MS + 4000), ("waits", first_waits_ms), ("in hand", RUN_MS + 400)]


def _rounded(said: Said) -> Said:
    return [(what, round(ms, 6)) for what, ms in said]


@pytest.mark.parametrize(("slack_ms", "begins"), [(RUN_MS + 4000 + 500, True), (RUN_MS + 4000 - 500, False)])
def test_a_live_worker_begins_no_job_whose_components_load_beyond_its_deadline(slack_ms: float, begins: bool) -> None:
    generator = a_generator()
    (answer,) = answers(generator, [taken("a", deadline_ms=now_ms() + round(slack_ms))])
    if begins:
        assert answer.topic == IMAGES
    else:
        assert read(answer, Outcome).status == Status.EXPIRED


def test_both_remember_uses_for_as_long_and_evict_the_same_components() -> None:
    known, clock = of_variant(catalog_of().level("light")), EventQueue()
    budgets = dataclasses.replace(ROOMY, device=2_000)  # two of three bases
    store = ComponentStore(
        known, budgets, ProfiledSource(known, _at_once), ProfiledDevice(known, _at_once), clock_ms=lambda: clock.now_ms
    )
    store.evict_by(utility)
    state = ComponentState("w-0", known, ComponentSetup(budgets=budgets, eviction="utility"))
    state.follow(a_plan())
    dice = random.Random(1)
    for _ in range(400):
        clock.advance(clock.now_ms + dice.choice((1000.0, 60_000.0, 1_800_000.0)))
        ids = [f"base:{dice.choice('aaabbc')}"]
        store.bring(ids)
        state.tiers.use(ids, clock.now_ms)
        assert store.resident_ids(Tier.DEVICE) == state.tiers.resident(Tier.DEVICE)
    store.close()


def _at_once(seconds: float) -> None:
    del seconds


def test_a_live_worker_whose_combination_is_fused_on_its_device_loads_nothing_for_it() -> None:
    catalog = catalog_of()
    store = open_profiled(catalog.level("light"), Keeping(), sleep=_at_once)
    assert store is not None
    store.bring(["base:a", "adapter:x"])
    known = store.lacking_ms(["base:a", "adapter:y"], "fused:a+y@1")
    assert known == 400.0
    store.add_fused(Component(id="fused:a+y@1", bytes=1, load_ms={}), ["base:a"])
    assert store.lacking_ms(["base:a", "adapter:y"], "fused:a+y@1") == 0.0
    assert store.lacking_ms(["base:a", "adapter:y"], "fused:a+y@0.5") == 400.0
    store.close()
