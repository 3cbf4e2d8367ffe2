"""The live ledger's machine and the simulated ledger end requests alike: 1,000 stories of outcomes and deadlines."""

import random
from typing import Any, NamedTuple

import pytest

from agents.ledger.open_requests import OpenRequests
from planner.serving.ending.ended_ids import EndedIds
from planner.serving.ending.ledger import Effect, End, LedgerLogic
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from schemas.ids import digest_of
from schemas.messages import Status
from schemas.topics import CLASSIFIED
from streams.codec.headers import DEADLINE
from tests.agents.stubs import a_record
from tests.builders import a_catalog, a_classified, a_plan, a_request, an_outcome

BEGIN_MS, GRACE_MS = 10_000, 2000
LATE_MS = BEGIN_MS + 60_000
Ends = dict[str, Status]


class Asked(NamedTuple):
    """A request of a story, and the outcome that a role says."""

    name: str
    deadline_ms: int | None
    ended_ms: int | None  # None: no role ends it
    status: Status
    has_draft: bool  # which is the answer where it is COMPLETED


def a_story(seed: int) -> list[Asked]:
    dice = random.Random(seed)
    statuses = (Status.COMPLETED, Status.COMPLETED, Status.REJECTED, Status.FAILED)
    story = []
    for number in range(dice.randrange(1, 9)):
        deadline_ms = None if dice.random() < 0.3 else BEGIN_MS + dice.choice((0, 500, 3000))
        around_ms = (deadline_ms or BEGIN_MS) + dice.choice((0, GRACE_MS)) + dice.choice((-1, 0, 1, 700))
        story.append(
            Asked(
                f"r-{number}", deadline_ms, None if dice.random() < 0.2 else around_ms, dice.choice(statuses),
                dice.random() < 0.4,
            )
        )  # fmt: skip
    return story


def in_order(story: list[Asked]) -> list[tuple[int, Asked]]:
    return sorted((each.ended_ms, each) for each in story if each.ended_ms is not None)


def live(story: list[Asked]) -> Ends:
    """How the live ledger ends the requests; it looks for overdue ones before each outcome."""
    ended, requests, ends = EndedIds(), OpenRequests(10**9), Ends()
    logic = LedgerLogic(ended)
    asked = [a_classified(a_request(request_id=each.name, deadline_ms=each.deadline_ms)) for each in story]
    records = [
        a_record(
            topic=CLASSIFIED, offset=offset, key=each.request.request_id.encode(), timestamp_ms=BEGIN_MS,
            headers={} if each.request.deadline_ms is None else {DEADLINE: b"%d" % each.request.deadline_ms},
        )
        for offset, each in enumerate(asked)
    ]  # fmt: skip
    requests.take(records, ended.known, ended.since_ms())

    def write(effects: list[Effect], at_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, End):
                ends[effect.outcome.request_id] = effect.outcome.status
                ended.add([digest_of(effect.outcome.request_id.encode())], at_ms)
                requests.end([digest_of(effect.outcome.request_id.encode())])

    def expire(at_ms: int) -> None:
        overdue = requests.overdue(at_ms, GRACE_MS, len(story))
        write(logic.on_overdue([(records[each.offset], asked[each.offset]) for each in overdue], at_ms), at_ms)

    for at_ms, each in in_order(story):
        expire(at_ms)
        record = a_record(key=each.name.encode(), timestamp_ms=at_ms)
        write(logic.on_outcomes([(record, an_outcome(request_id=each.name, status=each.status))]), at_ms)
    expire(LATE_MS)
    return ends


class Tally:
    """Notes how each request ended."""

    def __init__(self) -> None:
        self.ends = Ends()

    def ended(self, status: Status, job: Job, _code: str = "") -> None:
        assert job.request_id not in self.ends
        self.ends[job.request_id] = status

    def completed(self, job: Job, *_: object) -> None:
        self.ended(Status.COMPLETED, job)


def simulated(story: list[Asked]) -> Ends:
    """How the simulated ledger ends them; a job that no role ends is dropped in the end, where it has ended."""
    events, plan_state, tally, draws = EventQueue(float(BEGIN_MS - 1)), PlanState(a_catalog()), Tally(), object()
    plan_state.obey(a_plan())
    ledger = Ledger(events, plan_state, tally, GRACE_MS)  # type: ignore[arg-type]
    jobs: dict[str, Any] = {
        each.name: Job(0, each.name, float(BEGIN_MS), each.deadline_ms, draws, 0)  # type: ignore[arg-type]
        for each in story
    }
    for at_ms, each in in_order(story):
        events.advance(at_ms)
        job = jobs[each.name]
        job.level, job.draft = "light", ("light", 0) if each.has_draft else None
        if each.status is Status.COMPLETED and not each.has_draft:
            ledger.complete(job)
        else:
            ledger.end(each.status, job, "a code")
    events.advance(LATE_MS)
    for job in jobs.values():
        if job.request_id not in tally.ends and ledger.has_ended(job):
            ledger.end(Status.EXPIRED, job)
    return tally.ends


def test_both_ledgers_end_the_requests_of_every_story_alike() -> None:
    for seed in range(1000):
        story = a_story(seed)
        assert live(story) == simulated(story), f"story {seed}: {story}"


@pytest.mark.parametrize("tell", [live, simulated])
def test_an_outcome_after_the_grace_comes_too_late_and_one_at_its_end_does_not(tell: Any) -> None:
    story = [
        Asked("in-time", BEGIN_MS, BEGIN_MS + GRACE_MS, Status.COMPLETED, has_draft=False),
        Asked("late", BEGIN_MS, BEGIN_MS + GRACE_MS + 1, Status.COMPLETED, has_draft=False),
        Asked("late-draft", BEGIN_MS, BEGIN_MS + GRACE_MS + 1, Status.COMPLETED, has_draft=True),
        Asked("late-refusal", BEGIN_MS, BEGIN_MS + GRACE_MS + 1, Status.REJECTED, has_draft=False),
        Asked("unheard", BEGIN_MS, None, Status.COMPLETED, has_draft=False),
        Asked("patient", None, BEGIN_MS + 50_000, Status.COMPLETED, has_draft=False),
    ]
    late = dict.fromkeys(("late", "late-draft", "late-refusal", "unheard"), Status.EXPIRED)
    assert tell(story) == late | {"in-time": Status.COMPLETED, "patient": Status.COMPLETED}
