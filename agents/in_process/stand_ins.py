"""What stands in for the clients of Kafka: plans, the planner's lease, waiting jobs, and the ledger, in memory."""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from agents.in_process.bus import Bus
from agents.runtime.records import fitted_dead_letter, outgoing
from agents.runtime.views import PlanView
from planner.catalog.model import Catalog
from planner.serving.deadlines import is_overdue
from planner.serving.dispatch.worker import POLL_MS
from planner.serving.ending.ended_ids import EndedIds
from planner.serving.ending.ledger import ROLE, Aside, Effect, End, LedgerLogic, result_of
from schemas import topics
from schemas.ids import digest_of
from schemas.messages import ClassifiedRequest, Outcome, Plan
from schemas.record import Incoming, Outgoing
from streams.clock import now_ms
from streams.codec.avro import decode, read_each
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

    def write(self, records: Sequence[Outgoing], beat: int) -> None:  # noqa: ARG002  no other planner waits for the beat
        """Write records, and wait until they are there."""
        for record in records:
            self._bus.send(record).result()

    def last_beat(self) -> int:
        """Return 0: no other planner has ever led."""
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
    """Drives the ledger's machine in memory: each request ends once."""

    def __init__(self, bus: Bus, grace_ms: float) -> None:
        self._bus, self._grace_ms, self._ended = bus, grace_ms, EndedIds()
        self._logic = LedgerLogic(self._ended)

    def on_outcome(self, record: Incoming) -> None:
        """Write the result of a request that has none."""
        self._write(self._logic.on_outcomes(read_each([record], Outcome)))

    def on_classified(self, record: Incoming) -> None:
        """End a request by its deadline, unless it has ended."""
        deadline_ms = decode(record.value, ClassifiedRequest).request.deadline_ms
        if deadline_ms is not None:
            after_ms = max(0.0, deadline_ms + self._grace_ms - now_ms()) + 1
            asyncio.get_running_loop().call_later(after_ms / 1000, self._expire, record, deadline_ms)

    def _expire(self, record: Incoming, deadline_ms: int) -> None:
        if is_overdue(deadline_ms, now_ms(), self._grace_ms):
            self._write(self._logic.on_overdue(read_each([record], ClassifiedRequest), now_ms()))

    def _write(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case End(outcome, record):
                    try:
                        self._bus.write(_result(outcome, record))
                        self._ended.add([digest_of(outcome.request_id.encode())], now_ms())
                    except Exception as error:  # numbers out of range: the next must still be served
                        self._write(self._logic.on_unmade(effect, error, now_ms()))
                case Aside(record, error):
                    request_id = (record.key or b"").decode(errors="replace")
                    self._bus.write(fitted_dead_letter(record, error=error, role=ROLE, request_id=request_id))


def _result(outcome: Outcome, record: Incoming) -> Outgoing:
    return outgoing(
        topics.RESULTS, result_of(outcome), request_id=outcome.request_id, cause=record.headers, role=ROLE,
        now_ms=now_ms(), facts={"status": outcome.status},
    )  # fmt: skip
