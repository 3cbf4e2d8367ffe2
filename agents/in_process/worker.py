"""A worker in this process: serves the variant that the plan gives it, window by window, as `agents/worker/role.py`."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from agents.components.opening import Keeping
from agents.engines import OpenedEngine, open_engine
from agents.in_process.bus import Bus
from agents.in_process.jobs import JobQueue
from agents.runtime.records import outgoing
from agents.runtime.request_views import PoisonView
from agents.runtime.views import EndedView, FleetView, PlanView
from agents.worker.driving import WindowDriver
from agents.worker.stages import Stages
from agents.worker.work import WorkerViews
from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.observation.workers import SICK, WorkerView, live_workers
from planner.serving.dispatch.worker import (
    POLL_MS,
    WorkerLogic,
    idle_state,
    remaining_ms,
    reported_state,
    waiting_state,
    working_state,
)
from planner.serving.dispatch.worker_loads import wanted_variant
from planner.serving.generating.effects import Call, Check, Done, Wait
from planner.serving.routing.refuge import RefugeLogic
from schemas import topics
from schemas.messages import Heartbeat, OwnedPartition
from streams.clock import now_ms
from streams.settings import Settings
from streams.store.port import ImageStore


class Surroundings(NamedTuple):
    """What the workers of a process share."""

    settings: Settings
    catalog: Catalog
    bus: Bus
    queues: Mapping[str, JobQueue]  # by variant
    plans: PlanView
    ended: EndedView
    fleet: FleetView
    poison: PoisonView
    store: ImageStore
    stages: Stages
    slo_ms: float
    takes_virtual_time: bool = False  # calls and loads take the time that the catalog says, and no other


class LocalWorker:
    """One worker. `run` serves until its task is cancelled, which is a death: `leave` hands over what it had."""

    def __init__(self, worker_id: str, around: Surroundings) -> None:
        self.worker_id, self._around = worker_id, around
        self._refuges = RefugeLogic(around.catalog, around.slo_ms)
        self._state, self._variant = "starting", ""
        self._logic: WorkerLogic | None = None  # while it serves a variant
        self._busy_ms: int | None = None  # since when it has a window in hand
        self._generated = 0

    async def run(self) -> None:
        """Serve what the plans in force give it."""
        beating = asyncio.create_task(self._beat_for_ever())
        try:
            while True:
                wanted = self._wanted()
                if wanted is None:
                    await asyncio.sleep(POLL_MS / 1000)
                else:
                    await self._serve(wanted)
        finally:
            beating.cancel()

    def leave(self) -> None:
        """Let others have its partitions and what it had in hand."""
        if self._logic is not None:
            self._around.queues[self._variant].leave(self.worker_id)
            self._logic = None

    def _wanted(self) -> Variant | None:
        plan = self._around.plans.plan
        if plan is None:
            return None
        self._refuges.obey(plan)
        name = wanted_variant(self.worker_id, "", plan)
        return self._around.catalog.level(name) if name else None

    async def _serve(self, variant: Variant) -> None:
        around = self._around
        self._become("loading", variant.name)
        engine = await self._open(variant)
        queue = around.queues[variant.name]
        views = WorkerViews(
            engine, variant, around.catalog, lambda: around.plans.plan, around.ended, around.poison,
            worker_id=self.worker_id, loads=around.fleet.loads, price_per_hour=around.settings.worker.price_per_hour,
        )  # fmt: skip
        driver = WindowDriver(
            self.worker_id, views, around.store, self._refuges, around.settings.worker.max_attempts,
            note=around.bus.send, stages=around.stages, png_text=around.settings.worker.png_text,
            on_sick=lambda _reason, _counts: self._become(SICK, variant.name),
        )  # fmt: skip
        queue.join(self.worker_id)
        self._logic = driver.worker
        try:
            self._become("ready", variant.name)
            while not await self._serve_once(views, queue, driver):
                pass
            queue.leave(self.worker_id)
            self._logic = None
        finally:
            driver.close()
            engine.close()

    async def _open(self, variant: Variant) -> OpenedEngine:
        settings = self._around.settings
        name = settings.worker.engine or variant.engine
        if not self._around.takes_virtual_time:
            return await asyncio.to_thread(open_engine, name, variant, settings.worker.threads, Keeping.of(settings))
        await asyncio.sleep(variant.load_ms / 1000)
        at_once = replace(variant, load_ms=0.0, latency_ms=dict.fromkeys(variant.latency_ms, 1e-3))
        return open_engine("profile", at_once, 1, Keeping.of(settings))

    async def _serve_once(self, views: WorkerViews, queue: JobQueue, driver: WindowDriver) -> bool:
        """Do one window of work; return whether the plan wants another variant here and this one may be left."""
        plan, variant, logic = self._around.plans.plan, views.variant, driver.worker
        assert plan is not None, "a plan gave it the variant"
        self._refuges.obey(plan)
        turn = logic.turn(self.worker_id, plan, self._live, now_ms())
        if turn.leaves:
            return True
        window = queue.take(self.worker_id, turn.max_jobs)
        if not window:
            self._become(waiting_state(self._state, turn.is_leaving), variant.name)
            if turn.is_leaving and logic.may_leave_empty(now_ms()):
                return True
            await asyncio.sleep(POLL_MS / 1000)
            return False
        driver.begin(window, turn.batch)
        self._busy_ms, self._state = now_ms(), working_state(turn.is_leaving)
        self._beat()
        driver.start(self._around.bus.write)
        while (effect := driver.take()) is not None:
            match effect:
                case Call(_, jobs):
                    started = driver.begin_call(effect)
                    if self._around.takes_virtual_time:
                        await asyncio.sleep(views.call_ms(jobs) / 1000)
                    driver.give(await asyncio.to_thread(driver.generate, effect, started))
                case Check():
                    driver.give(await asyncio.to_thread(driver.carry_out, effect))
                case Wait(id_, _, ms):
                    queue.absolve(self.worker_id)
                    await asyncio.sleep(ms / 1000)
                    driver.give(Done(id_))
                case _:
                    driver.give(driver.carry_out(effect))
        queue.commit(self.worker_id)
        driver.logic.end()
        self._busy_ms, self._generated = None, self._generated + len(window)
        if driver.logic.is_sick:
            return True  # it loads the variant anew, which is all that this process can do
        self._become(idle_state(turn.is_leaving), variant.name, is_news=True)
        return False

    def _live(self) -> Iterable[WorkerView]:
        silent_ms = self._around.settings.planner.worker_timeout_ms
        return live_workers(self._around.fleet.heartbeats, now_ms(), silent_ms)

    def _become(self, state: str, variant: str, *, is_news: bool = False) -> None:
        is_news |= (state, variant) != (self._state, self._variant)
        self._state, self._variant = state, variant
        if is_news:
            self._beat()

    async def _beat_for_ever(self) -> None:
        while True:
            self._beat()
            await asyncio.sleep(self._around.settings.worker.heartbeat_ms / 1000)

    def _beat(self) -> None:
        around, logic = self._around, self._logic
        if around.bus.loses_heartbeat():
            return
        state, elapsed_ms = self._state, 0 if self._busy_ms is None else now_ms() - self._busy_ms
        if logic is not None and self._busy_ms is not None:
            state = reported_state(state, logic.in_hand_ms, elapsed_ms)
        plan = around.plans.plan
        heartbeat = Heartbeat(
            worker_id=self.worker_id, state=state, variant=self._variant, plan_version=plan.version if plan else 0,
            sent_ms=now_ms(), partitions=self._partitions(elapsed_ms), generated=self._generated,
            slowness=logic.slowness if logic is not None else 1.0,
        )  # fmt: skip
        around.bus.write(
            outgoing(topics.FLEET, heartbeat, request_id=self.worker_id, cause={}, role="worker", now_ms=now_ms())
        )

    def _partitions(self, elapsed_ms: int) -> tuple[OwnedPartition, ...]:
        logic, around = self._logic, self._around
        if logic is None:
            return ()
        topic = topics.jobs_topic(self._variant, 1).name
        in_hand_ms = remaining_ms(logic.in_hand_ms, elapsed_ms) if self._busy_ms is not None else 0.0
        return tuple(
            OwnedPartition(
                partition=at, end_offset=around.bus.end(topic, at),
                remaining_ms=round(logic.waiting_ms(jobs) + (in_hand_ms if not place else 0.0)),
            )
            for place, (at, jobs) in enumerate(around.queues[self._variant].owned(self.worker_id).items())
        )  # fmt: skip
