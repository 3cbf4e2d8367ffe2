"""Reads dead letters from the dlq, finds out how their requests ended, and redrives them.

Every role drops records of a request that has ended, so its record alone would have no effect: the request is sent to
`prompts` again under a new id, ID-redrive-N.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from schemas.errors import InvalidRecord, InvalidRequest, PochadeError, UnknownSchema
from schemas.messages import ClassifiedRequest, GenerateJob, GenerateRequest, ImageGenerated, Outcome, Status
from schemas.record import Delivered, Headers, Incoming, Outgoing
from schemas.topics import CLASSIFIED, DLQ, IMAGES, OUTCOMES, POISON, PROMPTS, PUBLIC, RESULTS, WEBHOOKS
from streams.clock import now_ms
from streams.codec.avro import decode, decode_result, encode
from streams.codec.headers import ERROR, REQUEST_ID
from streams.codec.request_ids import id_in_value
from streams.control import deletions
from streams.kafka.consumers import snapshot
from streams.kafka.producers.writing import delivered
from streams.settings import Settings

Send = Callable[[Outgoing], Future[Delivered]]
REDRIVEN, ACK_S = "pochade_redriven", 60.0
INVALID_REQUEST, INVALID_RECORD = InvalidRequest.__name__, InvalidRecord.__name__
WORDS = ("prompt", "negative_prompt")  # fields with words of the client
SUFFIX = re.compile(r"-redrive-\d+$")
ENDED_WORKERS = "EndedWorkers"  # the class of the error of a request that ended its workers


class NotRedrivable(PochadeError):
    """A dead letter cannot be redriven; the message says why."""


class NothingToDo(PochadeError):
    """A dead letter need not be redriven; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One record of the dlq with the facts in its error headers; a missing fact is empty."""

    record: Incoming  # as it lies on the dlq
    error: str  # class of the error
    message: str
    role: str
    topic: str  # where it was read, without the prefix; "": no header names the topic
    partition: str
    offset: str
    request_id: str  # which a redrive is about: on public topics as the record states it now, if it does
    redriven: int  # number of redrives before
    is_cut: bool  # whether only the beginning of its value was kept

    @property
    def is_clients(self) -> bool:
        """Whether what a client sent is wrong, so that it fails again however often it is redriven."""
        return self.error == INVALID_REQUEST or (self.error == INVALID_RECORD and self.topic in PUBLIC)

    @property
    def prompts(self) -> tuple[str, ...]:
        """All that its request says in words; (): it cannot be read."""
        request, fields = _request_in(self), dict[str, Any]()
        if request is not None:
            fields = {"prompt": request.prompt, "negative_prompt": request.options.negative_prompt}
        elif self.topic in PUBLIC:
            fields = _json_in(self.record.value)
        return tuple(text for name in WORDS if isinstance(text := fields.get(name), str) and text)

    @property
    def position(self) -> str:
        """PARTITION@OFFSET of the record on the dlq, as `dlq show` and `dlq redrive` take it."""
        return f"{self.record.partition}@{self.record.offset}"


def dead_letter_of(record: Incoming) -> DeadLetter:
    """Return the dead letter in a record of the dlq; facts without a header are empty."""

    def fact(name: str) -> str:
        return record.headers.get(ERROR + name, b"").decode(errors="replace")

    stated = _stated(record.value) if fact("topic") in PUBLIC else ""
    return DeadLetter(
        record=record,
        error=fact("class"),
        message=fact("message"),
        role=fact("role"),
        topic=fact("topic"),
        partition=fact("partition"),
        offset=fact("offset"),
        request_id=stated or fact("request_id") or (record.key or b"").decode(errors="replace"),
        redriven=_count(record.headers),
        is_cut=ERROR + "cut_from_bytes" in record.headers,
    )


def _stated(value: bytes | None) -> str:
    """Return the id that a prompt's value states; what could not be read may have become readable since."""
    try:
        return id_in_value(value)
    except InvalidRecord:
        return ""


def _count(headers: Headers) -> int:
    text = headers.get(REDRIVEN, b"0")
    return int(text) if re.fullmatch(rb"\d{1,9}", text) else 0


def read_dead_letters(settings: Settings, since_ms: int, error: str | None = None) -> list[DeadLetter]:
    """Return the dead letters of the last `since_ms` milliseconds, of one error class or all, the oldest first."""
    found = [dead_letter_of(record) for record in snapshot.past(settings, [DLQ], since_ms=max(1, now_ms() - since_ms))]
    found.sort(key=lambda each: each.record.timestamp_ms)
    return [each for each in found if error is None or each.error == error]


def ended(settings: Settings, bases: set[str]) -> dict[str, str]:
    """Return the ids of these requests, and of their redrives, that have a result -> its status."""

    def is_theirs(key: bytes | None) -> bool:
        return base_id((key or b"").decode(errors="replace")) in bases

    records = snapshot.past(settings, [RESULTS], keep=lambda record: is_theirs(record.key))
    return {(r.key or b"").decode(errors="replace"): str(decode_result(r.value).status) for r in records}


