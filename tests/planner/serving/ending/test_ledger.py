"""The ledger's machine: which outcome ends a request, and what becomes of the others. In memory, without a broker."""

from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from planner.serving.ending.ended_ids import EndedIds
from planner.serving.ending.ledger import MOVED, Aside, Effect, End, LedgerLogic, Move, Repeated
from schemas.errors import InvalidRecord, UnknownSchema
from schemas.ids import digest_of
from schemas.messages import ClassifiedRequest, Outcome, Status
from schemas.record import Headers, Incoming
from schemas.topics import CLASSIFIED, DAY_MS, OUTCOMES, WINDOW_MS
from tests.builders import NOW_MS, a_classified, a_request, an_outcome

UNREADABLE = InvalidRecord("no message of ours")
Said = tuple[Incoming, Outcome | InvalidRecord]


def a_record(key: str, topic: str = OUTCOMES, at_ms: int = NOW_MS, headers: Headers | None = None) -> Incoming:
    return Incoming(
        topic=topic, partition=0, offset=0, timestamp_ms=at_ms, key=key.encode(), value=None, headers=headers or {}
    )


def said(name: str, status: Status = Status.FAILED) -> Said:
    return a_record(name), an_outcome(request_id=name, status=status)


def overdue(name: str, key: str = "", at_ms: int = NOW_MS) -> tuple[Incoming, ClassifiedRequest | InvalidRecord]:
    request = a_request(request_id=name, deadline_ms=NOW_MS - 5000)
    return a_record(key or name, CLASSIFIED, at_ms), a_classified(request)


def ended_before(*names: str) -> EndedIds:
    ended = EndedIds()
    ended.add([digest_of(name.encode()) for name in names], NOW_MS - DAY_MS)
    ended.forget(NOW_MS - WINDOW_MS)
    return ended


def ends(effects: Iterable[Effect]) -> list[tuple[str, Status]]:
    return [(each.outcome.request_id, each.outcome.status) for each in effects if isinstance(each, End)]


def served(logic: LedgerLogic, ended: EndedIds, run: Sequence[Said]) -> list[Effect]:
    """What is decided on a run, which is written before the next one comes."""
    effects = logic.on_outcomes(run)
    ended.add([digest_of(name.encode()) for name, _ in ends(effects)], NOW_MS)
    return effects


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([Status.COMPLETED, Status.FAILED, Status.CANCELLED]))),
    st.sets(st.integers(0, 5)),
    st.integers(0, 10),
)
def test_the_first_outcome_of_each_open_request_ends_it_however_outcomes_are_cut_into_runs(
    outcomes: list[tuple[int, Status]], before: set[int], cut: int
) -> None:
    run = [said(f"r-{number}", status) for number, status in outcomes]
    ended = ended_before(*(f"r-{number}" for number in before))
    logic = LedgerLogic(ended)
    effects = [*served(logic, ended, run[:cut]), *served(logic, ended, run[cut:])]
    first = dict[str, Status]()
    for number, status in outcomes:
        if number not in before:
            first.setdefault(f"r-{number}", status)
    assert ends(effects) == list(first.items())
    assert sum(isinstance(each, Repeated) for each in effects) == len(run) - len(first)


def test_a_record_that_is_no_outcome_of_its_key_is_kept_aside_and_those_beside_it_end_their_requests() -> None:
    unread, foreign = a_record("r-1"), a_record("another")
    run = [said("r-0"), (unread, UNREADABLE), (foreign, an_outcome(request_id="r-2")), said("r-3")]
    first, second, *rest = LedgerLogic(EndedIds()).on_outcomes(run)
    assert first == Aside(unread, UNREADABLE)
    assert isinstance(second, Aside)
    assert (second.record, str(second.error)) == (foreign, "the outcome of 'r-2' has the key b'another', not its id")
    assert ends(rest) == [("r-0", Status.FAILED), ("r-3", Status.FAILED)]


def test_an_outcome_from_before_what_is_remembered_ends_nothing_as_its_request_may_have_ended() -> None:
    old = a_record("r-1", at_ms=NOW_MS - WINDOW_MS)
    (kept,) = LedgerLogic(ended_before()).on_outcomes([(old, an_outcome())])
    assert isinstance(kept, Aside)
    assert "days older than what the ledger remembers" in str(kept.error)


def test_an_outcome_of_another_partition_is_moved_there_once() -> None:
    logic = LedgerLogic(EndedIds(), lambda key: 2 if key == b"r-1" else None)
    record, outcome = said("r-1")
    moved = a_record("r-1", headers={MOVED: b"0"})
    effects = logic.on_outcomes([(record, outcome), (moved, outcome), said("r-2")])
    assert effects[0] == Move(outcome, record, 2)
    assert isinstance(effects[1], Aside)
    assert "belongs to partition 2, and was moved here before" in str(effects[1].error)
    assert ends(effects) == [("r-2", Status.FAILED)]


def test_of_records_that_were_answered_before_only_what_lacks_its_answer_is_done_again() -> None:
    logic = LedgerLogic(ended_before("r-1"), lambda key: 2 if key == b"r-3" else None)
    moved = (a_record("r-3", headers={MOVED: b"0"}), an_outcome(request_id="r-3"))
    again = logic.on_reread([said("r-1"), said("r-2"), said("r-2"), said("r-3"), moved, (a_record("r"), UNREADABLE)])
    assert [type(each) for each in again] == [Move, End]
    assert ends(again) == [("r-2", Status.FAILED)]


def test_an_overdue_request_expires_once_unless_it_has_ended_or_may_have() -> None:
    logic = LedgerLogic(ended_before("r-1"), lambda key: 2 if key == b"r-3" else None)
    long_ago = NOW_MS - WINDOW_MS
    found = [overdue("r-1"), overdue("r-2"), overdue("r-2"), overdue("r-3"), overdue("r-4", at_ms=long_ago)]
    expired, moved = logic.on_overdue(found, NOW_MS)
    assert ends([expired]) == [("r-2", Status.EXPIRED)]
    assert isinstance(moved, Move)
    assert (moved.outcome.request_id, moved.outcome.status, moved.partition, moved.is_own) == (
        "r-3", Status.EXPIRED, 2, True
    )  # fmt: skip


def test_what_a_newer_release_classified_expires_by_its_key_and_what_is_no_request_does_not() -> None:
    newer = a_record("r-1", CLASSIFIED), UnknownSchema(900, 50)
    spoilt = a_record("r-2", CLASSIFIED), UNREADABLE
    effects = LedgerLogic(EndedIds()).on_overdue([newer, spoilt, overdue("r-3", key="r-4")], NOW_MS)
    assert ends(effects) == [("r-1", Status.EXPIRED)]
    assert len(effects) == 1


def test_a_request_of_whose_outcome_no_result_can_be_made_fails_and_the_outcome_is_kept_aside() -> None:
    logic, error = LedgerLogic(EndedIds()), ValueError("a batch of none")
    (end,) = logic.on_outcomes([said("r-1", Status.COMPLETED)])
    assert isinstance(end, End)
    bare, aside = logic.on_unmade(end, error, NOW_MS)
    assert isinstance(bare, End)
    assert (bare.outcome.status, bare.outcome.request, bare.is_bare) == (Status.FAILED, None, True)
    assert bare.outcome.reason == "the outcome makes no result: ValueError: a batch of none"
    assert aside == Aside(end.record, error)
    assert logic.on_unmade(bare, error, NOW_MS) == [], "the topic does not even take its id"
