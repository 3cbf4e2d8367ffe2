"""Sends a worker's heartbeats, with its state and its remaining work, from a thread of its own."""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import KafkaException

from agents.components.store import ComponentStore
from agents.runtime.records import outgoing
from agents.worker.device import DeviceWatch
from agents.worker.jobs import JobSource
from agents.worker.reuse import WorkerReuse
from planner.catalog.entries import Variant
from planner.observation.workers import SICK
from planner.serving.dispatch.worker import MIN_BEAT_MS, WorkerLogic, remaining_ms, reported_state
from schemas import topics
from schemas.messages import Heartbeat, OwnedPartition
from streams import metrics
from streams.clock import now_ms
from streams.kafka.producers.writing import RecordProducer
from streams.processes.watchdog import Watchdog

log = logging.getLogger(__name__)


@dataclass
class WorkerState:
    """The state that the generating thread writes and the heartbeat reads; single assignments need no lock."""

    worker_id: str
    state: str = "starting"
    variant: Variant | None = None
    plan_version: int = 0
    generated: int = 0
    detail: str = ""
    health: Callable[[], str] = str  # of the server that its engine asks; "": it asks none
    logic: WorkerLogic | None = None  # of the variant that is served; None: none yet
    source: JobSource | None = None
    reuse: WorkerReuse | None = None  # None: this worker never begins from stored latents
    store: ComponentStore | None = None  # of the variant that is served; None: it has no components
    device: DeviceWatch | None = None  # None: not watched
    beaten_s: float | None = None  # monotonic seconds of the last heartbeat; None: none yet
    price_per_hour: float = 0.0  # 0: not stated
    started_ms: int = field(default_factory=now_ms)  # which tells this process from another under its id
    watchdog: Watchdog = field(default_factory=lambda: Watchdog(600))


class Heart:
    """Beats every `period_ms` until closed, and once more as `stopped`, or as `sick` where it is."""

    def __init__(self, state: WorkerState, producer: RecordProducer, period_ms: int) -> None:
        self._state = state
        self._producer = producer
        self._period_s = period_ms / 1000
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> "Heart":
        """Begin to send heartbeats."""
        self._thread.start()
        return self

    def beat_now(self) -> None:
        """Send a heartbeat at once, as others should know of a change before the next one."""
        self._changed.set()

    def close(self) -> None:
        """Say that the worker has stopped, and stop."""
        self._stopping.set()
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._beat(self._reported_state())
            except Exception:  # silence would mean death to the others while this worker holds its partitions
                log.exception("no heartbeat this time")
                metrics.FALLBACKS.labels("worker", "heartbeat").inc()
            self._state.beaten_s = time.monotonic()
            self._stopping.wait(MIN_BEAT_MS / 1000)
            self._changed.wait(self._period_s)
            self._changed.clear()
        self._beat(SICK if self._state.state == SICK else "stopped")

    def _reported_state(self) -> str:
        me, since, logic = self._state, self._state.watchdog.since, self._state.logic
        if since is None or logic is None or me.state == SICK:
            return me.state
        return reported_state(me.state, logic.in_hand_ms, _ms_since(since))

    def _beat(self, state: str) -> None:
        me = self._state
        variant, logic = me.variant.name if me.variant else "", me.logic
        detail = me.detail or (logic.limits_in_words() if logic is not None else "") or me.health()
        heartbeat = Heartbeat(
            worker_id=me.worker_id, state=state, variant=variant, plan_version=me.plan_version, sent_ms=now_ms(),
            partitions=self._partitions(), generated=me.generated, detail=detail,
            reuse=me.reuse.health() if me.reuse is not None else None,
            components=store.report() if (store := me.store) is not None else None,
            slowness=logic.slowness if logic is not None else 1.0,
            device=me.device.report() if me.device is not None else None, price_per_hour=me.price_per_hour,
            started_ms=me.started_ms,
        )  # fmt: skip
        self._producer.send(
            outgoing(topics.FLEET, heartbeat, request_id=me.worker_id, cause={}, role="worker", now_ms=now_ms())
        )

    def _partitions(self) -> tuple[OwnedPartition, ...]:
        me = self._state
        source, logic, since = me.source, me.logic, me.watchdog.since
        if source is None or logic is None:
            return ()
        try:
            owned = source.owned(logic.waiting_ms(1))
        except (KafkaException, RuntimeError, TimeoutError) as error:  # closing, or the broker is away: next time
            log.debug("no positions for this heartbeat: %s", error)
            return ()
        if since is None or not owned:
            return owned
        first = owned[0]  # the work in hand delays every partition; one of them carries it
        in_progress_ms = round(remaining_ms(logic.in_hand_ms, _ms_since(since)))
        return (dataclasses.replace(first, remaining_ms=first.remaining_ms + in_progress_ms), *owned[1:])


def _ms_since(moment_s: float) -> float:
    return (time.monotonic() - moment_s) * 1000
