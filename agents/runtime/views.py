"""What every role knows besides its input: the plan in force, the requests that have ended, the workers' loads."""

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from planner.catalog.parse import Catalog
from planner.control.plans import check, is_newer
from planner.observation.observation import Seen
from planner.serving.admission import MOST_ID
from planner.serving.worker_loads import Load, LoadView, Sent
from schemas import topics
from schemas.errors import InvalidPlan, InvalidRecord, UnknownSchema
from schemas.messages import Heartbeat, Pin, Plan
from schemas.record import Incoming
from streams import logs, metrics
from streams.codec.avro import decode
from streams.control.tail import ControlLog, Place, plan_of, tail
from streams.control.topic import read_plans, take_in
from streams.kafka.barrier import Barrier
from streams.kafka.consumer import Follower, now_ms
from streams.settings import Settings

FORGET_MS = 600_000  # a worker unheard of for longer leaves the view
ENDED_WINDOW_MS = 60 * 60 * 1000
ENDED_MOST = 500_000  # ids kept, about 60 MB; older ends are caught by the ledger
START_TIMEOUT_S = 60

log = logging.getLogger(__name__)

Loads = dict[str, list[Load]]  # variant -> its live workers


class PlanView:
    """The newest valid plan of the control topic, and its pin. A plan is obeyed whole or not at all."""

    def __init__(self, settings: Settings, role: str, catalog: Catalog) -> None:
        self._settings = settings
        self._role = role
        self._catalog = catalog
        self.plan: Plan | None = None
        self.newest = 0  # the highest version met, obeyed or not
        self.refusal = ""  # why the newest is not obeyed
        self.pin: Pin | None = None
        self.has_plan = threading.Event()
        self.place = Place()  # how far the topic is read
        self._follower = Follower(settings, [topics.PLAN], self.on_record)

    def on_record(self, record: Incoming) -> None:
        """Take in a record of the control topic; versions not above our own are ignored."""
        pin_at = record.offset if record.key == topics.PIN_KEY.encode() else self.place.pin_at
        self.place = Place(max(self.place.read_to, record.offset + 1), pin_at)
        try:
            take_in(record, self.obey, self._order)
        except UnknownSchema as error:
            self.refusal = f"cannot read the record at {record.offset} of the control topic: {error}"
            raise

    def _order(self, pin: Pin | None) -> None:
        self.pin = pin

    def obey(self, plan: Plan) -> None:
        """Take over a plan that lies on the topic, if it is newer and fits the catalog; else the one before holds.

        One that does not fit is of another catalog, as while a deployment is upgraded, or no planner's.
        """
        if not is_newer(self.newest, plan):
            return
        self.newest, self.refusal = plan.version, ""
        try:
            check(plan, self._catalog)
        except InvalidPlan as error:
            self.refusal = f"does not obey {error}"
            metrics.PLANS_REFUSED.labels(self._role).inc()
            log.warning("%s %s; %s", self._role, self.refusal, self._goes_on())
            return
        self.plan = plan
        metrics.PLAN_VERSION.labels(self._role).set(plan.version)
        self.has_plan.set()

    def _goes_on(self) -> str:
        return f"plan {self.plan.version} holds" if self.plan else "there is none before it"

    def not_ready(self) -> str:
        """Why there is no plan to obey yet; any thread may ask."""
        return "" if self.plan else f"holds no plan yet{self.refusal and ': it '}{self.refusal}"

    async def in_force(self) -> Plan:
        """The plan; waits for the first one: nothing is guessed before."""
        while self.plan is None:
            await asyncio.to_thread(self.has_plan.wait, 1)
        logs.obeying(self.plan.version)
        return self.plan

    def catch_up(self, barrier: Barrier) -> None:
        """Take over the plans that former leaders wrote, before any is written after them.

        Those that were handed over are known, and all of them would take longer than a leader may be silent. The end
        that a reader is told may be an old one: that of the barrier is not.
        """
        read_plans(self._settings, self.obey, self.place.read_to, barrier)

    def find(self, version: int) -> Plan | None:
        """The plan of this version that readers obeyed: the first one; None if there was none."""
        with ControlLog(self._settings) as log:
            return plan_of(log, version)

    def start(self) -> "PlanView":
        """Follow, and return when the plan and the order in force are known; those before them stay unread."""
        with ControlLog(self._settings, START_TIMEOUT_S) as log:
            begin = tail(log, self._fits)
        if begin.pin is not None:
            self.on_record(begin.pin)
        self._follower.start(begin.start).wait_caught_up(START_TIMEOUT_S)
        return self

    def _fits(self, plan: Plan) -> bool:
        try:
            check(plan, self._catalog)
        except InvalidPlan:
            return False
        return True

    def close(self) -> None:
        """Stop following."""
        self._follower.close()


