"""The views that roles have beside their input: the plan in force, the requests that have ended, the workers' loads.

The views take in records and load no client; `following.py` reads the topics.
"""

import asyncio
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from planner.catalog.model import Catalog
from planner.catalog.option_limits import MAX_ID
from planner.control.renewal.same_plan import remembering
from planner.control.validity import check_live, is_newer
from planner.observation.workers import FORGET_MS, ReceivedHeartbeat, stated_prices
from planner.serving.dispatch.dispatch import Retry
from planner.serving.dispatch.lacking import Need
from planner.serving.dispatch.worker_loads import Load, LoadView, Sent, WorkerPool
from schemas import topics
from schemas.errors import InvalidPlan, InvalidRecord, UnknownSchema
from schemas.ids import RecentIds
from schemas.messages import Heartbeat, Pin, Plan
from schemas.record import Incoming
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.control.records import NO_PIN, Place, place_in, take_in
from streams.observing import log_context

MAX_ENDED = 500_000  # ids kept, about 10 MB; older ends are caught by the ledger
ENDED_WINDOW_MS = 60 * 60 * 1000  # how long an id is kept at most

log = logging.getLogger(__name__)


class PlanView:
    """The newest valid plan of the control topic, and its pin. A plan is obeyed whole or not at all."""

    def __init__(self, role: str, catalog: Catalog) -> None:
        self._role = role
        self._catalog = catalog
        self.plan: Plan | None = None
        self.newest = 0  # the highest version met, obeyed or not
        self.is_disputed = False  # another plan of that version lies on the topic: some may obey that one
        self.refusal = ""  # why the newest is not obeyed
        self.pin: Pin | None = None
        self.has_plan = threading.Event()
        self.place = Place()  # how far the topic is read
        self.answered_at = NO_PIN  # offset of the newest order that a plan answers
        self._met: Plan | None = None  # the plan of the highest version

    def on_record(self, record: Incoming) -> None:
        """Take in a record of the control topic; versions not above our own are ignored."""
        pin_at = record.offset if record.key == topics.PIN_KEY.encode() else self.place.pin_at
        try:
            take_in(record, self.obey, self._order, self.remember)
        except UnknownSchema as error:
            self.refusal = f"cannot read the record at {record.offset} of the control topic: {error}"
            raise
        finally:  # after the order is known: a plan that is stamped with the place obeys it
            self.place = Place(max(self.place.read_to, record.offset + 1), pin_at)

        if record.key == topics.PLAN_KEY.encode() and (read := place_in(record)) is not None:
            self.answered_at = max(self.answered_at, read.pin_at)

    def _order(self, pin: Pin | None) -> None:
        self.pin = pin

    def obey(self, plan: Plan) -> None:
        """Take over a plan that lies on the topic, if it is newer and fits the catalog; else the one before holds.

        One that does not fit is of another catalog, as while a deployment is upgraded, or no planner's.
        """
        if not is_newer(self.newest, plan):
            self.is_disputed |= plan.version == self.newest and plan != self._met
            return
        self.newest, self.refusal, self.is_disputed, self._met = plan.version, "", False, plan
        try:
            check_live(plan, self._catalog)
        except InvalidPlan as error:
            self.refusal = f"does not obey {error}"
            metrics.PLANS_REFUSED.labels(self._role).inc()
            log.warning("%s %s; %s", self._role, self.refusal, self._goes_on())
            return
        self.plan = plan
        metrics.PLAN_VERSION.labels(self._role).set(plan.version)
        self.has_plan.set()

    def remember(self, plan: Plan) -> None:
        """Take over what the policy remembers by now, and expects, where this is the plan in force otherwise."""
        if self.plan is not None and self.fits(plan):
            self.plan = remembering(self.plan, plan)

    def _goes_on(self) -> str:
        return f"plan {self.plan.version} holds" if self.plan else "there is none before it"

    def fits(self, plan: Plan) -> bool:
        """Whether the plan could be obeyed with this catalog."""
        try:
            check_live(plan, self._catalog)
        except InvalidPlan:
            return False
        return True

    def not_ready(self) -> str:
        """Why there is no plan to obey yet; any thread may ask."""
        return "" if self.plan else f"holds no plan yet{self.refusal and ': it '}{self.refusal}"

    async def in_force(self) -> Plan:
        """The plan; waits for the first one: nothing is guessed before."""
        while self.plan is None:
            await asyncio.to_thread(self.has_plan.wait, 1)
        log_context.obeying(self.plan.version)
        return self.plan


class EndedView:
    """The ids that have a result, within a window: their work is dead everywhere."""

    def __init__(self) -> None:
        self._ids = RecentIds(ENDED_WINDOW_MS, MAX_ENDED)
        self.on_end: list[Callable[[str], object]] = []  # called with each id

    def on_record(self, record: Incoming) -> None:
        """The key is enough: nothing is decoded."""
        request_id = (record.key or b"").decode(errors="replace")
        self._ids.add(request_id, record.timestamp_ms)
        for listener in self.on_end:
            listener(request_id)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._ids


