"""Finds the request that a repetition repeats, by a mark that its record on `prompts` carries.

The mark is a keyed digest of tenant, path and body, and of `Idempotency-Key` where there is one. OpenAI's clients
state no such key, but count their repetitions (`x-stainless-retry-count`). Equal bodies with a count of 0 are different
requests.
"""

import hashlib
import hmac
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from agents.gateway.jobs import JobView
from agents.gateway.refusals import Refusal
from schemas.messages import Result, Status
from schemas.record import Incoming
from schemas.topics import PROMPTS, PROMPTS_BATCH
from streams.codec.headers import FACT

TOPICS: Final = (PROMPTS, PROMPTS_BATCH)  # whose records carry marks
MARK: Final = "repetition"  # fact in the headers of a record on `prompts`
KEY_HEADER, COUNT_HEADER = "idempotency-key", "x-stainless-retry-count"
NAMESPACE: Final = uuid.UUID("0d8e9a57-5f3c-4c1a-9d4e-6f6e1f0b7a35")
MAX_KEY: Final = 255  # characters
MAX_EQUAL: Final = 100  # requests with one mark: a client may send the same body for days


class Repetition(NamedTuple):
    """A request's mark, and what its headers say of repetition."""

    mark: str
    is_keyed: bool = False  # it has an `Idempotency-Key`: equal marks are one request at any time
    tries: int = 0  # number of earlier tries, as the client counts; 0 if it does not count


def stated(headers: Mapping[str, str], tenant: str, path: str, body: bytes, secret: bytes) -> Repetition:
    """Return a request's mark. Raises Refusal for an invalid key or count."""
    key, count = headers.get(KEY_HEADER, ""), headers.get(COUNT_HEADER, "0")
    if len(key) > MAX_KEY:
        limit = f"{KEY_HEADER} must have at most {MAX_KEY} characters"
        raise Refusal("invalid", f"{limit}: got {len(key)}", param=KEY_HEADER)
    if not (count.isascii() and count.isdigit() and len(count) < 6):
        raise Refusal("invalid", f"{COUNT_HEADER} must be a whole number: got {count!r:.80}", param=COUNT_HEADER)
    text = b"\0".join((tenant.encode(), path.encode(), key.encode(), body))
    return Repetition(hmac.digest(secret, text, hashlib.sha256).hex()[:32], bool(key), int(count))


@dataclass(slots=True)
class _Marked:
    """A request with a mark."""

    request_id: str
    at_ms: int  # of its record, by the broker's clock
    joined: set[int] = field(default_factory=set)  # counts of the repetitions that joined it


class Repetitions:
    """The recent requests with marks. Written by one thread, read by others."""

    def __init__(self, jobs: JobView, max_marks: int, window_ms: float) -> None:
        """`window_ms`: max age of a request that a repetition joins."""
        self._jobs = jobs
        self._max_marks = max_marks
        self._window_ms = window_ms
        self._lock = threading.Lock()
        self._marked: OrderedDict[str, dict[str, _Marked]] = OrderedDict()  # mark -> request -> what is known of it

    def on_record(self, record: Incoming) -> None:
        """Take in a record of TOPICS, possibly twice; other topics are skipped."""
        if record.topic not in TOPICS:
            return
        mark = record.headers.get(FACT + MARK, b"").decode(errors="replace")
        request_id = (record.key or b"").decode(errors="replace")
        if not mark or not request_id:
            return
        with self._lock:
            equal = self._marked.setdefault(mark, {})
            equal.setdefault(request_id, _Marked(request_id, record.timestamp_ms))
            if len(equal) > MAX_EQUAL:
                del equal[next(iter(equal))]
            if len(self._marked) > self._max_marks:
                self._marked.popitem(last=False)

    def join(self, repetition: Repetition, now_ms: int) -> str | None:
        """Join the oldest request that no repetition of this count has joined; return its id, None if there is none.

        Requests that were rejected with a time to retry, or cancelled (`gateway.on_hang_up`), are not joined.
        """
        with self._lock:
            marked = sorted(self._marked.get(repetition.mark, {}).values(), key=lambda each: each.at_ms)
            for each in marked:
                is_joined = repetition.tries in each.joined or now_ms - each.at_ms > self._window_ms
                result = self._jobs.result_of(each.request_id)
                if not is_joined and not _may_be_retried(result) and not _was_left(result):
                    each.joined.add(repetition.tries)
                    return each.request_id
        return None

    def id_of(self, repetition: Repetition) -> str:
        """Return the id of a request with a key: equal at every gateway, so that the pipeline drops a second record.

        After a rejection with a time to retry the id changes.
        """
        tries = 0
        while True:
            request_id = str(uuid.uuid5(NAMESPACE, f"{repetition.mark}/{tries}"))
            if not _may_be_retried(self._jobs.result_of(request_id)):
                return request_id
            tries += 1


def _may_be_retried(result: Result | None) -> bool:
    """Whether a request was rejected with a time to retry."""
    return result is not None and result.status is Status.REJECTED and result.retry_after_ms is not None


def _was_left(result: Result | None) -> bool:
    return result is not None and result.status is Status.CANCELLED
