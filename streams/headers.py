"""Record headers: W3C trace context, CloudEvents attributes, routing facts as text; unknown ones travel on."""

import datetime
import random
import secrets
from collections.abc import Mapping

from schemas.record import Headers

DEADLINE = "pochade_deadline_ms"  # on classified requests that have one: the ledger need not decode the rest
_dice = random.Random(secrets.randbits(128))
FACT = "pochade_"  # prefix of routing facts: pochade_level, pochade_plan_version ...


def stamp(
    incoming: Headers, *, kind: str, source: str, subject: str, time_ms: int, facts: Mapping[str, object] | None = None
) -> dict[str, bytes]:
    """The headers of a record that follows from another: same trace, a new span, its own `ce_*` attributes."""
    headers = dict(incoming)
    headers["traceparent"] = _next_span(headers.get("traceparent"))
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": _hex(64),
        "ce_type": f"pochade.{kind}",
        "ce_source": f"/pochade/{source}",
        "ce_subject": subject,
        "ce_time": datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC).isoformat(),
    }
    attributes |= {FACT + name: str(value) for name, value in (facts or {}).items()}
    headers.update({name: value.encode() for name, value in attributes.items()})
    return headers


def _hex(bits: int) -> str:
    """Random hexadecimal digits; ids need no secrecy, and the system's randomness gives up the interpreter's lock."""
    return f"{_dice.getrandbits(bits):0{bits // 4}x}"


def _next_span(traceparent: bytes | None) -> bytes:
    parts = (traceparent or b"").decode("ascii", "replace").split("-")
    is_valid = len(parts) == 4 and len(parts[1]) == 32 and set(parts[1]) <= set("0123456789abcdef")
    trace_id, flags = (parts[1], parts[3]) if is_valid else (_hex(128), "01")
    return f"00-{trace_id}-{_hex(64)}-{flags}".encode()
