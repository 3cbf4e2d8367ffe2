"""The classifier: `prompts` -> `classified`, with the hardness and class predicted from the prompt alone."""

import asyncio
import dataclasses
from collections.abc import Container, Sequence

from agents.classifier.judges import PromptJudge
from agents.runtime.records import outcome_record, outgoing, refused
from planner.catalog.model import Catalog, classes_of
from planner.serving.admission.admission import meant_deadline
from planner.serving.decisions import INVALID, POISON
from planner.serving.ending.outcomes import expired, failed, has_passed, rejected
from schemas import topics
from schemas.errors import InvalidRecord, InvalidRequest
from schemas.messages import ClassifiedRequest, GenerateRequest
from schemas.record import Delivered, Incoming, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.codec.headers import REQUEST_ID
from streams.codec.prompt_file import check
from streams.codec.request_ids import request_id_of
from streams.codec.requests import decode_request
from streams.settings import Requests


class Classifier:
    """The classifier's logic as a `StreamLogic`."""

    role = "classifier"
    source = topics.PROMPTS

    def __init__(
        self,
        judge: PromptJudge,
        catalog: Catalog,
        limits: Requests,
        ended: Container[str] = frozenset(),
        in_flight: Container[str] = frozenset(),
    ) -> None:
        """`ended`: the requests that have a result: judging takes milliseconds, and a flood may have been cancelled.

        `in_flight`: the requests that have been classified. Another record with such an id, whatever it holds and
        whoever wrote it, must neither end its request nor give it another deadline.
        """
        self._judge = judge
        self._catalog = catalog
        self._limits = limits
        self._ended = ended
        self._in_flight = in_flight
        self._judging = asyncio.Lock()

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """Return the record for `classified`; a request of the batch tier is first moved to its own topic."""
        checked = self._checked(record)
        if isinstance(checked, GenerateRequest) and checked.tier == "batch":
            return [_to_batch_topic(record)]
        return await self._classified(checked, record) if isinstance(checked, GenerateRequest) else checked

    async def classified(self, record: Incoming) -> Sequence[Outgoing]:
        """A classified request of whatever tier, or why there is none."""
        checked = self._checked(record)
        return await self._classified(checked, record) if isinstance(checked, GenerateRequest) else checked

    def _checked(self, record: Incoming) -> GenerateRequest | Sequence[Outgoing]:
        """The request if it can be served, else how it ends; nothing, where a request with this id was there before."""
        request: GenerateRequest | None = None
        try:
            request = decode_request(record)
            if self._is_repetition(request.request_id):
                return []
            check(request, self._limits, now_ms())
        except InvalidRequest as error:
            subject: str | GenerateRequest = request_id_of(record)
            if request is None and self._is_repetition(request_id_of(record)):
                return []
            if request is not None:  # what was refused for its length must not travel on whole
                subject = dataclasses.replace(request, prompt=request.prompt[: self._limits.max_prompt_bytes])
            outcome = rejected(subject, reason=str(error), by=self.role, now_ms=now_ms(), param=error.field)
            return refused(record, outcome, error, now_ms())
        if has_passed(request.deadline_ms, now_ms()):
            return [self._too_late(request, record)]
        return request

    def _is_repetition(self, request_id: str) -> bool:
        """Whether a request with this id has ended or is in flight; counts the record that repeats it."""
        if request_id in self._ended:
            metrics.DEAD_WORK.labels(self.role).inc()
        elif request_id in self._in_flight:
            metrics.REPEATED.inc()
        else:
            return False
        return True

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

    def _too_late(self, request: GenerateRequest, record: Incoming) -> Outgoing:
        deadline_ms = request.deadline_ms or 0
        meant = meant_deadline(deadline_ms, now_ms())
        reason = f"deadline_ms {deadline_ms} had passed when the prompt was read at {now_ms()}"
        reason += f"; {meant}" if meant else ""
        outcome = expired(request, reason=reason, by=self.role, now_ms=now_ms())
        return outcome_record(outcome, record.headers, now_ms())

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Do nothing, as there is nothing to remember."""

    def on_undelivered(self, record: Outgoing) -> None:
        """Do nothing, as nothing was remembered."""

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """End a record as FAILED; one that cannot be read, under its position: it is no other request's end."""
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
    """Return the record as it came; its id is stated in a header, as its position on that topic is another one."""
    name = request_id_of(record).encode()
    headers = {**record.headers, REQUEST_ID: name}
    return Outgoing(topic=topics.PROMPTS_BATCH, key=name, value=record.value, headers=headers)
