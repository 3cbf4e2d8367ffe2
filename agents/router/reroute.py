"""Reroutes orphaned jobs, those on the topic of a variant that has lost its last worker, to workers that serve.

Such a topic has no reader. While the plan in force gives the variant no worker, the rerouter joins its consumer group,
has `OrphanRouting` decide on each job anew, and commits when the answers are acknowledged. If this process dies in
between, a job is taken again: the ledger lets one outcome through.
"""

import logging
import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from agents.router.dispatcher import Dispatcher
from agents.runtime.records import event_record, outcome_record, refused
from agents.runtime.stream_roles import soft_slo_of
from agents.runtime.views import EndedView, FleetView, PlanView, WaitingCounts
from agents.worker.jobs import JobSource, Taken
from planner.catalog.model import Catalog
from planner.observation.workers import live_workers
from planner.serving.decisions import Ignored, Rejection, draft_counts
from planner.serving.ending.outcomes import completed_by_draft, failed, turned_away
from planner.serving.routing.escalation import Keep
from planner.serving.routing.reroute import POLL_MS, OrphanRouting, RemainsInQueue
from planner.serving.routing.routing import RoutingLogic, backlog_limits
from schemas.messages import EventKind, GenerateJob, Plan
from schemas.record import Outgoing
from schemas.topics import full_name, jobs_topic, worker_group
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.codec.request_ids import request_id_of
from streams.kafka.consumers.offsets import Unread, refresh, unread
from streams.kafka.producers.topic_limits import written
from streams.kafka.producers.writing import RecordProducer
from streams.settings import Settings

log = logging.getLogger(__name__)

ROLE = "router"
WAITS = "wait for a worker"
DELIVERY_S = 120
POLL_S = 0.2
MAX_TURN_S = 15.0  # with one variant, so that others get their turn; a dead worker's session may last longer
MAX_JOBS = 100  # taken at once
RETRY_S = 15.0  # between two decisions on a job that waits
REFRESH_S = 3600.0  # far below the week, or less by their brokers' offsets.retention.minutes, that offsets are kept


class Answer(NamedTuple):
    """The decision on a job, in words, and the records that carry it out."""

    what: str
    records: tuple[Outgoing, ...] = ()


class Rerouting:
    """Reroutes orphaned jobs: those on the topic of a variant that no worker serves any more.

    Answers jobs by the plan in force, as the router answers requests; one that waits stays where it is.
    """

    def __init__(
        self, logic: OrphanRouting, ended: EndedView, dispatcher: Dispatcher, producer: RecordProducer
    ) -> None:
        self._logic = logic
        self._ended = ended
        self._dispatcher = dispatcher
        self._producer = producer

    def serve(self, jobs: Sequence[Taken], plan: Plan) -> list[str]:
        """Reroute jobs, and return the decision on each, in words, once all records are acknowledged. Blocks."""
        answers = [self._answer_or_fail(taken, plan) for taken in jobs]
        sent = [(record, self._producer.send(record)) for answer in answers for record in answer.records]
        for record, future in sent:
            self._dispatcher.on_delivered(record, written(self._producer, record, future, DELIVERY_S))
        return [answer.what for answer in answers]

    def _answer_or_fail(self, taken: Taken, plan: Plan) -> Answer:
        record = taken.record
        try:
            return self._answer(taken, decode(record.value, GenerateJob), plan)
        except Exception as error:  # one job that cannot be answered must not keep those behind it
            log.exception("an orphaned job cannot be rerouted")
            outcome = failed(request_id_of(record), reason=str(error), by=ROLE, now_ms=now_ms())
            return Answer("failed", tuple(refused(record, outcome, error, now_ms())))

    def _answer(self, taken: Taken, job: GenerateJob, plan: Plan) -> Answer:
        classified, headers, at_ms = job.classified, taken.record.headers, now_ms()
        loads = self._dispatcher.loads(plan, at_ms, classified.request.tier)
        has_draft = bool(job.path) and draft_counts(classified.request.options)
        has_ended = taken.has_ended or classified.request.request_id in self._ended
        decision = self._logic.reroute(
            classified, job.variant, plan, loads, at_ms, has_ended=has_ended, has_draft=has_draft,
            waited_ms=at_ms - job.routed_ms,
        )  # fmt: skip
        if isinstance(decision, Ignored):
            metrics.DEAD_WORK.labels(ROLE).inc()
            return Answer("had ended")
        if isinstance(decision, RemainsInQueue):
            return Answer(WAITS)
        metrics.FALLBACKS.labels(ROLE, "stranded").inc()
        if isinstance(decision, Keep):
            outcome = completed_by_draft(job, reason=decision.reason, by=ROLE, now_ms=at_ms)
            return Answer("kept their draft", (outcome_record(outcome, headers, at_ms),))
        if isinstance(decision, Rejection):
            outcome = turned_away(decision, classified, by=ROLE, policy=plan.policy, now_ms=at_ms)
            return Answer(outcome.status.lower(), (outcome_record(outcome, headers, at_ms),))
        attempt = max(taken.attempt, job.attempt)
        sent = self._dispatcher.send(plan, classified, decision, cause=headers, attempt=attempt)
        detail = {"from": job.level, "to": decision.level, "reason": f"no worker serves {job.variant} any more"}
        note = event_record(classified.request.request_id, EventKind.REROUTED, ROLE, now_ms(), **detail)
        return Answer(f"to {decision.level}", (sent, note))


