"""Decides on outcomes and overdue requests: the order of all checks before a result, and what the result says.

`LedgerLogic` is the ledger's machine: records in, effects out, in the order in which they are to be written. The ledger
on Kafka drives it (`agents/ledger/partition.py`), and the one of a single process (`agents/in_process/stand_ins.py`).
It knows no client, no clock and no format.

    on_outcomes     records of `outcomes`: the first outcome of an open request ends it
    on_reread       records that were answered before: those without a result are answered again
    on_overdue      classified requests that are open after their deadline: EXPIRED
    on_unmade       an `End` whose result cannot be written: FAILED instead, and its record goes to the dlq
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from planner.serving.ending.ended_ids import EndedIds
from planner.serving.ending.outcomes import cost_of, expired, failed
from schemas.avro import to_wire
from schemas.errors import InvalidRecord, UnknownSchema
from schemas.messages import ClassifiedRequest, GenerateRequest, Outcome, Result, Stage, Status
from schemas.record import Incoming
from schemas.topics import DAY_MS

ROLE: Final = "ledger"
MAX_CLOCK_DIFFERENCE_MS: Final = DAY_MS  # by which a writer's own time of a request may differ from the broker's
MOVED: Final = "pochade_moved_from"  # header of an outcome that was written to the partition of its key: once


class End(NamedTuple):
    """The request ends so: its result is to be made and written."""

    outcome: Outcome
    record: Incoming  # that says so, or the overdue request
    is_bare: bool = False  # it stands in for a result that cannot be made


class Aside(NamedTuple):
    """A record that ends nothing, or not as it says, is to be kept for an operator."""

    record: Incoming
    error: Exception


class Move(NamedTuple):
    """An outcome is to be written to another partition: only there it is known whether its request has ended."""

    outcome: Outcome
    record: Incoming
    partition: int
    is_own: bool = False  # the ledger's own outcome; else it is the record's, and is written as it is


class Repeated(NamedTuple):
    """An outcome is dropped: its request has a result, or another outcome came before it."""

    outcome: Outcome
    record: Incoming


Effect = End | Aside | Move | Repeated


class LedgerLogic:
    """Decides which outcome ends a request, once. Remembers nothing: its driver adds to `ended` what it has written."""

    def __init__(self, ended: EndedIds, elsewhere: Callable[[bytes], int | None] = lambda _key: None) -> None:
        """`elsewhere`: the partition whose ledger knows a key's request; None if it is this one."""
        self._ended, self._elsewhere = ended, elsewhere

    def on_outcomes(self, read: Iterable[tuple[Incoming, Outcome | InvalidRecord]]) -> list[Effect]:
        """Decide on records in their order. An error stands for an outcome that cannot be read."""
        since_ms = self._ended.since_ms()
        effects = [self._meant(record, outcome, since_ms) for record, outcome in read]
        others = [effect for effect in effects if not isinstance(effect, End)]
        return [*others, *self._first(effect for effect in effects if isinstance(effect, End))]

    def on_reread(self, read: Iterable[tuple[Incoming, Outcome | InvalidRecord]]) -> list[Effect]:
        """Decide on records that were answered before: of those that ended their request or moved nothing is lost.

        It is unknown whether what was moved has arrived; where it has, a second one is dropped.
        """
        return [effect for effect in self.on_outcomes(read) if isinstance(effect, End | Move)]

    def on_overdue(
        self, read: Iterable[tuple[Incoming, ClassifiedRequest | InvalidRecord]], now_ms: int
    ) -> list[Effect]:
        """End requests that are past deadline and grace. An error stands for bytes that cannot be read.

        What is no classified request ends nothing: the router has answered it. Nor does one so old that its request may
        have ended long ago. One that was classified twice ends once.
        """
        since_ms = self._ended.since_ms()
        young = [(_expired(record, said, now_ms), record) for record, said in read if record.timestamp_ms >= since_ms]
        decided = self._first(End(outcome, record) for outcome, record in young if outcome is not None)
        first = [end for end in decided if isinstance(end, End)]
        return [self._placed(end.outcome, end.record, is_own=True) for end in first]

    def on_unmade(self, end: End, error: Exception, now_ms: int) -> list[Effect]:
        """End a request of whose outcome no result can be made; nothing is left to do if that fails, too."""
        if end.is_bare:
            return []
        reason = f"the outcome makes no result: {type(error).__name__}: {str(error)[:500]}"
        bare = failed(end.outcome.request_id, reason=reason, by=ROLE, now_ms=now_ms)
        return [End(bare, end.record, is_bare=True), Aside(end.record, error)]

    def _meant(self, record: Incoming, outcome: Outcome | InvalidRecord, since_ms: int) -> Effect:
        """Return what a record asks for, as if no request had ended."""
        if isinstance(outcome, InvalidRecord):
            return Aside(record, outcome)
        if outcome.request_id.encode() != record.key:  # another partition may know of its result
            fault = f"the outcome of {outcome.request_id!r:.80} has the key {record.key!r:.80}, not its id"
            return Aside(record, InvalidRecord(fault))
        if record.timestamp_ms < since_ms:
            days = (since_ms - record.timestamp_ms) / DAY_MS
            fault = f"the outcome is {days:.1f} days older than what the ledger remembers: it may have ended"
            return Aside(record, InvalidRecord(fault))
        return self._placed(outcome, record)

    def _placed(self, outcome: Outcome, record: Incoming, *, is_own: bool = False) -> Effect:
        """Return the end of a request, or the move to where it is known whether it has one."""
        key = outcome.request_id.encode()
        home = self._elsewhere(key)
        if home is None:
            return End(outcome, record)
        if MOVED in record.headers:  # two ledgers differ on how many partitions there are
            fault = f"the outcome of {key!r:.80} belongs to partition {home}, and was moved here before"
            return Aside(record, InvalidRecord(fault))
        return Move(outcome, record, home, is_own)

    def _first(self, ends: Iterable[End]) -> list[End | Repeated]:
        """Return which of these count: the first of each request without a result."""
        named = [(end.outcome.request_id, end) for end in ends]
        ended, decided = self._ended.among(name for name, _ in named), list[End | Repeated]()
        for name, end in named:
            decided.append(Repeated(end.outcome, end.record) if name in ended else end)
            ended.add(name)
        return decided


