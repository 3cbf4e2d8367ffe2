"""Counts the records of topics: records in, figures out. Reads nothing itself."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from planner.catalog.model import Catalog
from replay.verify.audit.accepted import Accepted
from replay.verify.audit.components import NOT_COMPARED, NamedComponents
from replay.verify.audit.ends import Ends
from replay.verify.audit.figures import Figures
from replay.verify.audit.generations import Begun, Generations
from replay.verify.audit.reused import Reused
from schemas.errors import InvalidRecord
from schemas.messages import ClassifiedRequest, Event, ImageGenerated, Outcome, Result, Status
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, DLQ, EVENTS, IMAGES, OUTCOMES, PROMPTS, PROMPTS_BATCH, RESULTS
from streams.codec.avro import decode, decode_result
from streams.codec.headers import ERROR, UNREAD
from streams.codec.request_ids import request_id_of
from streams.control import deletions
from streams.control.deletions import Deletion
from streams.operator.explain import steps_of

Position = tuple[str, int]  # topic, partition
PROMPT_TOPICS = (PROMPTS, PROMPTS_BATCH)
STARTED = "started"  # of events
LATE_MS = 10 * 60 * 1000  # asked for so long before the time audited, a request should have ended before it


class Said(NamedTuple):
    """The fields that identify one outcome of a request, both in the outcome and in the result made of it."""

    status: str
    ended_ms: int
    reason: str


class TopicFigures:
    """Takes in records of any topic, in each partition's order.

    `committed`: topic and partition -> the offset that its reading role had reached *before* the records were read.
    Records from there on still wait, so that their requests are not lost. A role commits a record only after all that
    it wrote because of it is acknowledged, so that the consequences of earlier records were there to be read.
    """

    def __init__(
        self,
        committed: Mapping[Position, int],
        asked: Iterable[str] = (),
        since_ms: int = 0,
        until_ms: float = math.inf,
        *,
        has_all_sources: bool | None = None,
        catalog: Catalog | None = None,
        deleted: Iterable[Deletion] = (),
    ) -> None:
        """`asked`: ids that a broker acknowledged; `since_ms`, `until_ms` (epoch ms): when requests were accepted;
        `has_all_sources`: whatever an image may have begun from ended within the time that is read; None: only if
        everything is read, and no result has expired; `catalog`: by which components are compared; None: they are not;
        `deleted`: what the logs no longer have and no role had read; the dlq keeps what was found before.
        """
        self._committed, self._since_ms, self._until_ms = committed, since_ms, until_ms
        self._accepted = Accepted(asked)
        self._waiting: set[str] = set()
        self._ends, self.generations, self.reused = Ends(), Generations(), Reused()
        self._has_all_sources = has_all_sources
        self._components = NamedComponents(catalog) if catalog is not None and _has_components(catalog) else None
        self._first_result: dict[int, int] = {}  # partition -> the offset of its first result
        self._said: defaultdict[str, list[Said]] = defaultdict(list)
        self.named: dict[str, set[str]] = {}  # URI of an image -> the hashes that results say it has
        self._before: Counter[str] = Counter()  # id -> results of before the time audited, of those with a later one
        self._ended_before: set[str] = set()  # accepted within the time audited, and with no result but of before
        self._dead_letters = 0
        self._deleted = list(deleted)
        self._set_aside: set[str] = set()  # requests of records that lie on the dlq as unread
        self._unreadable: Counter[str] = Counter()
        self.result_times_ms: list[int] = []  # by the broker's clock, in the order of reading
        self.answered_ms: dict[str, tuple[int, int]] = {}  # id -> created, and its first result there to be read

    def add(self, record: Incoming) -> None:
        """Take a record; bytes that are not a message of their topic are counted."""
        offset = self._committed.get((record.topic, record.partition))
        if offset is not None and record.offset >= offset:
            self._waiting.add(request_id_of(record))
        take = self._TAKEN.get(record.topic)
        if take is not None:
            try:
                take(self, record)
            except InvalidRecord:
                self._unreadable[record.topic] += 1

    def maybe_ended_before(self) -> set[str]:
        """Requests that may have a result of before the time audited.

        Those with a result within it that were asked for long before: it may be a second one. Those that seem to be
        lost: their record may repeat a request that had ended.
        """
        accepted, since_ms = self._accepted.ids, self._since_ms - LATE_MS
        late = {n for n, r in self._ends.first.items() if n not in accepted and (r.created_ms or 0) < since_ms}
        return late.union(self._lost())

    def _lost(self) -> list[str]:
        """Return the requests that are accepted, have no result, and about which no record waits to be read."""
        unended = self._ends.open(self._accepted.ids)
        return [name for name in unended if name not in self._waiting and name not in self._ended_before]

    def add_before(self, record: Incoming, wanted: Collection[str]) -> None:
        """Take a record of `results` of before the time audited; `wanted`: the ids of `maybe_ended_before`."""
        name = request_id_of(record)
        if name not in wanted:
            return
        if name in self._ends.first:
            self._before[name] += 1
        else:
            self._ended_before.add(name)

    def _prompt(self, record: Incoming) -> None:
        if self._since_ms <= record.timestamp_ms < self._until_ms:
            self._accepted.add(request_id_of(record), record)

    def _classified(self, record: Incoming) -> None:
        if self._components is not None:
            self._components.ask(decode(record.value, ClassifiedRequest).request)

    def _result(self, record: Incoming) -> None:
        result = decode_result(record.value)
        self._first_result.setdefault(record.partition, record.offset)
        if result.request_id not in self._ends.first:
            self.reused.add(result)
        self._ends.add(result)
        self.result_times_ms.append(record.timestamp_ms)
        if result.created_ms is not None:
            self.answered_ms.setdefault(result.request_id, (result.created_ms, record.timestamp_ms))
        for uri, sha256 in named_by(result):
            self.named.setdefault(uri, set()).add(sha256)

    def _outcome(self, record: Incoming) -> None:
        outcome = decode(record.value, Outcome)
        self._said[outcome.request_id].append(Said(outcome.status, outcome.ended_ms, outcome.reason))

    def _image(self, record: Incoming) -> None:
        self.generations.add(decode(record.value, ImageGenerated))

    def _event(self, record: Incoming) -> None:
        event = decode(record.value, Event)
        if event.kind == STARTED:
            detail = json.loads(event.detail)
            stage = event.request_id, int(detail["stage"]), str(detail["level"])
            self.generations.begin(stage, Begun(event.at_ms, str(detail["worker"])))

    def _dead_letter(self, record: Incoming) -> None:
        self._dead_letters += 1
        if (deletion := deletions.read_deletion(record)) is not None:
            self._deleted.append(deletion)
        if record.headers.get(f"{ERROR}code") == UNREAD.encode():
            self._set_aside.add(record.headers.get(f"{ERROR}request_id", b"").decode(errors="replace"))

    _TAKEN: Mapping[str, Callable[["TopicFigures", Incoming], None]] = {
        PROMPTS: _prompt, PROMPTS_BATCH: _prompt, CLASSIFIED: _classified, RESULTS: _result, OUTCOMES: _outcome,
        IMAGES: _image, EVENTS: _event, DLQ: _dead_letter,
    }  # fmt: skip

    def first_results(self) -> list[Result]:
        """Return the first result of each request."""
        return list(self._ends.first.values())

    def figures(self) -> Figures:
        """Return the figures counted so far."""
        accepted = self._accepted.ids
        unended, unmade = self._ends.open(accepted), self._lost()
        lost = [name for name in unmade if name not in self._set_aside]
        twice, wasted_ms = self.generations.repeats()
        others, others_ms = self.generations.by_other_jobs()
        composed = self._components.findings(self._ends.first) if self._components is not None else NOT_COMPARED
        return Figures(
            accepted=len(accepted),
            outcomes=dict(Counter(str(r.status) for name, r in self._ends.first.items() if name in accepted)),
            records=self._accepted.records,
            repetitions=self._accepted.repetitions(self._ended_before),
            differing=self._accepted.differing(),
            open=sum(name in self._waiting for name in unended),
            unread=tuple(name for name in unmade if name in self._set_aside),
            lost=tuple(lost),
            lost_at={name: self._accepted.place(name) for name in lost},
            deleted_unread=tuple(map(str, deletions.merged(self._deleted))),
            doubled=self._ends.doubled(accepted) | {name: self._ends.count(name) for name in self._before},
            failed={
                name: r.reason for name, r in self._ends.first.items() if name in accepted and r.status is Status.FAILED
            },
            late_commits=tuple(name for name in accepted if self._is_late(name)),
            late_outcomes=sum(len(self._contrary(name)) for name in accepted),
            painted=self.generations.counts()[0],
            painted_twice=twice,
            painted_anew=others,
            wasted_s=(wasted_ms + others_ms) / 1000,
            begun_in_vain=self.generations.in_vain(),
            dead_letters=self._dead_letters,
            unreadable=dict(self._unreadable),
            reuse=dict(self.reused.outcomes),
            reuse_contradictory=tuple(self.reused.contradictory),
            reuse_sourceless=tuple(self.reused.sourceless() if self._knows_sources() else ()),
            components_checked=composed.checked,
            components_wrong=dict(composed.wrong),
            components_unlisted=composed.unlisted,
            components_undigested=dict(composed.undigested),
        )

    def _knows_sources(self) -> bool:
        if self._has_all_sources is not None:
            return self._has_all_sources
        return self._since_ms == 0 and not any(self._first_result.values())

    def _is_late(self, name: str) -> bool:
        """Whether the result was made of an outcome with another one before it; the ledger's own ends are of none."""
        result, said = self._ends.first.get(name), self._said.get(name, [])
        made_of = result and Said(result.status, result.ended_ms, result.reason)
        return made_of in said[1:] and made_of != said[0]

    def _contrary(self, name: str) -> list[Said]:
        result = self._ends.first.get(name)
        if result is None:
            return []
        return [said for said in self._said.get(name, []) if said.status != result.status]


def _has_components(catalog: Catalog) -> bool:
    return any(variant.components for variant in catalog.served.values())


def named_by(result: Result) -> Collection[tuple[str, str]]:
    """URI and hash of every image that a result names: its answer, and the drafts on its path."""
    found = {(each.uri, each.sha256) for s in steps_of(result) for each in (s.image, *s.more) if each is not None}
    if result.image_uri is not None:
        found.add((result.image_uri, result.image_sha256 or ""))
    return found


TOPICS = (*PROMPT_TOPICS, CLASSIFIED, IMAGES, OUTCOMES, RESULTS, EVENTS, DLQ)  # the jobs' beside them
