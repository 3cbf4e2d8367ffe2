"""A trace from our own topics: what producers asked for between two moments, by the broker's clock."""

from collections.abc import Iterable
from typing import Final

from replay.traces.formats.building import Builder
from replay.traces.formats.faults import Faults
from replay.traces.formats.fields import Unfit
from replay.traces.formats.timed_json import row_of
from replay.traces.reading import Asked, transform
from replay.traces.trace import InvalidTrace, Trace
from schemas.errors import InvalidRecord, InvalidRequest
from schemas.record import Incoming
from schemas.topics import PROMPTS, PROMPTS_BATCH
from streams.codec.requests import decode_request
from streams.kafka.consumers.snapshot import between
from streams.settings import Settings

PROMPT_TOPICS: Final = (PROMPTS, PROMPTS_BATCH)  # the classifier may move a request from the first to the second


def read_topic(settings: Settings, since_ms: int, until_ms: int, asked: Asked) -> Trace:
    """Read the requests on `prompts` and `prompts.batch` from `since_ms` to before `until_ms` (epoch ms), each once.

    The trace starts with the first request, as silence before it is nothing to simulate. History is always read
    leniently: records that are no requests, and ids that came before, are counted and skipped. Raises: InvalidTrace
    where nothing is left, PochadeError where the topics cannot be read.
    """
    if since_ms >= until_ms:
        raise InvalidTrace(f"--since must be before --until: got {since_ms} and {until_ms}, in ms since 1970")
    return trace_of(
        between(settings, PROMPT_TOPICS, since_ms, until_ms), settings.kafka.prefix, since_ms, until_ms, asked
    )


def trace_of(records: Iterable[Incoming], prefix: str, since_ms: int, until_ms: int, asked: Asked) -> Trace:
    """The trace of records in any order of partitions."""
    source = f"{prefix}.{PROMPTS} {since_ms}..{until_ms}"
    faults = Faults(source, is_lenient=True)
    builder = Builder(faults, asked.rules(is_epoch=False))
    in_order = sorted(records, key=lambda record: (record.timestamp_ms, PROMPT_TOPICS.index(record.topic)))
    begun_ms = in_order[0].timestamp_ms if in_order else since_ms
    for record in in_order:
        where = f"{record.topic} {record.partition}@{record.offset}"
        try:
            request = decode_request(record)
            row = row_of(request, float(record.timestamp_ms - begun_ms), request.request_id)
        except (InvalidRecord, InvalidRequest) as error:
            faults.found(where, "not a request", str(error))
        except Unfit as fault:
            faults.found(where, fault.kind, str(fault))
        else:
            builder.add(row, where)
        if asked.max_requests is not None and len(builder) >= asked.max_requests:
            break
    return transform(builder.trace(f"{prefix}.{PROMPTS}"), asked)
