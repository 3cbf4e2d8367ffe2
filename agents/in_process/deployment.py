"""All roles of a deployment in one process, on topics in memory: for a first image, notebooks, and tests.

The roles are the live ones, and so are their machines, the engines and the store; Kafka and its guarantees are not
here: what is in memory is lost with the process. Left out are the gateway, the console and the indexer, so that no
image begins from a stored latent.

    async with InProcess(settings, workers=2) as deployment:
        result = await deployment.generate(GenerateRequest(...))
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from agents.classifier.judges import PromptJudge, open_judge
from agents.discriminator.scorers import Scorer, open_scorers
from agents.in_process.bus import Bus, Faults
from agents.in_process.jobs import JobQueue
from agents.in_process.stand_ins import LocalLease, LocalLedger, LocalPlans, LocalWaiting
from agents.in_process.worker import LocalWorker, Surroundings
from agents.planner.loop import PlannerLoop
from agents.router.dispatcher import Dispatcher
from agents.router.reroute import WAITS, Rerouting, orphan_routing_of
from agents.router.waiting.forwarder import MAX_RETRY_MS, Forwarder
from agents.runtime.features import check_settings, stages_of
from agents.runtime.records import outcome_record
from agents.runtime.request_views import InFlightView, PoisonView
from agents.runtime.stream_roles import classifiers_of, discriminator_of, router_of, soft_slo_of
from agents.runtime.views import EndedView, FleetView, WaitingCounts
from planner.catalog.model import Catalog
from planner.control.planning import TICK_MS
from planner.observation.workers import SERVING, ReceivedHeartbeat
from planner.serving.dispatch.worker import POLL_MS
from planner.serving.ending.outcomes import cancelled
from schemas import topics
from schemas.errors import PochadeError
from schemas.messages import Event, GenerateRequest, Plan, Result
from schemas.record import Incoming, Outgoing
from streams import catalogs
from streams.clock import now_ms
from streams.codec.avro import decode, decode_result, encode
from streams.faust.host import StreamLogic
from streams.settings import Settings
from streams.store.open import open_store
from streams.store.port import ImageStore

SESSION_MS: Final = 3000.0  # after a worker's death, until others get what it had in hand
SWEEP_MS: Final = 1000.0  # between two searches for jobs whose variant no worker serves


class InProcess:
    """A deployment. Belongs to one event loop; use it as an asynchronous context manager."""

    def __init__(
        self, settings: Settings, *, workers: int = 2, catalog: Catalog | None = None, store: ImageStore | None = None,
        judge: PromptJudge | None = None, scorers: Mapping[str, Scorer] | None = None, plan: Plan | None = None,
        faults: Faults | None = None, takes_virtual_time: bool = False,
    ) -> None:  # fmt: skip
        """`plan`: obeyed as it is; None: the planner of the settings makes plans. What is None is as the settings say.

        `takes_virtual_time`: calls take the profiled time on the loop's clock, and draw cards.
        """
        self.settings, self._workers = settings, workers
        self._catalog = catalog or catalogs.load(settings.catalog)
        self._measured = catalog or catalogs.measured(settings.catalog)
        self.store = store or open_store(settings)
        self._judge, self._scorers, self._plan, self._faults = judge, scorers, plan, faults
        self._takes_virtual_time = takes_virtual_time
        self._tasks: set[asyncio.Task[None]] = set()
        self._alive: dict[str, tuple[LocalWorker, asyncio.Task[None]]] = {}
        self._results: dict[str, asyncio.Future[Result]] = {}
        self.on_event: Callable[[Incoming], object] = lambda _record: None

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._stages.close()

    async def until_ready(self) -> None:
        """Wait until each worker serves what the plan in force gives it; raises the error of a role that has ended.

        A draft that is judged before the next level has a worker may be kept for want of time.
        """
        while not self._is_ready():
            for task in self._tasks:
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    raise error
            await asyncio.sleep(POLL_MS / 1000)

    def _is_ready(self) -> bool:
        plan, beats = self._plans.plan, self._fleet.heartbeats
        serving = {name: seen.heartbeat.variant for name, seen in beats.items() if seen.heartbeat.state in SERVING}
        return plan is not None and len(beats) == self._workers and plan.allocation.items() <= serving.items()

    async def submit(self, request: GenerateRequest) -> None:
        """Write a request on `prompts`."""
        self._results[request.request_id] = asyncio.get_running_loop().create_future()
        self.bus.write(Outgoing(topic=topics.PROMPTS, key=request.request_id.encode(), value=encode(request)))

    async def result(self, request_id: str) -> Result:
        """Return the result of a submitted request, once it has one."""
        return await asyncio.shield(self._results[request_id])

    async def generate(self, request: GenerateRequest) -> Result:
        """Submit a request, and return its result."""
        await self.submit(request)
        return await self.result(request.request_id)

    def waits_for(self) -> str:
        """Return what requests that have no result may wait for."""
        beats = [seen.heartbeat for seen in self.heartbeats.values()]
        workers = ", ".join(f"{beat.worker_id} is {beat.state} {beat.variant}".strip() for beat in beats)
        return self._plans.not_ready() or workers or "no worker has started"

    @property
    def heartbeats(self) -> Mapping[str, ReceivedHeartbeat]:
        """Return worker -> its last heartbeat."""
        return self._fleet.heartbeats

    def cancel(self, request_id: str) -> None:
        """End a request that has no result, as CANCELLED."""
        outcome = cancelled(request_id, reason="cancelled by its client", by="client", now_ms=now_ms())
        self.bus.write(outcome_record(outcome, {}, now_ms()))

    def obey(self, plan: Plan) -> None:
        """Publish a plan."""
        self.bus.write(Outgoing(topic=topics.PLAN, key=topics.PLAN_KEY.encode(), value=encode(plan)))

    def kill(self, worker_id: str) -> None:
        """Let a worker die silently; others get what it had in hand after a while."""
        worker, task = self._alive.pop(worker_id)
        task.cancel()
        asyncio.get_running_loop().call_later(SESSION_MS / 1000, worker.leave)

    async def _open(self) -> None:
        settings, catalog = self.settings, self._catalog
        self.bus = bus = Bus(self._faults)
        self._ended, self._poison, self._counts = EndedView(), PoisonView(), WaitingCounts()
        self._plans = plans = LocalPlans(catalog)
        self._fleet = fleet = FleetView(settings.planner.worker_timeout_ms)
        ledger = LocalLedger(bus, 1000 * settings.ledger.deadline_grace_s)
        for topic, reader in (
            (topics.PLAN, plans.on_record), (topics.FLEET, fleet.on_record), (topics.RESULTS, self._ended.on_record),
            (topics.POISON, self._poison.on_record), (topics.RESULTS, self._on_result),
            (topics.OUTCOMES, ledger.on_outcome), (topics.CLASSIFIED, ledger.on_classified),
            (topics.EVENTS, lambda record: self.on_event(record)),
        ):  # fmt: skip
            bus.follow(topic, reader)
        check_settings(settings)
        self._stages = stages_of(settings, self.store, bus.send)
        queues = {name: JobQueue(max(1, self._workers)) for name in catalog.served}
        for name, queue in queues.items():
            bus.serve(topics.jobs_topic(name, 1).name, queue.put)
        for logic in await self._roles():
            records: asyncio.Queue[Incoming] = asyncio.Queue()
            bus.serve(logic.source, records.put_nowait)
            self._begin(self._serve(logic, records))
        self._begin(self._sweep(queues))
        self._begin(self._forward())
        around = Surroundings(
            settings, catalog, bus, queues, plans, self._ended, fleet, self._poison, self.store, self._stages,
            soft_slo_of(settings, catalog), self._takes_virtual_time,
        )  # fmt: skip
        for number in range(1, self._workers + 1):
            worker = LocalWorker(f"worker-{number}", around)
            self._alive[worker.worker_id] = worker, self._begin(worker.run())
        if self._plan is not None:
            self.obey(self._plan)
        else:
            self._begin(self._make_plans())

    async def _roles(self) -> list[StreamLogic]:
        settings, catalog, plans, ended = self.settings, self._catalog, self._plans, self._ended
        judge: PromptJudge = await asyncio.to_thread(open_judge, catalog) if self._judge is None else self._judge
        scorers = await asyncio.to_thread(open_scorers, catalog) if self._scorers is None else self._scorers
        in_flight = InFlightView(ended)
        self.bus.follow(topics.CLASSIFIED, in_flight.on_record)
        routes, judges = self._dispatcher("router"), self._dispatcher("discriminator")
        return [
            *classifiers_of(settings, catalog, judge, self._fleet, ended, in_flight),
            router_of(settings, catalog, plans, ended, routes),
            discriminator_of(settings, catalog, plans, ended, judges, self.store, scorers),
        ]

    def _begin(self, run: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(run)
        self._tasks.add(task)
        task.add_done_callback(self._on_end)
        return task

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Raise the error of a role that has ended in all tasks that wait for a result."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        for waiting in self._results.values():
            if not waiting.done():
                waiting.set_exception(error)

    async def _serve(self, logic: StreamLogic, records: "asyncio.Queue[Incoming]") -> None:
        """Serve one role's topic, one record after the other."""
        while True:
            record = await records.get()
            try:
                written = await logic.on_record(record)
            except Exception as error:  # whatever a model raises: the next record must still be served
                written = logic.on_error(record, error)
            for each in written:
                logic.on_delivered(each, self.bus.write(each))

    def _dispatcher(self, role: str) -> Dispatcher:
        return Dispatcher(self._catalog, self._fleet, role, self._counts)

    async def _forward(self) -> None:
        """Forward jobs that wait for an idle worker, and those that were too late for their level."""
        source = LocalWaiting(self.bus, self._catalog)
        forwarder = Forwarder(
            self._catalog, self._plans, self._ended, self._dispatcher("router"), self.bus, self._counts,
            lambda _on_lost: source,
        )  # fmt: skip
        forwarder.open()
        while True:
            forwarder.step()
            await asyncio.sleep(MAX_RETRY_MS / 1000)

    async def _make_plans(self) -> None:
        settings = self.settings
        while not self._fleet.heartbeats:
            await asyncio.sleep(POLL_MS / 1000)
        loop = PlannerLoop(settings, self._measured, LocalLease(self.bus), self._plans, self._fleet)
        self.bus.follow(topics.CLASSIFIED, loop.sources.on_classified)
        self.bus.follow(topics.RESULTS, loop.sources.on_result)
        while True:
            at_ms = now_ms()
            await asyncio.to_thread(loop.step, at_ms, at_ms)
            await asyncio.sleep(TICK_MS / 1000)

    async def _sweep(self, queues: Mapping[str, JobQueue]) -> None:
        """Answer jobs whose variant no worker serves and no plan will have served, as the router's sweeper does."""
        orphans = orphan_routing_of(self.settings, self._catalog)
        rerouting = Rerouting(orphans, self._ended, self._dispatcher("router"), self.bus)
        while True:
            await asyncio.sleep(SWEEP_MS / 1000)
            plan = self._plans.plan
            for name, queue in queues.items():
                if plan is None or name in plan.allocation.values():
                    continue
                for taken in queue.orphans():
                    if rerouting.serve([taken], plan) != [WAITS]:
                        queue.remove(taken)

    def _on_result(self, record: Incoming) -> None:
        result = decode_result(record.value)
        waiting = self._results.get(result.request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(result)


def run(
    settings: Settings, requests: Sequence[GenerateRequest], workers: int, store: ImageStore, limit_s: float,
    report: Callable[[str], object] = lambda _line: None,
) -> list[Result]:  # fmt: skip
    """Generate requests with a deployment of their own, and return their results in order. Blocks.

    `report`: gets a line when an image begins or is generated again. Raises PochadeError: not all end within `limit_s`.
    """

    async def all_of_them() -> list[Result]:
        async with InProcess(settings, workers=workers, store=store) as deployment:
            deployment.on_event = lambda record: report(_in_words(decode(record.value, Event)))
            try:
                async with asyncio.timeout(limit_s):
                    await deployment.until_ready()
                    for request in requests:
                        await deployment.submit(request)
                    return [await deployment.result(request.request_id) for request in requests]
            except TimeoutError:
                raise PochadeError(f"not all have a result after {limit_s:g} s: {deployment.waits_for()}") from None

    return asyncio.run(all_of_them())


def _in_words(event: Event) -> str:
    detail = json.loads(event.detail or "{}")
    level = detail.get("to") or detail.get("level") or ""
    return f"{event.kind}: {event.request_id} on {level}" if level else f"{event.kind}: {event.request_id}"
