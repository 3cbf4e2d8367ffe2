"""The classifier: `prompts` -> `classified`, with the hardness and class predicted from the prompt alone.

`ClassifierLogic` (`planner/serving/admission/admission.py`) decides whether a prompt is judged.
"""

import asyncio
from collections.abc import Container, Sequence

from agents.classifier.judges import PromptJudge
from agents.runtime.records import outcome_record, outgoing, refused
from planner.catalog.model import Catalog, classes_of
from planner.serving.admission.admission import ROLE, ClassifierLogic, Refusal, Way
from planner.serving.decisions import ENDED, INVALID, POISON, Ignored
from planner.serving.ending.outcomes import failed
from schemas import topics
from schemas.errors import InvalidRecord, InvalidRequest
from schemas.messages import ClassifiedRequest, GenerateRequest, Outcome
from schemas.record import Delivered, Incoming, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.codec.headers import REQUEST_ID
from streams.codec.request_ids import request_id_of
from streams.codec.requests import decode_request, names_in
from streams.settings import Requests


class Classifier:
    """The classifier's logic as a `StreamLogic`."""

    role = ROLE
    source = topics.PROMPTS

    def __init__(
        self,
        judge: PromptJudge,
        catalog: Catalog,
        limits: Requests,
        ended: Container[str] = frozenset(),
        in_flight: Container[str] = frozenset(),
    ) -> None:
        """`ended`, `in_flight`: as of `ClassifierLogic`."""
        self._judge = judge
        self._catalog = catalog
        self._logic = ClassifierLogic(limits, ended, in_flight)
        self._judging = asyncio.Lock()

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """Return the record for `classified`; a request of the batch tier is first moved to its own topic."""
        return await self._served(record, has_waited=False)

    async def classified(self, record: Incoming) -> Sequence[Outgoing]:
        """Return the classified request, of any tier, or the record of its refusal."""
        return await self._served(record, has_waited=True)

    async def _served(self, record: Incoming, *, has_waited: bool) -> Sequence[Outgoing]:
        request, decision = self._decided(record, now_ms(), has_waited)
        match decision:
            case Way.JUDGE if request is not None:
                return await self._classified(request, record)
            case Way.BATCH:
                return [_to_batch_topic(record)]
            case Outcome():
                return [outcome_record(decision, record.headers, now_ms())]
            case Refusal(outcome, error):
                return refused(record, outcome, error, now_ms())
        (metrics.DEAD_WORK.labels(self.role) if decision is ENDED else metrics.REPEATED).inc()
        return []

    def _decided(
        self, record: Incoming, at_ms: int, has_waited: bool
    ) -> tuple[GenerateRequest | None, Ignored | Refusal | Outcome | Way]:
        """Return the request, None if it cannot be read, and the decision on it."""
        try:
            request = decode_request(record)
        except InvalidRequest as error:
            return None, self._logic.on_fault(request_id_of(record), error, at_ms)
        return request, self._logic.on_request(request, at_ms, has_waited=has_waited, stated=lambda: names_in(record))

    async def _classified(self, request: GenerateRequest, record: Incoming) -> Sequence[Outgoing]:
        async with self._judging:  # one thread at a time; the batch gate judges here too
            judged = await asyncio.to_thread(self._judge.classify, request.prompt)
        classified = ClassifiedRequest(
            request=request,
            hardness=judged.hardness,
            classes=classes_of(self._catalog, judged.hardness) | judged.classes,
            classifier=self._judge.name,
            received_ms=record.timestamp_ms,
            classified_ms=now_ms(),
        )
        return [
            outgoing(
                topics.CLASSIFIED, classified, request_id=request.request_id, cause=record.headers, role=self.role,
                now_ms=classified.classified_ms, facts=_facts(classified),
            )
        ]  # fmt: skip

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Do nothing, as there is nothing to remember."""

    def on_undelivered(self, record: Outgoing) -> None:
        """Do nothing, as nothing was remembered."""

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """End a record as FAILED; an unreadable one under its position, so that no other request ends."""
        code = INVALID if isinstance(error, InvalidRecord) else POISON
        outcome = failed(request_id_of(record), reason=str(error), by=self.role, now_ms=now_ms(), code=code)
        return refused(record, outcome, error, now_ms())


def _facts(classified: ClassifiedRequest) -> dict[str, object]:
    """Routing facts for the headers; the deadline, so that the ledger finds it without decoding."""
    request = classified.request
    facts: dict[str, object] = {
        "hardness": f"{classified.hardness:.3f}",
        "tenant": request.tenant,
        "tier": request.tier,
    }
    return facts if request.deadline_ms is None else facts | {"deadline_ms": request.deadline_ms}


def _to_batch_topic(record: Incoming) -> Outgoing:
    """Return the record unchanged, with its id in a header, as its position on the batch topic differs."""
    name = request_id_of(record).encode()
    headers = {**record.headers, REQUEST_ID: name}
    return Outgoing(topic=topics.PROMPTS_BATCH, key=name, value=record.value, headers=headers)
