"""The batch lane: `prompts.batch` waits on its topic and is classified while workers have nothing waiting."""

import asyncio
from collections.abc import Callable, Sequence

from agents.classifier.role import Classifier
from agents.runtime.views import EndedView, FleetView
from planner.catalog.parse import Catalog, run_ms
from planner.serving.lanes import Occupation, batch_may_pass
from schemas import topics
from schemas.record import Delivered, Incoming, Outgoing
from streams.clock import now_ms
from streams.codec.requests import request_id_of

LOOK_S = 0.05


def never() -> bool:
    """What does not leave."""
    return False


class BatchClassifier:
    """`StreamLogic` of the lane: the classifier behind a gate."""

    role = "classifier-batch"
    source = topics.PROMPTS_BATCH

    def __init__(
        self,
        classifier: Classifier,
        catalog: Catalog,
        fleet: FleetView,
        ended: EndedView,
        leaves: Callable[[], bool] = never,
    ) -> None:
        """`leaves`: the process is told to end, or the lane's partitions are to move."""
        self._classifier = classifier
        self._catalog = catalog
        self._fleet = fleet
        self._ended = ended
        self._leaves = leaves
        self._in_flight: dict[str, int] = {}  # request -> when it passed, epoch ms

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """What the classifier says, when it is this record's turn.

        As the process leaves, and as partitions move, the one in hand passes: the whole group waits for it.
        """
        while not (self._leaves() or self._is_open()):
            await asyncio.sleep(LOOK_S)
        written = await self._classifier.classified(record)
        if any(each.topic == topics.CLASSIFIED for each in written):
            self._in_flight[request_id_of(record)] = now_ms()
        return written

    def _is_open(self) -> bool:
        at_ms = now_ms()
        self._in_flight = {name: passed for name, passed in self._in_flight.items() if name not in self._ended}
        workers = [
            Occupation(load.remaining_ms, run_ms(variant, 1))
            for variant in self._catalog.variants.values()
            for load in self._fleet.loads(variant.name, at_ms)
        ]
        return batch_may_pass(workers, [at_ms - passed for passed in self._in_flight.values()])

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Nothing to remember."""

    def on_undelivered(self, record: Outgoing) -> None:
        """It takes no room."""
        self._in_flight.pop((record.key or b"").decode(), None)

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """As the classifier."""
        return self._classifier.on_error(record, error)
