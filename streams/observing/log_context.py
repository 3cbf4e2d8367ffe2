"""Context of log lines: the records that a thread or task is serving, and the plan that it obeys."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from schemas.record import Incoming
from streams.codec.request_ids import request_id_of

_served: ContextVar[tuple[Incoming, ...]] = ContextVar("served", default=())
_plan_version: ContextVar[int | None] = ContextVar("plan_version", default=None)


@contextlib.contextmanager
def serving(*records: Incoming, plan_version: int | None = None) -> Iterator[None]:
    """Attach these records to every log line that this thread or task writes in the block."""
    before, version = _served.set(records), _plan_version.set(plan_version)
    try:
        yield
    finally:
        _plan_version.reset(version)
        _served.reset(before)


def obeying(plan_version: int) -> None:
    """The record being served is decided under this plan."""
    _plan_version.set(plan_version)


def context() -> dict[str, Any]:
    """request_id (one for each record), topic, partition, offset, plan_version; what is not known is left out.

    Computed when a line is logged, not when a record is begun: most records log nothing.
    """
    records, version = _served.get(), _plan_version.get()
    fields: dict[str, Any] = {}
    if records:
        ids = [request_id_of(record) for record in records]
        fields |= {"request_id": ids[0] if len(ids) == 1 else ids, "topic": records[0].topic}
        fields |= {"partition": records[0].partition, "offset": records[0].offset}
    return fields | ({} if version is None else {"plan_version": version})
