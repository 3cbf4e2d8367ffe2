"""The worker: serves the variant that the plan allocates to it, and changes variant when the plan does."""

import contextlib
import datetime
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial

from agents.components.opening import Keeping
from agents.engines import EngineFailed, OpenedEngine, on_device, open_engine
from agents.runtime.request_views import PoisonView
from agents.runtime.views import EndedView, FleetView, PlanView
from agents.worker.device import DeviceWatch
from agents.worker.driving import WindowDriver
from agents.worker.faults import fault_of
from agents.worker.heartbeat import Heart, WorkerState
from agents.worker.jobs import JobSource, Taken
from agents.worker.residency import Prefetcher
from agents.worker.reuse import Opens, WorkerReuse
from agents.worker.sickness import MAX_FAULTS, DoubledWorker, FaultHistory, SickWorker
from agents.worker.stages import Stages
from agents.worker.work import WorkerViews
from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.observation.workers import SICK, STOPPED, WorkerView, is_alive, live_workers
from planner.serving.dispatch import worker
from planner.serving.dispatch.worker import POLL_MS
from planner.serving.dispatch.worker_loads import wanted_variant
from planner.serving.generating.effects import Fault
from planner.serving.routing.refuge import RefugeLogic
from schemas.messages import Plan, WorkerComponents
from schemas.record import Delivered, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.kafka.producers.topic_limits import written
from streams.kafka.producers.writing import DeliveryFailed, RecordProducer, RecordTooLarge
from streams.processes.watchdog import HUNG, Watchdog
from streams.settings import Settings
from streams.store.port import ImageStore
from streams.tracing import spans

log = logging.getLogger(__name__)

ROLE = "worker"
DELIVERY_S = 600  # for the client to report a record's delivery: twice as long as it tries by itself
RESEND_S = 1.0
CALL_S = 600  # of a store's or a group's client: far longer than their own limits, so that one that takes longer hangs
COMMIT_S = 60  # of a commit, while the broker answers otherwise: one without an answer held up a partition for CALL_S
TURN_S = 60  # beside a job; a thread that waited for a dead client's answer generated no more, while its heart went on
LOAD_RETRY_S, LOAD_RETRY_MOST_S = 5, 300  # doubled by each failure in a row
SERVING = ("ready", "painting", "draining")
AWAY_S = 1.0  # between two looks at whether a worker that stays away may serve again
JOIN_SHARE = 0.25  # of worker.job_timeout_s, while a window is younger, jobs may join it
MISSED_BEATS = 3  # after which a process that had this worker's id is taken for dead
NO_BEAT_S = 30  # a heartbeat's thread that is silent for longer has died or hangs


