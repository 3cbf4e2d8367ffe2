"""Reads a deployment's topics and store for an audit: first every role's committed offsets, then the records."""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from confluent_kafka import KafkaException

from replay.verify.audit.figures import Figures, ImageFigures
from replay.verify.audit.images import check
from replay.verify.audit.logs import Logs
from replay.verify.audit.topic_figures import TOPICS, Position, TopicFigures
from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import RESULTS, full_name, jobs_topic, reader, waiting_topic
from streams import catalogs
from streams.clock import now_ms
from streams.control import deletions
from streams.kafka.consumers.offsets import positions
from streams.kafka.topics import own_topics
from streams.operator.gc import ORPHAN_MS, choose, needed
from streams.settings import Settings
from streams.store.open import open_store

LOOKS, APART_S = 3, 2.0  # of fresh clients; a broker that was frozen knows the leader after less than a second
JOBS_BEGIN, JOBS_END = jobs_topic("|", 1).name.split("|")
WAITING_BEGIN, WAITING_END = waiting_topic("|").name.split("|")


@dataclass(frozen=True, slots=True)
class Audited:
    """The findings of an audit; without images where they were not asked for."""

    tally: TopicFigures
    figures: Figures
    images: ImageFigures | None


def audit(
    settings: Settings,
    *,
    since_ms: int = 0,
    until_ms: float = math.inf,
    asked: Iterable[str] = (),
    with_images: bool = True,
    orphan_ms: float = ORPHAN_MS,
    has_all_sources: bool | None = None,
    has_marks: bool = False,
) -> Audited:
    """Hold what was accepted within a time against everything that lies on the topics from then on.

    `asked`: ids that the broker acknowledged to the caller. Images younger than `orphan_ms` are no orphans yet.
    `has_all_sources`: nothing began from the latent of a request that ended before; None: only if all is read and
    nothing expired.
    `has_marks`: all images are of the engine `profile`, which show whose latent they began from.

    Raises:
        PochadeError: a topic or the catalog cannot be read, or the store is away.
    """
    committed, catalog = dict(_committed(settings)), catalogs.load(settings.catalog)
    tally = TopicFigures(
        committed, asked, since_ms, until_ms, has_all_sources=has_all_sources, catalog=catalog,
        deleted=deletions.find(settings),
    )  # fmt: skip
    logs = Logs(settings, tally.add, committed)
    jobs = [f"{JOBS_BEGIN}{variant}{JOBS_END}" for variant in _variants(settings)]
    topics = [*TOPICS, *_waiting(settings), *jobs]
    logs.read(topics, since_ms)  # in this order: what a record caused is read after it, or waits
    _reread(logs, tally)
    _read_before(settings, tally, since_ms)
    images = _image_figures(settings, tally, orphan_ms, has_marks=has_marks) if with_images else None
    return Audited(tally, tally.figures(), images)


def _reread(logs: Logs, tally: TopicFigures) -> None:
    """Read again with new clients before a record counts as missing: a former leader may have given the ends."""
    for look in range(LOOKS):
        if look:
            time.sleep(APART_S)
        logs.read_on()
        if not tally.figures().lost:
            return


def _read_before(settings: Settings, tally: TopicFigures, since_ms: int) -> None:
    """Read results of before the time audited, of the requests for which that makes a difference."""
    wanted = tally.maybe_ended_before() if since_ms else set()

    def take(record: Incoming) -> None:
        if record.timestamp_ms < since_ms:
            tally.add_before(record, wanted)

    if wanted:
        Logs(settings, take).read([RESULTS])


def _image_figures(settings: Settings, tally: TopicFigures, orphan_ms: float, *, has_marks: bool) -> ImageFigures:
    store, now = open_store(settings), now_ms()
    stored = list(store.list(now))  # before the records, so that an image named meanwhile is known
    there = needed(settings)
    orphans = choose(stored, now, math.inf, there.uris, there.results_kept_ms, orphan_ms).orphans
    found = check(store, tally.named, orphans)
    if not has_marks:
        return found
    count, foreign = tally.reused.foreign(store)
    return replace(found, marks_checked=count, foreign=tuple(foreign))


def _variants(settings: Settings) -> list[str]:
    """Return the variants that have a topic of jobs."""
    mine = _named(settings, JOBS_BEGIN, JOBS_END)
    return [name.removeprefix(JOBS_BEGIN).removesuffix(JOBS_END) for name in mine]


def _waiting(settings: Settings) -> list[str]:
    """Return the topics of jobs that wait for idle workers; deployments of older releases have none."""
    return _named(settings, WAITING_BEGIN, WAITING_END)


def _named(settings: Settings, begin: str, end: str) -> list[str]:
    names = [name.removeprefix(settings.kafka.prefix + ".") for name in own_topics(settings)]
    return [name for name in names if name.startswith(begin) and name.endswith(end)]


def _committed(settings: Settings) -> Iterator[tuple[Position, int]]:
    """Yield the committed offset of each topic's reader."""
    prefix = settings.kafka.prefix
    try:
        for name in own_topics(settings):
            topic = name.removeprefix(prefix + ".")
            if (reads := reader(topic)) is not None:
                for partition, offset in positions(settings, name, full_name(prefix, reads.group)).items():
                    yield (topic, partition), offset
    except KafkaException as failure:
        reason = failure.args[0].str()
        raise PochadeError(f"cannot ask how far the roles of {prefix} have come: {reason}") from None
