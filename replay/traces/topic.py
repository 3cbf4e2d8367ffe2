"""A trace from our own topics: what producers asked for between two moments, by the broker's clock.

Each request has the hardness that the classifier predicted of its prompt, where its record on `classified` is there.
"""

import datetime
import itertools
from collections.abc import Iterable
from typing import Final

from replay.traces.formats.building import Builder
from replay.traces.formats.faults import Faults
from replay.traces.formats.fields import Unfit
from replay.traces.formats.timed_json import row_of
from replay.traces.reading import Asked, transform
from replay.traces.trace import InvalidTrace, Trace
from schemas.errors import InvalidRecord, InvalidRequest
from schemas.messages import ClassifiedRequest
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, PROMPTS, PROMPTS_BATCH
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.codec.headers import REQUEST_ID
from streams.codec.requests import decode_request
from streams.kafka.consumers.snapshot import between
from streams.settings import Settings

PROMPT_TOPICS: Final = (PROMPTS, PROMPTS_BATCH)  # the classifier may move a request from the first to the second


def read_topic(settings: Settings, since_ms: int, until_ms: int, asked: Asked) -> Trace:
    """Read the requests on `prompts` and `prompts.batch` from `since_ms` to before `until_ms` (epoch ms), each once.

    The trace starts with the first request, as silence before it is nothing to simulate. History is always read
    leniently: records that are no requests, and ids that came before, are counted and skipped. A request that is not
    classified yet has no hardness; one of the batch tier may be classified hours after it came. Raises: InvalidTrace
    where nothing is left, NoEffect for an option of traces without times, PochadeError where the topics cannot be read.
    """
    asked.check_effect()
    if since_ms >= until_ms:
        raise InvalidTrace(f"--since must be before --until: got {_time(since_ms)} and {_time(until_ms)}")
    prompts = between(settings, PROMPT_TOPICS, since_ms, until_ms)
    classified = between(settings, (CLASSIFIED,), since_ms, max(until_ms, now_ms()))
    return trace_of(itertools.chain(prompts, classified), settings.kafka.prefix, since_ms, until_ms, asked)


def trace_of(records: Iterable[Incoming], prefix: str, since_ms: int, until_ms: int, asked: Asked) -> Trace:
    """The trace of records of the topics of prompts and of `classified`, in any order."""
    source = f"{prefix}.{PROMPTS} from {_time(since_ms)} to {_time(until_ms)}"
    faults = Faults(source, is_lenient=True)
    builder = Builder(faults, asked.rules(is_epoch=False))
    requests, hardness = list[Incoming](), dict[str, float]()
    for record in records:
        if record.topic == CLASSIFIED:
            _take_hardness(record, hardness, faults)
        else:
            requests.append(record)
    in_order = sorted(requests, key=lambda record: (record.timestamp_ms, PROMPT_TOPICS.index(record.topic)))
    begun_ms = in_order[0].timestamp_ms if in_order else since_ms
    came = set[str]()  # ids of requests on `prompts`
    for record in in_order:
        where = _where(record)
        try:
            request = decode_request(record)
            row = row_of(request, float(record.timestamp_ms - begun_ms), request.request_id)
        except (InvalidRecord, InvalidRequest) as error:
            faults.found(where, "not a request", str(error))
        except Unfit as fault:
            faults.found(where, fault.kind, str(fault))
        else:
            if record.topic == PROMPTS:
                came.add(request.request_id)
            elif request.request_id in came and REQUEST_ID in record.headers:
                continue  # the classifier has moved it there
            builder.add(row._replace(hardness=hardness.get(request.request_id)), where)
        if asked.max_requests is not None and len(builder) >= asked.max_requests:
            break
    return transform(builder.trace(f"{prefix}.{PROMPTS}"), asked)


def _take_hardness(record: Incoming, hardness: dict[str, float], faults: Faults) -> None:
    """Add the hardness that a record on `classified` has of its request; a fault where it cannot be read."""
    try:
        classified = decode(record.value, ClassifiedRequest)
    except InvalidRecord as error:
        faults.found(_where(record), "not a classified request", str(error))
    else:
        hardness[classified.request.request_id] = classified.hardness


def _time(at_ms: int) -> str:
    """Format a time as options take it, in ISO 8601 and UTC."""
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).isoformat(timespec="seconds")


def _where(record: Incoming) -> str:
    return f"{record.topic} {record.partition}@{record.offset}"
