"""What stands in for the clients of Kafka: plans, the planner's lease, waiting jobs, and the ledger, in memory."""

import asyncio
from collections.abc import Collection, Sequence

from agents.in_process.bus import Bus
from agents.runtime.records import outcome_record, outgoing
from agents.runtime.views import EndedView, PlanView
from planner.catalog.model import Catalog
from planner.serving.deadlines import is_overdue
from planner.serving.dispatch.worker import POLL_MS
from planner.serving.ending.outcomes import expired, result_of
from schemas import topics
from schemas.messages import ClassifiedRequest, Outcome, Plan
from schemas.record import Incoming, Outgoing
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.kafka.transactions.barrier import Barrier


class LocalPlans(PlanView):
    """The plans of this process, which are all in memory."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__("in-process", catalog)
        self._known: dict[int, Plan] = {}

    def obey(self, plan: Plan) -> None:
        """Take over a plan, and remember it."""
        self._known.setdefault(plan.version, plan)
        super().obey(plan)

    async def in_force(self) -> Plan:
        """Return the plan; wait for the first one on the loop's clock."""
        while self.plan is None:
            await asyncio.sleep(POLL_MS / 1000)
        return self.plan

    def find(self, version: int) -> Plan | None:
        """Return an earlier plan by its version."""
        return self._known.get(version)

    def catch_up(self, barrier: Barrier) -> None:
        """Do nothing: all plans are known."""


class LocalLease:
    """The lease of the one planner of this process."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def take(self) -> Barrier:
        """Become the holder."""
        return Barrier(0, now_ms())

    def write(self, records: Sequence[Outgoing], beat: int) -> None:  # noqa: ARG002  nobody else waits for the beat
        """Write records, and wait until they are there."""
        for record in records:
            self._bus.send(record).result()

    def last_beat(self) -> int:
        """Return 0: nobody else has ever led."""
        return 0

    def close(self) -> None:
        """Hold nothing."""


class LocalWaiting:
    """The jobs that wait for an idle worker, of all variants."""

    def __init__(self, bus: Bus, catalog: Catalog) -> None:
        self._variants = {topics.waiting_topic(name).name: name for name in catalog.served}
        self._records: list[Incoming] = []
        self.paused: Collection[str] = ()
        for topic in self._variants:
            bus.serve(topic, self._records.append)

    def variant_of(self, record: Incoming) -> str:
        """Return the variant whose topic a record lies on."""
        return self._variants[record.topic]

    def take(self, most: int, timeout_s: float) -> Sequence[Incoming]:  # noqa: ARG002  nothing is waited for
        """Return what has come."""
        taken, self._records[:] = self._records[:most], self._records[most:]
        return taken

    def went(self, record: Incoming) -> None:
        """Remember nothing: what is in memory is not committed."""

    def commit(self) -> None:
        """Do nothing."""

    def pause(self, variant: str, *, is_paused: bool) -> None:
        """Do nothing: memory holds them all."""

    def close(self) -> None:
        """Hold nothing."""


class LocalLedger:
    """Ends each request once, in memory."""

    def __init__(self, bus: Bus, ended: EndedView, grace_ms: float) -> None:
        self._bus, self._ended, self._grace_ms = bus, ended, grace_ms

    def on_outcome(self, record: Incoming) -> None:
        """Write the result of a request that has none."""
        outcome = decode(record.value, Outcome)
        if outcome.request_id not in self._ended:
            result = result_of(outcome)
            self._bus.write(
                outgoing(
                    topics.RESULTS, result, request_id=result.request_id, cause=record.headers, role="ledger",
                    now_ms=now_ms(), facts={"status": result.status},
                )
            )  # fmt: skip

    def on_classified(self, record: Incoming) -> None:
        """End a request by its deadline, should nobody have ended it."""
        classified = decode(record.value, ClassifiedRequest)
        deadline_ms = classified.request.deadline_ms
        if deadline_ms is not None:
            after_ms = max(0.0, deadline_ms + self._grace_ms - now_ms()) + 1
            asyncio.get_running_loop().call_later(after_ms / 1000, self._expire, classified, record)

    def _expire(self, classified: ClassifiedRequest, record: Incoming) -> None:
        if is_overdue(classified.request.deadline_ms, now_ms(), self._grace_ms):
            reason = f"it had no result by deadline_ms {classified.request.deadline_ms}"
            outcome = expired(classified, reason=reason, by="ledger", now_ms=now_ms())
            self.on_outcome(_arrived(outcome_record(outcome, record.headers, now_ms())))


def _arrived(record: Outgoing) -> Incoming:
    return Incoming(
        topic=record.topic, partition=0, offset=0, timestamp_ms=now_ms(), key=record.key, value=record.value,
        headers=record.headers,
    )  # fmt: skip
