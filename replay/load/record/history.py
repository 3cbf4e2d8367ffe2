"""Reads a run from the topics: the requests published, how each ended, and what was planned and generated meanwhile."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from planner.observation.observation import COUNTS_S
from replay.load.identity import Ids
from replay.verify.audit.ends import Ends
from schemas.errors import InvalidRecord, InvalidRequest
from schemas.messages import ClassifiedRequest, Heartbeat, ImageGenerated, Plan, Result
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, FLEET, IMAGES, PLAN, PROMPTS, PROMPTS_BATCH, RESULTS
from streams.clock import now_ms
from streams.codec.avro import M, decode, decode_result
from streams.codec.requests import decode_request
from streams.control.records import plan_in
from streams.kafka.consumers.snapshot import between, readable
from streams.operator.explain import steps_of
from streams.settings import Settings

AHEAD_MS = 60_000  # how far a broker's clock may be ahead of ours
PROMPT_TOPICS = (PROMPTS, PROMPTS_BATCH)
MAX_EARLIER = 10_000  # requests before the run that are kept; more would not change what the planner sees


@dataclass(frozen=True, slots=True)
class Published:
    """The run's requests on the topics."""

    created_ms: Mapping[int, int] = field(default_factory=dict)  # number -> epoch ms
    repeats: int = 0  # records beyond the first of a request

    @property
    def since_ms(self) -> int:
        """Return when the run began (epoch ms), less the allowed clock skew; 0: it has not begun."""
        return min(self.created_ms.values()) - AHEAD_MS if self.created_ms else 0


def read_published(settings: Settings, ids: Ids) -> Published:
    """Read all requests of the run that producers have written until now. Raises PochadeError."""
    return published(between(settings, PROMPT_TOPICS, 0, now_ms() + AHEAD_MS), ids)


def published(records: Iterable[Incoming], ids: Ids) -> Published:
    """Published requests, from records; the classifier may have moved one from `prompts` to `prompts.batch`."""
    created: dict[int, int] = {}
    seen: Counter[tuple[str, int]] = Counter()
    start = ids.start.encode()
    for record in records:
        number = ids.number(record.key.decode()) if record.key and record.key.startswith(start) else None
        if number is None:
            continue
        try:
            request = decode_request(record)
        except (InvalidRecord, InvalidRequest):
            continue  # not ours, whatever its key says
        if ids.number(request.request_id) != number:
            continue
        at_ms = request.created_ms
        seen[record.topic, number] += 1
        created[number] = min(created.get(number, at_ms), at_ms)
    return Published(created, sum(max(seen[topic, number] for topic in PROMPT_TOPICS) - 1 for number in created))


@dataclass(frozen=True, slots=True)
class History:
    """The records of a run: how its requests ended, its plans, and its images."""

    published: Published
    results: Mapping[int, Result]  # the first of each
    duplicates: int  # results beyond the first
    plans: tuple[Plan, ...]  # by version, from the one that was in force when the run began
    beats: tuple[tuple[int, Heartbeat], ...]  # epoch ms by the broker, in order
    images: tuple[ImageGenerated, ...]  # of the run, drafts too
    written_ms: Mapping[int, int] = field(default_factory=dict)  # version of a plan -> epoch ms, by the broker
    before_ms: tuple[int, ...] = ()  # epoch ms at which others' requests came in the minute before the run, in order

    def took_ms(self, plan: Plan) -> int | None:
        """Return the ms from the planner's observation to the plan's record; None if unknown."""
        written_ms = self.written_ms.get(plan.version)
        return None if written_ms is None else max(0, written_ms - plan.created_ms)


def read_history(settings: Settings, ids: Ids) -> History:
    """A second reading of everything from the topics, not what a driver happened to see. Raises PochadeError."""
    found, until_ms = read_published(settings, ids), now_ms() + AHEAD_MS
    since_ms = max(0, found.since_ms)
    plans, written_ms = _plans(between(settings, [PLAN], 0, until_ms), since_ms + AHEAD_MS)
    results, duplicates = _results(between(settings, [RESULTS], since_ms, until_ms), ids)
    return History(
        published=found,
        results=results,
        duplicates=duplicates,
        plans=plans,
        beats=_beats(between(settings, [FLEET], since_ms, until_ms)),
        images=_images(between(settings, [IMAGES], since_ms, until_ms), ids),
        written_ms=written_ms,
        before_ms=_before(between(settings, [CLASSIFIED], since_ms, since_ms + AHEAD_MS), since_ms + AHEAD_MS),
    )


def _results(records: Iterable[Incoming], ids: Ids) -> tuple[dict[int, Result], int]:
    def read(record: Incoming) -> Result:
        result = decode_result(record.value)
        if ids.number(result.request_id) is not None:
            steps_of(result)  # raises InvalidRecord for a path of no stages
        return result

    ends = Ends(result for _, result in readable(records, read))
    numbers = {name: number for name in ends.first if (number := ids.number(name)) is not None}
    return {number: ends.first[name] for name, number in numbers.items()}, sum(ends.doubled(numbers).values())


def _plans(records: Iterable[Incoming], since_ms: int) -> tuple[tuple[Plan, ...], dict[int, int]]:
    by_version: dict[int, Plan] = {}
    written_ms: dict[int, int] = {}
    for record, plan in readable(records, plan_in):  # roles did not obey an unreadable one either
        if plan is not None:
            by_version.setdefault(plan.version, plan)
            written_ms.setdefault(plan.version, record.timestamp_ms)
    ordered = [by_version[version] for version in sorted(by_version)]
    first = max((at for at, plan in enumerate(ordered) if plan.created_ms <= since_ms), default=0)
    return tuple(ordered[first:]), written_ms


def _before(records: Iterable[Incoming], began_ms: int) -> tuple[int, ...]:
    came = sorted(classified.received_ms for _, classified in _decoded(records, ClassifiedRequest))
    return tuple(ms for ms in came if began_ms - 1000 * COUNTS_S < ms < began_ms)[-MAX_EARLIER:]


def _beats(records: Iterable[Incoming]) -> tuple[tuple[int, Heartbeat], ...]:
    return tuple((record.timestamp_ms, beat) for record, beat in _decoded(records, Heartbeat))


def _images(records: Iterable[Incoming], ids: Ids) -> tuple[ImageGenerated, ...]:
    start = ids.start.encode()
    mine = (record for record in records if record.key and record.key.startswith(start))
    return tuple(image for _, image in _decoded(mine, ImageGenerated))


def _decoded(records: Iterable[Incoming], kind: type[M]) -> Iterator[tuple[Incoming, M]]:
    return readable((record for record in records if record.value), lambda record: decode(record.value, kind))