class Worker:
    """One worker process. `run` blocks in the generating thread until `stopping` is set."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        producer: RecordProducer,
        store: ImageStore,
        plans: PlanView,
        ended: EndedView,
        fleet: FleetView,
        worker_id: str,
        opens_lookups: Opens | None = None,
        stages: Stages | None = None,
        poison: PoisonView | None = None,
        slo_ms: float = 0.0,
    ) -> None:
        """`opens_lookups`: None where there is no vector store.

        `stages`: of features. `slo_ms`: see `Deadlines`.
        """
        self._settings = settings
        self._catalog = catalog
        self._refuges = RefugeLogic(catalog, slo_ms)
        self._producer = producer
        self._store = store
        self._plans = plans
        self._ended = ended
        self._fleet = fleet
        self._poison = poison or PoisonView()
        asked = settings.worker  # an id made of the process's would not be known again
        watchdog = Watchdog(asked.job_timeout_s, self._bite)
        self._me = WorkerState(worker_id, price_per_hour=asked.price_per_hour, watchdog=watchdog)
        name = asked.id or "-".join(filter(None, (socket.gethostname(), asked.device)))
        file = settings.home.expanduser() / "workers" / f"{name}.faults"
        self._faults = FaultHistory(file, self._poison.__contains__)
        self._opens_lookups = opens_lookups
        self._stages = stages
        self._turns = Watchdog(settings.worker.job_timeout_s + TURN_S, what="a turn of the generating thread")
        self._calls = Watchdog(CALL_S, what="a call of a store, or a commit")
        self._commits = Watchdog(COMMIT_S, what="a commit", hangs=self._is_heard)
        self._load_retry_s = LOAD_RETRY_S
        self._records = metrics.RECORDS.labels(ROLE)
        self._queue_s, self._hop_s = metrics.QUEUE_SECONDS.labels(ROLE), metrics.HOP_SECONDS.labels(ROLE)
        self._counted: WorkerComponents | None = None  # of the components of the variant before
        self._trouble = ""  # what ended its last run; empty once it has served again
        self._absolve: Callable[[], None] | None = None  # of the window in hand, until it was done
        self._in_hand: list[str] = []  # ids of the requests of the last window
        self._has_suspect = False  # whether one of them may have ended a worker before
        self._stopping = threading.Event()
        self._taken_s: dict[tuple[int, int], float] = {}  # place of a record in hand -> monotonic seconds

    def run(self, stopping: threading.Event) -> None:
        """Serve until `stopping` is set; the batch in flight is finished first."""
        self._stopping = stopping
        self._wait_for_id(stopping)
        self._me.reuse = WorkerReuse(lambda: self._plans.plan, self._opens_lookups).start()
        self._me.device = DeviceWatch(self._settings.worker.device).start()
        self._heart = Heart(self._me, self._producer, self._settings.worker.heartbeat_ms).start()
        try:
            while not stopping.is_set():
                self._stay_away(stopping)
                variant = self._wanted(self._plans.plan)
                if stopping.is_set():
                    break
                if variant is None:
                    if self._me.variant is not None:
                        self._become("starting", None)  # in the pool: any plan may name it
                    stopping.wait(POLL_MS / 1000)
                else:
                    self._serve(variant, stopping)
        except Exception as error:  # it starts again, and reports what ended it until it serves
            self._trouble = f"{type(error).__name__}: {error}"[:500]
            raise
        finally:
            self._me.reuse.close()
            self._heart.close()
            self._me.device.close()
            if self._me.state == SICK:
                self._producer.close()  # the process ends: what is queued goes first

    def _wait_for_id(self, stopping: threading.Event) -> None:
        """Wait until the last heartbeat of another process under this id is some beats old.

        Raises DoubledWorker: another one comes meanwhile.
        """
        me, last = self._me, self._fleet.heartbeats.get(self._me.worker_id)
        until_s = time.monotonic() + MISSED_BEATS * self._settings.worker.heartbeat_ms / 1000
        while last is not None and last.heartbeat.started_ms != me.started_ms and not stopping.is_set():
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not is_alive(last, now_ms(), MISSED_BEATS * self._settings.worker.heartbeat_ms):
                return
            stopping.wait(min(left_s, POLL_MS / 1000))
            newest = self._fleet.heartbeats.get(me.worker_id, last)
            if newest is not last and newest.heartbeat.state not in (STOPPED, SICK):
                raise DoubledWorker(
                    f"another process serves as {me.worker_id}: its heartbeats come; give each a worker.id of its own"
                )
            last = newest

    def _stay_away(self, stopping: threading.Event) -> None:
        """Serve nothing while the device has failed too often within the hour."""
        while not stopping.is_set():
            until_ms, reason = self._faults.away_until_ms(now_ms())
            if not until_ms:
                if self._me.state == SICK:
                    self._become("starting", None)
                return
            if self._me.state != SICK:
                until = f"{datetime.datetime.fromtimestamp(until_ms / 1000, datetime.UTC):%H:%M} UTC"
                said = f"{MAX_FAULTS} faults of its device within an hour, the last: {reason}"
                self._become(SICK, None, f"{said}; stays away until {until}, or {self._faults.file} is removed")
                log.error("%s", self._me.detail)
            stopping.wait(AWAY_S)

    def _on_sick(self, reason: str, counts: bool) -> None:
        """Say at once that the worker is sick, and write down what for, unless a job is suspected.

        A server that is away is no device that fails: once it is back, a new process serves with it.
        """
        self._me.state, self._me.detail = SICK, reason
        self._heart.beat_now()
        if counts and (self._me.variant is None or self._me.variant.server is None):
            self._faults.add(self._in_hand, reason, now_ms())

    def _bite(self) -> None:
        """End a process that hangs, as with a driver that does."""
        if not self._has_suspect:
            reason = f"a job took longer than {self._settings.worker.job_timeout_s:g} s"
            self._faults.add(self._in_hand, reason, now_ms())
        os._exit(HUNG)

    def not_ready(self) -> str:
        """Why it takes no jobs yet; any thread may ask."""
        me = self._me
        if me.state in SERVING:
            return me.source.schemas.why if me.source else ""
        if me.state == SICK:
            return f"is sick: {me.detail}"
        if me.variant is None:
            return f"waits for a plan that names {me.worker_id}{self._last_trouble()}"
        return f"{me.variant.name} is {me.state}{me.detail and ': '}{me.detail}{self._last_trouble()}"

    def _last_trouble(self) -> str:
        return self._trouble and f"; its last run ended: {self._trouble}"

    def not_alive(self) -> str:
        """Why only a new process helps; any thread may ask."""
        if self._me.watchdog.is_overdue():
            return f"a job takes longer than worker.job_timeout_s = {self._settings.worker.job_timeout_s:g}"
        beaten_s = self._me.beaten_s
        is_silent = beaten_s is not None and time.monotonic() - beaten_s > NO_BEAT_S
        return f"no heartbeat for {NO_BEAT_S} s" if is_silent else ""

    def _obey(self, plan: Plan | None) -> None:
        self._me.plan_version = plan.version if plan else 0
        if plan:
            self._refuges.obey(plan)

    def _wanted(self, plan: Plan | None) -> Variant | None:
        self._obey(plan)
        own = self._settings.worker.variant
        name = wanted_variant(self._me.worker_id, own, plan) if plan else own
        return self._catalog.level(name) if name else None

    def _serve(self, variant: Variant, stopping: threading.Event) -> None:
        self._become("loading", variant)
        try:
            engine = self._open(variant)
        except EngineFailed as error:
            if fault_of(error) is Fault.DEVICE:  # no load succeeds in this process any more
                self._on_sick(str(error), counts=True)
                raise SickWorker(str(error)) from error
            self._wait_after(error, variant, stopping)
            return
        self._load_retry_s = LOAD_RETRY_S
        source = JobSource(self._settings, variant.name)
        driver = self._driver(variant, engine)
        self._me.source, self._me.logic = source, driver.worker
        self._me.store, self._me.health = engine.store, engine.health
        prefetcher = None
        if engine.store is not None:
            prefetcher = Prefetcher(self._me.worker_id, engine.store, lambda: self._plans.plan, self._is_idle).start()
        try:
            while not stopping.is_set():
                with self._turns:
                    is_over = self._serve_once(source, driver)
                if is_over:
                    break
            if driver.logic.is_sick:
                raise SickWorker(self._me.detail)
        finally:
            self._me.source, self._me.logic = None, None
            source.close()
            driver.close()
            if prefetcher is not None and engine.store is not None and not driver.logic.is_sick:
                prefetcher.close()
                self._counted = engine.store.report()
            self._me.store, self._me.health = None, str
            if not driver.logic.is_sick:  # a device that fails may hang
                engine.close()

    def _driver(self, variant: Variant, engine: OpenedEngine) -> WindowDriver:
        """Return what drives the windows of jobs while the variant is served."""
        views = WorkerViews(
            engine,
            variant,
            self._catalog,
            lambda: self._plans.plan,
            self._ended,
            self._poison,
            self._me.reuse,
            self._me.worker_id,
            self._fleet.loads,
            self._settings.worker.price_per_hour,
        )
        return WindowDriver(
            self._me.worker_id, views, self._store, self._refuges, self._settings.worker.max_attempts,
            note=self._producer.send, waits=self._waits, aside=self._aside, stages=self._stages,
            on_sick=self._on_sick, png_text=self._settings.worker.png_text,
        )  # fmt: skip

    def _is_idle(self) -> bool:
        return self._me.state == "ready" and self._me.watchdog.since is None

    def _open(self, variant: Variant) -> OpenedEngine:
        """The engine of a variant; the counters of its components go on from those of the variant before."""
        asked = self._settings.worker
        keeping = Keeping.of(self._settings, self._counted)
        here = on_device(variant, asked.device)
        engine = open_engine(asked.engine or variant.engine, here, asked.threads, keeping)
        if self._me.device is not None:
            self._me.device.use(here.loading.device)
        return engine

    def _serve_once(self, source: JobSource, driver: WindowDriver) -> bool:
        """Do one window of work; return True when the plan wants another variant here and this one may be left."""
        plan, logic = self._plans.plan, driver.worker
        self._obey(plan)
        turn = logic.turn(self._me.worker_id, plan, self._live, now_ms())
        if turn.leaves:
            return True
        taken = source.take(turn.max_jobs, POLL_MS / 1000)
        self._trouble = ""  # the group answered
        if not taken:
            if self._me.state != "loading" or source.has_joined:  # a level that is ready must be reached by jobs
                self._report(worker.waiting_state(self._me.state, turn.is_leaving))
            is_last_out = turn.is_leaving and logic.may_leave_empty(now_ms())
            return is_last_out and source.is_empty()  # the last one leaves an empty topic
        self._note_in_hand(taken)
        driver.begin(taken, turn.batch)
        self._me.state = worker.working_state(turn.is_leaving)
        self._me.watchdog.begin()
        self._heart.beat_now()
        begun_s = time.monotonic()
        self._taken_s.clear()
        self._note_taken(taken)
        try:
            self._generate(taken, source, driver)
        finally:
            self._me.watchdog.end()
            metrics.BUSY_SECONDS.inc(time.monotonic() - begun_s)
        self._note_done(taken)
        driver.logic.end()
        if driver.logic.is_sick:
            return True
        self._me.state = worker.idle_state(turn.is_leaving)
        self._heart.beat_now()
        return False

    def _report(self, state: str) -> None:
        """Be in a state, and say so at once where it is another one."""
        if state != self._me.state:
            self._me.state = state
            self._heart.beat_now()

    def _note_in_hand(self, window: Sequence[Taken]) -> None:
        self._in_hand = [(each.record.key or b"").decode(errors="replace") for each in window]
        self._has_suspect = any(each.attempt > 1 for each in window)

    def _note_taken(self, records: Sequence[Taken]) -> None:
        at_ms, at_s = now_ms(), time.monotonic()
        for each in records:
            self._queue_s.observe(max(0, at_ms - each.record.timestamp_ms) / 1000)
            self._taken_s[each.place] = at_s

    def _note_done(self, records: Sequence[Taken]) -> None:
        at_s = time.monotonic()
        for each in records:
            self._hop_s.observe(at_s - self._taken_s.pop(each.place, at_s))
        self._records.inc(len(records))
        self._me.generated += len(records)

    def _more(
        self, window: list[Taken], source: JobSource, driver: WindowDriver, settle: Callable[[], object], most: int
    ) -> list[Taken]:
        """Take up to `most` records that join a window, and commit what of it is done; `settle`: sees to all acks.

        None join while the plan wants the worker elsewhere, or once the window is old, as a call that hangs is found by
        the time of its window.
        """
        turn = driver.worker.turn(self._me.worker_id, self._plans.plan, self._live, now_ms())
        since = self._me.watchdog.since or 0.0
        is_old = time.monotonic() - since > JOIN_SHARE * self._settings.worker.job_timeout_s
        if turn.is_leaving or is_old or self._stopping.is_set():
            return []
        in_hand = {job.taken.place: job.taken for job in driver.logic.in_hand()}
        joining = [each for each in source.take(most, 0, join=True) if each.place not in in_hand]
        if not joining:
            return []
        settle()
        done = [each for each in window if each.place not in in_hand]
        window[:] = sorted((*in_hand.values(), *joining), key=lambda each: each.place)
        left = {each.record.partition for each in window}
        with self._committing():
            source.begin(window)
            if gone := [each for each in done if each.record.partition not in left]:
                source.commit(gone)
        self._note_in_hand(window)
        self._note_done(done)
        self._note_taken(joining)
        self._heart.beat_now()
        return joining

    def _generate(self, window: list[Taken], source: JobSource, driver: WindowDriver) -> None:
        """Generate a window, while images of one call are sent beside the next; commit when all is acknowledged."""
        hop = spans.begin(ROLE, [taken.record for taken in window])
        with self._committing():
            source.begin(window)
        self._absolve = partial(source.absolve, window)
        on_their_way: list[tuple[Outgoing, Future[Delivered]]] = []
        written_so_far = list[Outgoing]()

        def settle() -> None:
            for record, future in on_their_way:
                self._deliver(record, future)
            written_so_far.extend(record for record, _ in on_their_way if hop is not None)
            on_their_way.clear()

        try:
            with spans.within(hop):
                driver.run(
                    lambda record: on_their_way.append((record, self._producer.send(record))), self._me.plan_version,
                    partial(self._more, window, source, driver, settle),
                )  # fmt: skip
            settle()
        except Exception:  # a client's trouble: what a job is to blame for, the worker has answered
            with self._committing():
                source.absolve(window)
            raise
        with self._committing():
            source.commit(window)
        spans.end(hop, written_so_far)

    def _deliver(self, record: Outgoing, future: Future[Delivered]) -> None:
        """Wait until the broker has a record, however long it is away.

        Raises RecordTooLarge; TimeoutError where the client reports nothing for longer than it may.
        """
        while not future.done() or future.exception() is not None:
            try:
                with self._me.watchdog.waits(), self._turns.waits():
                    written(self._producer, record, future, DELIVERY_S)
                    return
            except RecordTooLarge:
                raise
            except DeliveryFailed as error:
                log.warning("%s; writing it again", error)
                metrics.RESENDS.labels(ROLE).inc()
                with self._waits():
                    time.sleep(RESEND_S)
                future = self._producer.send(record)

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """Around a call of a store, or of the group: its time is none of a job's, and has a limit of its own."""
        with self._me.watchdog.waits(), self._turns.waits(), self._calls:
            yield

    @contextlib.contextmanager
    def _committing(self) -> Iterator[None]:
        """Around a commit, as `_aside`: for COMMIT_S at most while the broker gives back this worker's heartbeats."""
        with self._aside(), self._commits:
            yield

    def _is_heard(self) -> bool:
        heard = self._fleet.heartbeats.get(self._me.worker_id)
        return heard is not None and is_alive(heard, now_ms(), 1000 * NO_BEAT_S)

    @contextlib.contextmanager
    def _waits(self) -> Iterator[None]:
        """Around waiting for a store or broker that is away: neither a watchdog's business nor the fault of a job."""
        if self._absolve is not None:
            with self._committing():
                self._absolve()
            self._absolve = None  # once a window
        with self._me.watchdog.waits(), self._turns.waits():
            yield

    def _live(self) -> Iterable[WorkerView]:
        return live_workers(self._fleet.heartbeats, now_ms(), self._settings.planner.worker_timeout_ms)

    def _wait_after(self, error: EngineFailed, variant: Variant, stopping: threading.Event) -> None:
        """Be failed for a while, then there for a plan again: none names a failed worker, so it would stay so."""
        log.error("%s; again in %g s", error, self._load_retry_s)
        metrics.FALLBACKS.labels(ROLE, "load").inc()
        self._become("failed", variant, str(error))
        stopping.wait(self._load_retry_s)
        self._load_retry_s = min(2 * self._load_retry_s, LOAD_RETRY_MOST_S)
        self._become("starting", None, str(error))

    def _become(self, state: str, variant: Variant | None, detail: str = "") -> None:
        self._me.state, self._me.variant, self._me.detail = state, variant, detail
        self._heart.beat_now()
