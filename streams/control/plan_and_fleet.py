"""The newest plan and the live workers, for a process beside the pipeline that supervises workers by them."""

import threading

from planner.control.validity import is_newer
from planner.observation.workers import ReceivedHeartbeat, WorkerView, live_workers
from schemas.messages import Heartbeat, Plan
from schemas.record import Incoming
from schemas.topics import FLEET, PLAN
from streams.codec.avro import decode
from streams.control.heartbeats import add
from streams.control.records import plan_in


class PlanAndFleet:
    """The newest plan and the last heartbeat of each worker, read from `plan` and `fleet` by another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plan: Plan | None = None
        self._beats: dict[str, ReceivedHeartbeat] = {}

    def on_record(self, record: Incoming) -> None:
        """Take a record of either topic; a pin is no plan."""
        with self._lock:
            if record.topic == PLAN:
                plan = plan_in(record)
                if plan is not None and is_newer(self._plan.version if self._plan else 0, plan):
                    self._plan = plan
            elif record.topic == FLEET and record.value:
                beat = decode(record.value, Heartbeat)
                add(self._beats, beat, record.timestamp_ms)

    def plan(self) -> Plan | None:
        """Return the newest plan."""
        with self._lock:
            return self._plan

    def live(self, now_ms: int, silent_ms: int) -> dict[str, WorkerView]:
        """Return the workers with a heartbeat within `silent_ms`, by id."""
        with self._lock:
            allocation = self._plan.allocation if self._plan else {}
            return {view.worker_id: view for view in live_workers(self._beats, now_ms, silent_ms, allocation)}