def redrive_record(dead_letter: DeadLetter, ended: Mapping[str, str]) -> Outgoing:
    """Return the record to write to redrive a dead letter. `ended`: ids that have a result -> its status.

    If the request has not ended, or it is a webhook, this is the original record on its original topic. Otherwise this
    is the request on `prompts` under a new id, the first ID-redrive-N that has not ended: repeating a redrive that is
    still open makes no second request.

    Raises:
        NotRedrivable: the record is not whole, can be read by no role, or names neither its topic nor a request.
        NothingToDo: an earlier redrive has completed.
    """
    if deletions.read_deletion(dead_letter.record) is not None:
        raise NotRedrivable(f"{dead_letter.position}: it stands for records that were deleted; {deletions.DO}")
    if dead_letter.is_cut:
        raise NotRedrivable(
            f"{dead_letter.position}: only the beginning of its value was kept; send the original again"
        )
    if not dead_letter.topic:
        raise NotRedrivable(
            f"{dead_letter.position}: it has no header {ERROR}topic that says where to; write it yourself"
        )
    kept = {name: value for name, value in dead_letter.record.headers.items() if not name.startswith(ERROR)}
    headers = {**kept, REDRIVEN: str(dead_letter.redriven + 1).encode()}
    if dead_letter.topic in PUBLIC:  # its position there is another one
        _check_readable(dead_letter)
        headers[REQUEST_ID] = dead_letter.request_id.encode()
    original = Outgoing(
        topic=dead_letter.topic, key=dead_letter.record.key, value=dead_letter.record.value, headers=headers
    )
    if (
        dead_letter.request_id not in ended or dead_letter.topic == WEBHOOKS
    ):  # webhooks are delivered also after the end
        return original
    new_id = _unused(dead_letter.request_id, ended)
    if dead_letter.topic in PUBLIC:
        headers = {**headers, REQUEST_ID: new_id.encode()}
        value = _renamed(dead_letter.record.value, new_id)
        return replace(original, key=new_id.encode(), value=value, headers=headers)
    request = _request_in(dead_letter)
    if request is None:
        raise NotRedrivable(
            f"{dead_letter.position}: request {dead_letter.request_id} has ended and its record on {dead_letter.topic} "
            "does not hold it; submit the prompt again"
        )
    value = encode(replace(request, request_id=new_id))
    return replace(original, topic=PROMPTS, key=new_id.encode(), value=value)


def _check_readable(dead_letter: DeadLetter) -> None:
    """Raise NotRedrivable for a prompt that would fail again, under one more position."""
    try:
        id_in_value(dead_letter.record.value)
    except UnknownSchema:
        return  # the roles may have learnt it
    except InvalidRecord as error:
        raise NotRedrivable(
            f"{dead_letter.position}: its bytes are no request, and would fail again: {error}"
        ) from None


def base_id(request_id: str) -> str:
    """Return the id that the producer gave, without the suffix that redrives append."""
    return SUFFIX.sub("", request_id)


def _unused(request_id: str, ended: Mapping[str, str]) -> str:
    number = 1
    while (name := f"{base_id(request_id)}-redrive-{number}") in ended:
        if ended[name] == Status.COMPLETED:
            raise NothingToDo(f"its redrive {name} has completed")
        number += 1
    return name


def _renamed(value: bytes | None, new_id: str) -> bytes | None:
    """Return a prompt's value under a new id. JSON without an id stays as it is: a header states the id."""
    try:
        return encode(replace(decode(value, GenerateRequest), request_id=new_id))
    except InvalidRecord:
        pass  # JSON, or unreadable bytes
    fields = _json_in(value)
    return json.dumps({**fields, "request_id": new_id}).encode() if "request_id" in fields else value


def _json_in(value: bytes | None) -> dict[str, Any]:
    """Return the fields of a JSON object; {}: it is none."""
    try:
        fields: Any = json.loads(value or b"")
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _request_in(dead_letter: DeadLetter) -> GenerateRequest | None:
    value = dead_letter.record.value
    try:
        if dead_letter.topic in PUBLIC:
            return decode(value, GenerateRequest)
        if dead_letter.topic == CLASSIFIED:
            return decode(value, ClassifiedRequest).request
        if dead_letter.topic.startswith(("jobs.", "waiting.")):
            return decode(value, GenerateJob).classified.request
        if dead_letter.topic == IMAGES:
            return decode(value, ImageGenerated).job.classified.request
        if dead_letter.topic == OUTCOMES:
            return decode(value, Outcome).request
    except InvalidRecord:
        pass  # broken bytes hold no request
    return None


def redriven(
    dead_letters: Iterable[DeadLetter], ended: Mapping[str, str], send: Send | None, rate: float
) -> Iterator[dict[str, Any]]:
    """Redrive dead letters, and yield a row for each: the topic it was sent to, or why it was not sent.

    `send` None sends nothing. `rate` is the maximum number of records sent per second. Raises DeliveryFailed.
    """
    sent: set[tuple[str, str]] = set()
    begun_s = time.monotonic()
    for number, dead_letter in enumerate(dead_letters):
        try:
            record = redrive_record(dead_letter, ended)
            name = (record.headers.get(REQUEST_ID) or record.key or b"").decode(errors="replace")
            if (record.topic, name) in sent and dead_letter.request_id in ended:
                raise NothingToDo("an earlier dead letter of this request is redriven already")
        except (NotRedrivable, NothingToDo) as reason:
            is_refused = isinstance(reason, NotRedrivable)
            yield {
                "position": dead_letter.position,
                "sent": False,
                "to": None,
                "reason": str(reason),
                "refused": is_refused,
            }
            continue
        sent.add((record.topic, name))
        if send is not None:
            threading.Event().wait(max(0.0, begun_s + number / rate - time.monotonic()))
            unmarked = Outgoing(topic=POISON, key=dead_letter.request_id.encode(), value=None)
            is_marked = dead_letter.error == ENDED_WORKERS  # its redrive would be refused, as equal to it
            for each in [unmarked, record] if is_marked else [record]:
                delivered(each, send(each), ACK_S)
        yield {"position": dead_letter.position, "sent": send is not None, "to": record.topic, "request_id": name}
