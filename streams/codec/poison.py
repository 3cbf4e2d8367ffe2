"""What cannot be served is kept: the original bytes, key and headers on the dlq, with error headers."""

from schemas.record import Incoming, Outgoing
from schemas.topics import DLQ

ERROR = "pochade_error_"


def dead_letter(record: Incoming, *, error: BaseException, role: str, request_id: str) -> Outgoing:
    """The dlq record of a record that `role` could not serve."""
    facts = {
        "class": type(error).__name__,
        "message": str(error)[:2000],
        "role": role,
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "request_id": request_id,
    }
    headers = dict(record.headers) | {ERROR + name: value.encode() for name, value in facts.items()}
    return Outgoing(topic=DLQ, key=record.key or request_id.encode(), value=record.value, headers=headers)
