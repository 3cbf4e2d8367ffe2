"""The planner: watches prompts and workers, runs the active policy, publishes a Plan when it decides anew."""

import json
import logging
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from agents.views import START_TIMEOUT_S, FleetView, PlanView
from agents.writing import outgoing
from planner.catalog import Catalog
from planner.observation import Observation, WorkerView, class_shares, demand_rps, hardness_shares, live_workers
from planner.plans import check, publish, same_decision
from planner.policies import DEFAULT, named
from schemas import topics
from schemas.messages import ClassifiedRequest, Plan
from schemas.record import Incoming
from streams import metrics
from streams.codec import decode
from streams.producer import RecordProducer, send_all
from streams.reading import Follower, now_ms
from streams.settings import Settings

log = logging.getLogger(__name__)

ROLE = "planner"
TICK_S = 0.2
WINDOW_MS = 30_000  # over which arrivals are counted
HISTOGRAM = 1000  # prompts. Source: ARGUS 4.3, histogram over the last 1,000


class PlannerLoop:
    """One planner. `run` blocks until `stopping` is set."""

    def __init__(
        self, settings: Settings, catalog: Catalog, producer: RecordProducer, plans: PlanView, fleet: FleetView
    ) -> None:
        self._settings, self._catalog, self._producer = settings, catalog, producer
        self._plans, self._fleet = plans, fleet
        self._arrivals: deque[int] = deque(maxlen=100_000)
        self._recent: deque[tuple[float, str]] = deque(maxlen=HISTOGRAM)
        self._seen: tuple[Any, ...] = ()
        self._last_ms = 0

    def _on_classified(self, record: Incoming) -> None:
        classified = decode(record.value, ClassifiedRequest)
        self._arrivals.append(classified.received_ms)
        self._recent.append((classified.hardness, classified.classes.get("models", "")))

    def not_ready(self) -> str:
        """Why it does not plan yet; any thread may ask."""
        return "" if self._last_ms else "reads the prompts of late"

    def run(self, stopping: threading.Event) -> None:
        """Plan at once, then on a period and whenever a worker or a pin comes or goes."""
        self._arrivals.clear()  # a second run reads the window again
        prompts = Follower(self._settings, [topics.CLASSIFIED], self._on_classified, since_ms=now_ms() - WINDOW_MS)
        try:
            prompts.start().wait_caught_up(START_TIMEOUT_S)
            while not stopping.is_set():
                self.tick(now_ms())
                stopping.wait(TICK_S)
        finally:
            prompts.close()

    def tick(self, now: int) -> None:
        """Plan anew when the period is over, or a worker or a pin has come or gone."""
        allocation = self._plans.plan.allocation if self._plans.plan else {}
        workers = live_workers(self._fleet.heartbeats, now, self._settings.planner.worker_silent_ms, allocation)
        seen = (tuple(w.worker_id for w in workers), self._plans.pin)
        if seen != self._seen or now - self._last_ms >= self._settings.planner.period_ms:
            self._seen, self._last_ms = seen, now
            self._plan(workers, now)

    def _plan(self, workers: tuple[WorkerView, ...], now: int) -> None:
        pin = self._plans.pin
        policy = pin.policy if pin else self._settings.planner.policy or DEFAULT
        parameters: Mapping[str, float] = pin.parameters if pin else self._settings.planner.parameters
        try:
            plan = self._solved(policy, parameters, self._observation(workers, now))
            if plan is not None:
                self._publish(plan)
        except Exception:  # a policy that fails leaves the plan in force; the next period tries again
            metrics.FALLBACKS.labels(ROLE, "policy").inc()
            log.exception("policy %s made no plan; the one in force stays", policy)

    def _solved(self, policy: str, parameters: Mapping[str, float], seen: Observation) -> Plan | None:
        before = self._plans.plan
        memory = json.loads(before.memory) if before and before.policy == policy else {}
        draft = named(policy)(seen, self._catalog, memory, parameters)
        if before is not None and before.policy == policy and same_decision(draft, before):
            return None
        plan = publish(draft, before, policy, seen.now_ms)
        check(plan, self._catalog)
        return plan

    def _observation(self, workers: tuple[WorkerView, ...], now: int) -> Observation:
        recent = list(self._recent)
        return Observation(
            now_ms=now,
            demand_rps=demand_rps(list(self._arrivals), now, WINDOW_MS),
            hardness=hardness_shares([hardness for hardness, _ in recent]),
            classes=class_shares(label for _, label in recent),
            workers=workers,
        )

    def _publish(self, plan: Plan) -> None:
        record = outgoing(
            topics.PLAN, plan, request_id=topics.PLAN_KEY, cause={}, role=ROLE, now_ms=now_ms(),
            facts={"policy": plan.policy, "version": plan.version},
        )  # fmt: skip
        send_all(self._producer, [record])
        self._plans.obey(plan)  # at once: a tick before the view has read it would write its version a second time
        log.info("plan %d by %s: %s", plan.version, plan.policy, plan.reason)