class Source(Protocol):
    """The part of `JobSource` that rerouting uses."""

    def take(self, most: int, timeout_s: float) -> Sequence[Taken]:
        """Take up to `most` jobs of the partitions that this member owns."""

    def commit(self, batch: Sequence[Taken]) -> None:
        """Commit past these jobs."""

    def close(self) -> None:
        """Leave the consumer group."""


class Rerouter:
    """Searches for orphaned jobs. `run` blocks until `stopping` is set."""

    def __init__(
        self,
        catalog: Catalog,
        logic: OrphanRouting,
        plans: PlanView,
        fleet: FleetView,
        silent_ms: int,
        rerouting: Rerouting,
        open_source: Callable[[str], Source],
        waiting: Callable[[str], Mapping[int, Unread]],
        refresh: Callable[[str], object] = lambda _variant: None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`waiting` returns, by partition, what a variant's group has not committed; `refresh` commits the rest again,
        as Kafka drops the offsets of a group that has no member for a week."""
        self._catalog = catalog
        self._logic = logic
        self._plans = plans
        self._fleet = fleet
        self._silent_ms = silent_ms
        self._rerouting = rerouting
        self._open = open_source
        self._waiting = waiting
        self._refresh = refresh
        self._clock_s = clock_s
        self._refreshed_s = -math.inf
        # variant -> partition -> offset below which each job was decided on; those that wait are in `_left`
        self._seen: defaultdict[str, dict[int, int]] = defaultdict(dict)
        # variant -> partition -> offsets of the jobs that wait: nothing is committed from the first of them on
        self._left: defaultdict[str, defaultdict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._retried_s: defaultdict[str, float] = defaultdict(lambda: -math.inf)  # variant -> last turn with it

    def run(self, stopping: threading.Event) -> None:
        """Search every POLL_MS. Raises KafkaException where the broker does not answer; it may be run again."""
        while not stopping.wait(POLL_MS / 1000):
            self.search(stopping)
            if time.monotonic() - self._refreshed_s > REFRESH_S:
                self.refresh()

    def refresh(self) -> None:
        """Keep the offsets of the variants that no worker serves."""
        live = live_workers(self._fleet.heartbeats, now_ms(), self._silent_ms)
        for variant in sorted(set(self._catalog.served) - {worker.variant for worker in live}):
            self._refresh(variant)
        self._refreshed_s = time.monotonic()

    def search(self, stopping: threading.Event) -> None:
        """Reroute the jobs of variants that are orphaned and hold any."""
        for variant in self._orphaned():
            if self._holds(variant):
                self._reroute(variant, stopping)

    def _orphaned(self) -> list[str]:
        return self._logic.orphaned(self._plans.plan, self._fleet.heartbeats, now_ms())

    def _holds(self, variant: str) -> bool:
        """Whether jobs lie there that were not decided on, or wait and were not decided on for a while."""
        seen, left, spans = self._seen[variant], self._left[variant], self._waiting(variant)
        if any(span.end > max(span.start, seen.get(partition, 0)) for partition, span in spans.items()):
            return True
        for partition, span in spans.items():
            left[partition] = {offset for offset in left[partition] if offset >= span.start}
        return self._clock_s() - self._retried_s[variant] >= RETRY_S and any(left[partition] for partition in spans)

    def _reroute(self, variant: str, stopping: threading.Event) -> None:
        source, done, until_s = self._open(variant), Counter[str](), time.monotonic() + MAX_TURN_S
        self._retried_s[variant] = self._clock_s()
        stuck: set[int] = set()  # partitions in which a job was found that waits
        try:
            while not stopping.is_set() and variant in self._orphaned() and time.monotonic() < until_s:
                plan, window = self._plans.plan, source.take(MAX_JOBS, POLL_S)
                if plan is not None and window:
                    done.update(self._serve(variant, source, window, plan, stuck))
                elif not self._holds(variant):
                    break
        finally:
            source.close()
            if done:
                jobs = ", ".join(f"{count} {what}" for what, count in done.items())
                log.warning("rerouted orphaned jobs of %s, which no worker serves any more: %s", variant, jobs)

    def _serve(
        self, variant: str, source: Source, window: Sequence[Taken], plan: Plan, stuck: set[int]
    ) -> Sequence[str]:
        """Decide on each job that is new or waits, and return the decisions but for those that go on waiting.

        Commits up to the first job of a partition that waits; `stuck` gets the partitions that have one.
        """
        seen, left = self._seen[variant], self._left[variant]
        asked = [taken for taken in window if self._is_undecided(variant, taken)]
        waited = [taken.record.offset in left[taken.record.partition] for taken in asked]
        answers = self._rerouting.serve(asked, plan)
        for taken, what in zip(asked, answers, strict=True):
            partition, offset = taken.record.partition, taken.record.offset
            seen[partition] = max(seen.get(partition, 0), offset + 1)
            (left[partition].add if what == WAITS else left[partition].discard)(offset)
        done = []
        for taken in window:
            partition = taken.record.partition
            if taken.record.offset in left[partition]:
                stuck.add(partition)
            elif partition not in stuck:
                done.append(taken)
        if done:
            source.commit(done)
        return [what for what, again in zip(answers, waited, strict=True) if not (again and what == WAITS)]

    def _is_undecided(self, variant: str, taken: Taken) -> bool:
        partition, offset = taken.record.partition, taken.record.offset
        return offset >= self._seen[variant].get(partition, 0) or offset in self._left[variant][partition]


def orphan_routing_of(settings: Settings, catalog: Catalog) -> OrphanRouting:
    """Return what decides on orphaned jobs, as the settings have it."""
    limits = backlog_limits(settings.admission.max_backlog_s, settings.admission.interactive_headroom)
    routing = RoutingLogic(catalog, limits, slo_ms=soft_slo_of(settings, catalog))
    return OrphanRouting(catalog, routing, settings.planner.worker_timeout_ms)


def rerouter_of(
    settings: Settings, catalog: Catalog, producer: RecordProducer, plans: PlanView, ended: EndedView, fleet: FleetView,
    counts: WaitingCounts,
) -> Rerouter:  # fmt: skip
    """The one of a router's process."""
    prefix = settings.kafka.prefix

    def place(variant: str) -> tuple[str, str]:
        return full_name(prefix, jobs_topic(variant, 1).name), worker_group(prefix, variant)

    def waiting(variant: str) -> Mapping[int, Unread]:
        return unread(settings, *place(variant))

    logic = orphan_routing_of(settings, catalog)
    rerouting = Rerouting(logic, ended, Dispatcher(catalog, fleet, ROLE, counts), producer)
    return Rerouter(
        catalog,
        logic,
        plans,
        fleet,
        settings.planner.worker_timeout_ms,
        rerouting,
        partial(JobSource, settings),
        waiting,
        lambda variant: refresh(settings, *place(variant)),
    )
