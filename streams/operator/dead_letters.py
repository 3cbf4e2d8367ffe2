"""Dead letters: what lies on the dlq, what became of their requests, and trying them again.

A request that has ended is dead everywhere, so its record alone would be dropped: its request is sent to `prompts`
again under a new id, ID-redrive-N.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import ClassifiedRequest, GenerateJob, GenerateRequest, ImageGenerated, Outcome, Status
from schemas.record import Headers, Incoming, Outgoing
from schemas.topics import CLASSIFIED, DLQ, IMAGES, OUTCOMES, PROMPTS, RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode, decode_result, encode
from streams.codec.headers import ERROR
from streams.kafka import snapshot
from streams.settings import Settings

REDRIVEN = "pochade_redriven"
SUFFIX = re.compile(r"-redrive-\d+$")


class NotRedrivable(PochadeError):
    """A dead letter that cannot be tried again, and why."""


class NothingToDo(PochadeError):
    """A dead letter that need not be tried again, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One record of the dlq."""

    record: Incoming  # as it lies on the dlq
    error: str  # class of the error
    message: str
    role: str
    topic: str  # where it was read, without the prefix; "": not told
    partition: str
    offset: str
    request_id: str
    redriven: int  # how often it was tried again before
    is_cut: bool  # only the beginning of its value was kept

    @property
    def position(self) -> str:
        """Where it lies on the dlq: what `dlq show` and `redrive` take."""
        return f"{self.record.partition}@{self.record.offset}"


def letter_of(record: Incoming) -> Letter:
    """The letter in a record of the dlq; facts that are not told are empty."""

    def fact(name: str) -> str:
        return record.headers.get(ERROR + name, b"").decode(errors="replace")

    return Letter(
        record=record,
        error=fact("class"),
        message=fact("message"),
        role=fact("role"),
        topic=fact("topic"),
        partition=fact("partition"),
        offset=fact("offset"),
        request_id=fact("request_id") or (record.key or b"").decode(errors="replace"),
        redriven=_count(record.headers),
        is_cut=ERROR + "cut_from_bytes" in record.headers,
    )


def _count(headers: Headers) -> int:
    text = headers.get(REDRIVEN, b"0")
    return int(text) if re.fullmatch(rb"\d{1,9}", text) else 0


def letters(settings: Settings, since_ms: int, error: str | None = None) -> list[Letter]:
    """The letters of the last `since_ms` milliseconds, of one error class or all, the oldest first."""
    found = [letter_of(record) for record in snapshot.past(settings, [DLQ], since_ms=max(1, now_ms() - since_ms))]
    found.sort(key=lambda letter: letter.record.timestamp_ms)
    return [letter for letter in found if error is None or letter.error == error]


def ended(settings: Settings, bases: set[str]) -> dict[str, str]:
    """The ids of these requests, and of their redrives, that have a result -> its status."""

    def is_theirs(key: bytes | None) -> bool:
        return base_id((key or b"").decode(errors="replace")) in bases

    records = snapshot.past(settings, [RESULTS], keep=lambda record: is_theirs(record.key))
    return {(r.key or b"").decode(errors="replace"): str(decode_result(r.value).status) for r in records}


def redrive_record(letter: Letter, ended: Mapping[str, str]) -> Outgoing:
    """The record to write so that this is tried again; `ended`: ids that have a result -> its status.

    Not ended: the original record to its original topic. Ended: its request to `prompts` under a new id, the first
    ID-redrive-N that has not ended, so that repeating a redrive that is still in work makes no second request.

    Raises:
        NotRedrivable: the record is not whole, or names neither its topic nor a request.
        NothingToDo: an earlier redrive of it has completed.
    """
    if letter.is_cut:
        raise NotRedrivable(f"{letter.position}: only the beginning of its value was kept; send the original again")
    if not letter.topic:
        raise NotRedrivable(f"{letter.position}: it has no header {ERROR}topic that says where to; write it yourself")
    kept = {name: value for name, value in letter.record.headers.items() if not name.startswith(ERROR)}
    headers = {**kept, REDRIVEN: str(letter.redriven + 1).encode()}
    original = Outgoing(topic=letter.topic, key=letter.record.key, value=letter.record.value, headers=headers)
    if letter.request_id not in ended:
        return original
    new_id = _unused(letter.request_id, ended)
    if letter.topic.startswith("prompts."):  # either lane
        return replace(original, key=new_id.encode(), value=_renamed(letter.record.value, new_id))
    request = _request_in(letter)
    if request is None:
        raise NotRedrivable(
            f"{letter.position}: request {letter.request_id} has ended and its record on {letter.topic} does not hold "
            "it; submit the prompt again"
        )
    value = encode(replace(request, request_id=new_id))
    return replace(original, topic=PROMPTS, key=new_id.encode(), value=value)


def base_id(request_id: str) -> str:
    """The id that the producer gave, without what redrives appended."""
    return SUFFIX.sub("", request_id)


def _unused(request_id: str, ended: Mapping[str, str]) -> str:
    number = 1
    while (name := f"{base_id(request_id)}-redrive-{number}") in ended:
        if ended[name] == Status.COMPLETED:
            raise NothingToDo(f"its redrive {name} has completed")
        number += 1
    return name


def _renamed(value: bytes | None, new_id: str) -> bytes | None:
    """The prompt's record under a new id. Unreadable bytes, and JSON that names no id, stay: the key names them."""
    try:
        return encode(replace(decode(value, GenerateRequest), request_id=new_id))
    except InvalidRecord:
        pass  # JSON, or what nobody can read
    try:
        fields: Any = json.loads(value or b"")
    except (ValueError, RecursionError):
        return value
    if not isinstance(fields, dict) or "request_id" not in fields:
        return value
    return json.dumps({**fields, "request_id": new_id}).encode()


def _request_in(letter: Letter) -> GenerateRequest | None:
    value = letter.record.value
    try:
        if letter.topic == CLASSIFIED:
            return decode(value, ClassifiedRequest).request
        if letter.topic.startswith("jobs."):
            return decode(value, GenerateJob).classified.request
        if letter.topic == IMAGES:
            return decode(value, ImageGenerated).job.classified.request
        if letter.topic == OUTCOMES:
            return decode(value, Outcome).request
    except InvalidRecord:
        pass  # broken bytes hold no request
    return None


def redriven(
    letters: Iterable[Letter], ended: Mapping[str, str], send: Callable[[Outgoing], object] | None, rate: float
) -> Iterator[dict[str, Any]]:
    """A row a letter: where it went, or why not. `send` None: nothing is sent. `rate` is in records a second."""
    sent: set[tuple[str, bytes | None]] = set()
    begun_s = time.monotonic()
    for number, letter in enumerate(letters):
        try:
            record = redrive_record(letter, ended)
            if (record.topic, record.key) in sent and letter.request_id in ended:
                raise NothingToDo("the same request as a letter before")
        except (NotRedrivable, NothingToDo) as reason:
            is_refused = isinstance(reason, NotRedrivable)
            yield {"position": letter.position, "sent": False, "to": None, "reason": str(reason), "refused": is_refused}
            continue
        sent.add((record.topic, record.key))
        if send is not None:
            threading.Event().wait(max(0.0, begun_s + number / rate - time.monotonic()))
            send(record)
        key = (record.key or b"").decode(errors="replace")
        yield {"position": letter.position, "sent": send is not None, "to": record.topic, "request_id": key}
