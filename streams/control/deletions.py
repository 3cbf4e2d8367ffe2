"""Finds records that Kafka deleted before the role that serves them had read them.

The committed offset of a role's group is then below the first offset of the log. This can be seen only until the role
has read on, so that each role looks before it begins to read, and keeps what it finds on the dlq: a letter without a
value, whose headers say which offsets are gone. `doctor` and `audit` look at both.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from confluent_kafka import KafkaException

from schemas.errors import PochadeError
from schemas.record import Incoming, Outgoing
from schemas.topics import full_name, reader
from streams import metrics
from streams.clock import now_ms
from streams.codec.headers import ERROR, dead_letter
from streams.kafka.consumers.offsets import deleted
from streams.kafka.producers.writing import RecordProducer, send_all
from streams.kafka.topics import own_topics
from streams.settings import Settings

log = logging.getLogger(__name__)

UNTIL = ERROR + "until"  # header: the offset after the last that is gone
DO = "their requests must be sent again with new ids; raise the topic's retention.ms and retention.bytes"


class DeletedUnread(PochadeError):
    """Records were deleted from a topic before their role had read them; the message says which."""


class Deletion(NamedTuple):
    """The offsets of a partition that were deleted unread, [begin, end), and at most as many records."""

    topic: str  # without the prefix
    partition: int
    begin: int
    end: int

    @property
    def records(self) -> int:
        """The most records that were deleted: some of the offsets may be markers of transactions."""
        return self.end - self.begin

    def __str__(self) -> str:
        return f"up to {self.records} records of {self.topic} at {self.partition}@{self.begin} to {self.end - 1}"


def find(settings: Settings, roles: Iterable[str] = ()) -> list[Deletion]:
    """Return what was deleted before its role had read it and can still be seen; of some roles, or of all.

    Raises PochadeError: the cluster does not answer, or this user may not see how far a group has come.
    """
    prefix, wanted = settings.kafka.prefix, set(roles)
    found: list[Deletion] = []
    for name in own_topics(settings):
        topic = name.removeprefix(prefix + ".")
        reads = reader(topic)
        if reads is None or (wanted and reads.role not in wanted):
            continue
        try:
            spans = deleted(settings, name, full_name(prefix, reads.group))
        except KafkaException as failure:
            raise PochadeError(
                f"cannot see how far {prefix}.{reads.group} has come on {name}: {failure.args[0].str()}"
            ) from None
        found += [Deletion(topic, partition, begin, end) for partition, (begin, end) in sorted(spans.items())]
    return found


def report(settings: Settings, roles: Iterable[str], producer: RecordProducer) -> None:
    """Log, count and keep on the dlq what was deleted before these roles had read it; for before they begin to read."""
    try:
        found = find(settings, roles)
        for each in found:
            log.error("%s were deleted before they were read: %s", each, DO)
            metrics.DELETED_UNREAD.labels(_role(each)).inc(each.records)
        send_all(producer, [_letter(each) for each in found])
    except PochadeError as error:  # a role that cannot look, or keep what it found, serves all the same
        metrics.FALLBACKS.labels("+".join(sorted(roles)), "deletions").inc()
        log.warning("cannot look for records that were deleted unread, or keep what was found: %s", error)


def _role(deletion: Deletion) -> str:
    reads = reader(deletion.topic)
    assert reads is not None, "only topics with a reader are looked at"
    return reads.role


def _letter(deletion: Deletion) -> Outgoing:
    gone = Incoming(
        topic=deletion.topic, partition=deletion.partition, offset=deletion.begin, timestamp_ms=now_ms(), key=None,
        value=None,
    )  # fmt: skip
    error = DeletedUnread(f"{deletion} were deleted before they were read: {DO}")
    letter = dead_letter(gone, error=error, role=_role(deletion), request_id="")
    return replace(letter, headers={**letter.headers, UNTIL: str(deletion.end).encode()})


def read_deletion(record: Incoming) -> Deletion | None:
    """Return the deletion in a record of the dlq; None if it is another dead letter."""

    def fact(name: str) -> str:
        return record.headers.get(ERROR + name, b"").decode(errors="replace")

    numbers = [fact(name) for name in ("partition", "offset", "until")]
    if fact("class") != DeletedUnread.__name__ or not all(re.fullmatch(r"[0-9]{1,19}", each) for each in numbers):
        return None
    partition, begin, end = map(int, numbers)
    return Deletion(fact("topic"), partition, begin, end) if begin < end and reader(fact("topic")) else None


def merged(deletions: Iterable[Deletion]) -> list[Deletion]:
    """Return the deletions with each offset once, although each start of a role may have found it again."""
    return list(_merged(deletions))


def _merged(deletions: Iterable[Deletion]) -> Iterator[Deletion]:
    by_place = defaultdict[tuple[str, int], list[Deletion]](list)
    for each in sorted(deletions):
        by_place[each.topic, each.partition].append(each)
    for (topic, partition), spans in by_place.items():
        begin, end = spans[0].begin, spans[0].end
        for each in spans[1:]:
            if each.begin > end:
                yield Deletion(topic, partition, begin, end)
                begin = each.begin
            end = max(end, each.end)
        yield Deletion(topic, partition, begin, end)
