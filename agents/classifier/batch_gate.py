"""The batch gate: requests of `prompts.batch` wait on their topic, and are classified while no worker has jobs waiting.

`planner.serving.admission.batch_gate` decides when a request may pass.
"""

import asyncio
from collections.abc import Callable, Sequence

from agents.classifier.role import Classifier
from agents.runtime.views import EndedView, FleetView
from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.serving.admission.batch_gate import POLL_MS, BatchGate, Occupation
from schemas import topics
from schemas.record import Delivered, Incoming, Outgoing
from streams.clock import now_ms
from streams.codec.request_ids import request_id_of


def never() -> bool:
    """The condition of a process that does not end."""
    return False


class BatchClassifier:
    """`StreamLogic` of the batch tier: the classifier behind a gate."""

    role = "classifier-batch"
    source = topics.PROMPTS_BATCH

    def __init__(
        self,
        classifier: Classifier,
        catalog: Catalog,
        fleet: FleetView,
        ended: EndedView,
        leaves: Callable[[], bool] = never,
        gate: BatchGate | None = None,
    ) -> None:
        """`leaves`: the process is to end, or the partitions of `prompts.batch` are to move.

        `gate`: decides when a request may pass; by default one of its own.
        """
        self._classifier = classifier
        self._catalog = catalog
        self._fleet = fleet
        self._ended = ended
        self._leaves = leaves
        self._gate = gate or BatchGate()

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """The classified record, once the gate lets it pass.

        While the process ends or partitions move, the record in progress passes at once: the whole group waits for it.
        """
        while not (self._leaves() or self._is_open()):
            await asyncio.sleep(POLL_MS / 1000)
        written = await self._classifier.classified(record)
        if any(each.topic == topics.CLASSIFIED for each in written):
            self._gate.on_passed(request_id_of(record), now_ms())
        return written

    def _is_open(self) -> bool:
        at_ms = now_ms()
        self._gate.remove_ended(self._ended)
        workers = [
            Occupation(load.remaining_ms, run_ms(variant, 1))
            for variant in self._catalog.variants.values()
            for load in self._fleet.loads(variant.name, at_ms)
        ]
        return self._gate.may_pass(workers, at_ms)

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """A record that was written changes nothing here."""

    def on_undelivered(self, record: Outgoing) -> None:
        """A record that was never written takes no room."""
        self._gate.on_end((record.key or b"").decode())

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """The classifier's answer to a record that it cannot read."""
        return self._classifier.on_error(record, error)