class FleetView:
    """The loads of the workers: heartbeats and this process's own sends since, behind one lock."""

    def __init__(self, silent_ms: int, lease_ms: int = 0) -> None:
        """`silent_ms`: a worker unheard of for longer is dead. `lease_ms`: until others have its queues; 0: unknown."""
        self.silent_ms, self.lease_ms = silent_ms, lease_ms
        self._lock = threading.Lock()
        self._loads = LoadView()
        self.heartbeats: dict[str, ReceivedHeartbeat] = {}  # worker -> its last heartbeat

    def on_record(self, record: Incoming) -> None:
        """Take in a heartbeat; the broker's clock says when it was sent."""
        heartbeat = decode(record.value, Heartbeat)
        if any(owned.remaining_ms < 0 or owned.end_offset < 0 for owned in heartbeat.partitions):
            raise InvalidRecord(f"{heartbeat.worker_id:.80} reports negative work: {heartbeat!r:.300}")
        if not 0 < heartbeat.slowness < math.inf:
            raise InvalidRecord(f"{heartbeat.worker_id:.80} reports a slowness of {heartbeat.slowness}; it is above 0")
        if not 0 < len(heartbeat.worker_id) <= MAX_ID:  # plans name it
            raise InvalidRecord(f"worker_id must have 1 to {MAX_ID} characters: got {len(heartbeat.worker_id)}")
        since_ms, at_ms, worker_id = now_ms() - FORGET_MS, record.timestamp_ms, heartbeat.worker_id
        with self._lock:  # a new dict each time: readers hold the old one
            heard = {worker: seen for worker, seen in self.heartbeats.items() if seen.seen_ms > since_ms}
            known = heard.get(worker_id)
            seen = known.then(heartbeat, at_ms) if known else ReceivedHeartbeat(heartbeat, at_ms)
            if seen is known:
                return
            self.heartbeats = {**heard, worker_id: seen}
            self._loads.on_heartbeat(heartbeat, at_ms)
        if known and seen.doubled_ms == at_ms and not known.is_doubled(at_ms, self.silent_ms):
            log.warning("two processes send heartbeats as %s: give each a worker.id of its own", worker_id)
            metrics.DOUBLED_WORKERS.inc()

    def obey(self, plan: Plan) -> None:
        """Take over the plan in force: a worker that it gives another variant gets no new jobs while others stay."""
        with self._lock:
            self._loads.obey(plan)

    def loads(self, variant: str, at_ms: int) -> list[Load]:
        """The live workers of a variant with the work before them. O(workers)."""
        with self._lock:
            return self._loads.loads(variant, at_ms, self.silent_ms)

    def wait_ms(self, variant: str, at_ms: int, queued_ms: float = 0.0, *, holds: bool = False) -> float:
        """Time until a worker of a variant is free, as `WorkerPool.wait_ms`; infinite if no worker serves it."""
        with self._lock:
            return self._loads.pool(variant, at_ms, self.silent_ms).wait_ms(at_ms, queued_ms, holds=holds)

    def ready_ms(self, variant: str, need: Need, at_ms: int) -> float:
        """Time until a worker of a variant is free and has loaded what it lacks of a need; infinite: there is none."""
        with self._lock:
            return self._loads.pool(variant, at_ms, self.silent_ms).ready_ms(need, at_ms)

    def slowness(self, variant: str, at_ms: int) -> float:
        """Run time of a variant's calls as a multiple of the profiled one, by its workers' last heartbeats: median."""
        with self._lock:
            return self._loads.pool(variant, at_ms, self.silent_ms).slowness

    def serves(self, variant: str, at_ms: int) -> bool:
        """Whether a worker takes new jobs of a variant."""
        return self.serving([variant], at_ms) > 0

    def prices(self, at_ms: int, variant: str) -> tuple[float, ...]:
        """Return the prices per hour of the live workers of a variant; () if one states none."""
        return stated_prices(self.heartbeats, at_ms, self.silent_ms, variant)

    def serving(self, variants: Iterable[str], at_ms: int) -> int:
        """Number of workers that take new jobs of these variants."""
        with self._lock:
            return sum(len(self._loads.pool(variant, at_ms, self.silent_ms).free) for variant in variants)

    def choose(
        self, variant: str, at_ms: int, choice: Callable[[WorkerPool], int | Retry | None]
    ) -> Load | Retry | None:
        """Return the worker of a variant whose place `choice` names, or what else it decides."""
        with self._lock:
            pool = self._loads.pool(variant, at_ms, self.silent_ms)
            place = choice(pool)
            return pool.load(place, at_ms) if isinstance(place, int) else place

    def sent(self, variant: str, partition: int, run_ms: float, at_ms: int, need: Need | None = None) -> Sent:
        """Remember a job of our own, and the components that it needs, until a heartbeat has counted it."""
        with self._lock:
            return self._loads.on_sent(variant, partition, None, run_ms, at_ms, need)

    def acknowledged(self, sent: Sent, offset: int) -> None:
        """A job of our own lies at this offset."""
        with self._lock:
            self._loads.on_acknowledged(sent, offset)


class WaitingCounts:
    """The jobs that wait for idle workers, by variant: as counted last, with what this process did since.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: Counter[str] = Counter()

    def count(self, variant: str) -> int:
        """Return the number of jobs that wait for a variant."""
        return max(0, self._jobs[variant])

    def add(self, variant: str, jobs: int) -> None:
        """Note that this process has added jobs, or, below 0, taken them."""
        with self._lock:
            self._jobs[variant] += jobs

    def counted(self, jobs: Mapping[str, int]) -> None:
        """Take over a count of what lies on the topics."""
        with self._lock:
            self._jobs.update({variant: count - self._jobs[variant] for variant, count in jobs.items()})

    def any(self) -> bool:
        """Whether jobs wait, as far as is known."""
        return any(count > 0 for count in self._jobs.values())