def _expired(record: Incoming, said: ClassifiedRequest | InvalidRecord, now_ms: int) -> Outcome | None:
    """Return the end of a request whose deadline has passed; None if the record is invalid or has a foreign key."""
    if isinstance(said, UnknownSchema):  # a newer release's: its header has the deadline, and its key is the id
        reason = "it had no result by its deadline; a newer release had classified it"
        return expired((record.key or b"").decode(errors="replace"), reason=reason, by=ROLE, now_ms=now_ms)
    if isinstance(said, InvalidRecord) or said.request.request_id.encode() != record.key:
        return None
    reason = (
        f"it had no result by deadline_ms {said.request.deadline_ms}: too much work waited before it, no worker "
        "serves what it needs, or a role is stopped; `pochade doctor` says what is missing"
    )
    return expired(said, reason=reason, by=ROLE, now_ms=now_ms)


def result_of(outcome: Outcome) -> Result:
    """The public, flat record of an outcome. The image is named only when it is the answer."""
    classified, last = outcome.classified, outcome.path[-1] if outcome.path else None
    request = outcome.request
    image = last.image if last and outcome.status is Status.COMPLETED else None
    return Result(
        request_id=outcome.request_id,
        status=outcome.status,
        reason=outcome.reason,
        prompt=request.prompt if request else "",
        tenant=request.tenant if request else "",
        image_uri=image.uri if image else None,
        image_sha256=image.sha256 if image else None,
        width=image.width if image else None,
        height=image.height if image else None,
        level=last.level if last else None,
        worker_id=last.worker_id if last else None,
        policy=outcome.policy,
        plan_version=last.plan_version if last else None,
        hardness=classified.hardness if classified else None,
        class_models=classified.classes.get("models") if classified else None,
        confidence=last.confidence if last else None,
        threshold=last.threshold if last else None,
        escalated=len(outcome.path) > 1,
        generate_ms=round(sum(step.generate_ms / step.batch for step in outcome.path)),
        latency_ms=outcome.ended_ms - _created_ms(request, classified) if request else None,
        created_ms=request.created_ms if request else None,
        ended_ms=outcome.ended_ms,
        path=json.dumps([to_wire(Stage)(step) for step in outcome.path]),  # `asdict` takes three times as long
        image_uris=tuple(each.uri for each in (image, *last.more)) if last and image else (),
        overridden=last.overridden if last else (),
        code=outcome.code,
        retry_after_ms=outcome.retry_after_ms,
        param=outcome.param,
        components=last.components if last and outcome.status is Status.COMPLETED else (),
        wrong_at_most=last.promise.wrong_at_most if last and last.promise else None,
        made=last.made if last and image else None,
        cost=cost_of(outcome.path),
        **_safety_of(last if image else None),
        **_times_of(outcome.path),
        **_reuse_of(outcome.path),
    )


def _safety_of(last: Stage | None) -> dict[str, Any]:
    """Return what a result says of the check of its images: the highest score, and what was done about that image."""
    images = (last.image, *last.more) if last and last.image else ()
    checked = [(each.unsafe, each.safety) for each in images if each.unsafe is not None]
    return dict(zip(("unsafe", "safety"), max(checked), strict=True)) if checked else {}


def _times_of(path: Sequence[Stage]) -> dict[str, Any]:
    """Return the parts of a result's `generate_ms`: of all stages, a batch's shared equally."""
    measured = [(stage.times, stage.batch) for stage in path if stage.times is not None]
    if not measured or len(measured) < len(path):
        return {}
    names = ("load_ms", "encode_ms", "denoise_ms", "decode_ms")
    return {name: round(sum(getattr(times, name) / batch for times, batch in measured), 3) for name in names}


def _reuse_of(path: Sequence[Stage]) -> dict[str, Any]:
    """Return what a result says of reuse: a draft that began from a stored latent counts, as it was refined."""
    begun = [stage.reuse for stage in path if stage.reuse is not None]
    for reuse in reversed(begun):
        if reuse.step:
            return {"reused": True, "reuse_step": reuse.step, "similarity": reuse.similarity}
    return {"reuse_miss": begun[0].miss} if begun else {}


def _created_ms(request: GenerateRequest, classified: ClassifiedRequest | None) -> int:
    """Return when a request began: as its writer says, unless that time is far from when the broker took it."""
    if classified is None or abs(classified.received_ms - request.created_ms) <= MAX_CLOCK_DIFFERENCE_MS:
        return request.created_ms
    return classified.received_ms
