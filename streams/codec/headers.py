"""Record headers: W3C trace context, CloudEvents attributes, routing facts as text; unknown ones travel on.

A record that cannot be served is kept on the dlq, with error headers beside its own.
"""

import datetime
import functools
import random
import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType

from schemas.errors import UnknownSchema
from schemas.later import may_come
from schemas.record import Headers, Incoming, Outgoing
from schemas.topics import DLQ, PUBLIC

DEADLINE = "pochade_deadline_ms"  # on classified requests that have one: the ledger need not decode the rest
TRACEPARENT = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")  # W3C Trace Context 1
REQUEST_ID = "pochade_request_id"  # on a prompt that a role wrote again: whose it is, unless its value states an id
PREVIEWS = "pochade_previews"  # how many previews of denoising steps are wanted; best effort
ANY_FORM = "pochade_any_form"  # the client did not state `strict`, its gateway did: its images may be in any form
FACT = "pochade_"  # prefix of routing facts: pochade_level, pochade_plan_version ...
ERROR = "pochade_error_"  # prefix of error headers
UNREAD = "unread"  # code of a dead letter whose request stays open

# The current spans (`streams/tracing/spans.py`): `traceparent` of a cause -> that of what is written because of it
FOLLOWING: ContextVar[Mapping[bytes, bytes]] = ContextVar("following", default=MappingProxyType({}))

_dice = random.Random(secrets.randbits(128))


def stamp(
    incoming: Headers, *, kind: str, source: str, subject: str, time_ms: int, facts: Mapping[str, object] | None = None
) -> dict[str, bytes]:
    """Return the headers of a record that another caused: its trace, the current span, its own `ce_*` attributes."""
    headers = {
        **incoming,
        "traceparent": _next_span(incoming.get("traceparent", b"")),
        "ce_specversion": b"1.0",
        "ce_id": _hex(64),
        "ce_type": f"pochade.{kind}".encode(),
        "ce_source": f"/pochade/{source}".encode(),
        "ce_subject": subject.encode(),
        "ce_time": _moment(time_ms),
    }
    headers.pop(REQUEST_ID, None)  # the key says it from here on
    for name, value in (facts or {}).items():
        headers[FACT + name] = str(value).encode()
    return headers


@functools.lru_cache(maxsize=8)
def _moment(time_ms: int) -> bytes:
    """Format a time for a header; the text is cached, as many records are stamped in one millisecond."""
    return datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC).isoformat().encode()


def _hex(bits: int) -> bytes:
    """Random hexadecimal digits; ids need no secrecy, and the system's randomness gives up the interpreter's lock."""
    return b"%0*x" % (bits // 4, _dice.getrandbits(bits))


def _next_span(traceparent: bytes) -> bytes:
    """Return the current span, else the cause's: a role that records no span must not name one."""
    own = FOLLOWING.get().get(traceparent)
    if own is not None:
        return own
    return traceparent if TRACEPARENT.fullmatch(traceparent) else new_trace()


def new_trace() -> bytes:
    """Return the `traceparent` of a new trace that is not recorded so far."""
    return b"00-%b-%b-00" % (_hex(128), _hex(64))


def is_unread(record: Incoming, error: BaseException) -> bool:
    """Whether a record between roles may be a newer release's: it is set aside, and its request stays open.

    On a public topic clients may write any bytes, which are refused.
    """
    return isinstance(error, UnknownSchema) and record.topic not in PUBLIC and may_come(error.schema_id)


def dead_letter(record: Incoming, *, error: BaseException, role: str, request_id: str) -> Outgoing:
    """The dlq record of a record that `role` could not serve: its bytes, key and headers, and the error in headers."""
    facts = {
        "class": type(error).__name__,
        "message": str(error)[:2000],
        "role": role,
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "request_id": request_id,
        **({"code": UNREAD} if is_unread(record, error) else {}),
    }
    headers = dict(record.headers) | {ERROR + name: value.encode() for name, value in facts.items()}
    return Outgoing(topic=DLQ, key=record.key or request_id.encode(), value=record.value, headers=headers)