class EndedView:
    """The ids that have a result, within a window: their work is dead everywhere (design, section 2)."""

    def __init__(self, settings: Settings) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()
        self.on_end: Callable[[str], None] = lambda _request_id: None
        self._follower = Follower(settings, [topics.RESULTS], self.on_record, since_ms=now_ms() - ENDED_WINDOW_MS)

    def on_record(self, record: Incoming) -> None:
        """The key is enough: nothing is decoded."""
        request_id = (record.key or b"").decode(errors="replace")
        self._ids[request_id] = None
        self.on_end(request_id)
        if len(self._ids) > ENDED_MOST:
            self._ids.popitem(last=False)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._ids

    def start(self) -> "EndedView":
        """Follow, and return when the window is read."""
        self._follower.start().wait_caught_up(START_TIMEOUT_S)
        return self

    def close(self) -> None:
        """Stop following."""
        self._follower.close()


class FleetView:
    """What each worker has to do: heartbeats and this process's own sends since, behind one lock."""

    def __init__(self, settings: Settings) -> None:
        self._silent_ms = settings.planner.worker_silent_ms
        self._lock = threading.Lock()
        self._loads = LoadView()
        self.heartbeats: dict[str, Seen] = {}  # worker -> its last heartbeat
        self._follower = Follower(settings, [topics.FLEET], self.on_record, since_ms=now_ms() - 10 * self._silent_ms)

    def on_record(self, record: Incoming) -> None:
        """Take in a heartbeat; the broker's clock says when it was sent."""
        heartbeat = decode(record.value, Heartbeat)
        if any(owned.remaining_ms < 0 or owned.end_offset < 0 for owned in heartbeat.partitions):
            raise InvalidRecord(f"{heartbeat.worker_id:.80} tells of less than no work: {heartbeat!r:.300}")
        if not 0 < len(heartbeat.worker_id) <= MOST_ID:  # plans name it
            raise InvalidRecord(f"worker_id must have 1 to {MOST_ID} characters: got {len(heartbeat.worker_id)}")
        since_ms = now_ms() - FORGET_MS
        with self._lock:  # a new dict each time: readers hold the old one
            heard = {worker: seen for worker, seen in self.heartbeats.items() if seen.seen_ms > since_ms}
            self.heartbeats = {**heard, heartbeat.worker_id: Seen(heartbeat, record.timestamp_ms)}
            self._loads.on_heartbeat(heartbeat, record.timestamp_ms)

    def loads(self, variant: str, at_ms: int) -> list[Load]:
        """The live workers of a variant with the work before them."""
        return self.all_loads((variant,), at_ms)[variant]

    def all_loads(self, variants: Iterable[str], at_ms: int) -> Loads:
        """The same for several variants, at one moment."""
        with self._lock:
            return {variant: self._loads.loads(variant, at_ms, self._silent_ms) for variant in variants}

    def sent(self, variant: str, partition: int, run_ms: float, at_ms: int) -> Sent:
        """Remember a job of our own until a heartbeat has counted it."""
        with self._lock:
            return self._loads.on_sent(variant, partition, None, run_ms, at_ms)

    def acknowledged(self, sent: Sent, offset: int) -> None:
        """A job of our own lies at this offset."""
        with self._lock:
            self._loads.on_acknowledged(sent, offset)

    def start(self) -> "FleetView":
        """Follow, and return when the recent heartbeats are read."""
        self._follower.start().wait_caught_up(START_TIMEOUT_S)
        return self

    def close(self) -> None:
        """Stop following."""
        self._follower.close()
