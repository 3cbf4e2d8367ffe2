"""A window with several calls open: whatever order their answers come in, every job ends once, and then it is done."""

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from planner.serving.dispatch.worker import WorkerLogic
from planner.serving.generating.effects import (
    Away,
    Call,
    Called,
    CallFailed,
    Check,
    Commit,
    Done,
    Drop,
    End,
    Fault,
    Fetch,
    Fetched,
    HandBack,
    Keep,
    Kept,
    NoDraft,
    Refused,
    Retry,
    SendOn,
    Sick,
    Stopped,
    Unchecked,
    Unfit,
    Wait,
)
from planner.serving.generating.window import WindowLogic
from planner.serving.routing.soft_deadline import Due
from schemas.messages import ClassifiedRequest, Status
from tests.builders import a_classified, a_request, a_variant

STORIES = 300
LOST = RuntimeError("lost")


@dataclass(eq=False)
class Job:
    """A job of a story."""

    job_id: str
    owners: int
    group: int  # jobs of one share a call
    refines: bool
    classified: ClassifiedRequest
    level: str = "light"
    routed_ms: float = 0.0
    attempts: int = 1
    has_draft: bool = False
    has_ended: bool = False


class Work:
    """What the window asks of a story's jobs."""

    def __init__(self, looks_up: bool) -> None:
        self.is_looked_up = looks_up

    def plan(self) -> None: ...
    def refusal(self, _job: Job) -> None: ...

    def has_ended(self, job: Job) -> bool:
        return job.has_ended

    def has_objects(self, job: Job) -> bool:
        return job.refines

    def changes(self, _job: Job) -> tuple[str, ...]:
        return ()

    def looks_up(self) -> bool:
        return self.is_looked_up

    def key(self, job: Job) -> int:
        return job.group

    def run_ms(self, _job: Job) -> float:
        return 20.0

    def call_ms(self, jobs: list[Job]) -> float:
        return 20.0 * len(jobs)

    def judged_ms(self, _job: Job) -> float:
        return 0.0

    def lacking_ms(self, _job: Job) -> float:
        return 0.0

    def size(self, job: Job) -> tuple[int, int]:
        return (32 * 32, 1) if job.group else (64 * 64, 2)

    def has_failed_here(self, job: Job) -> bool:
        return job.attempts > 1

    def can_go_elsewhere(self, job: Job) -> bool:
        return job.group == 0

    def begins_with_own_image(self, _job: Job) -> bool:
        return False

    def on_blank(self, job: Job, _kind: str, _why: str) -> None:
        job.refines = False


class Refuges:
    """There is time enough, and nowhere else to go."""

    def due(self, *_of: Any) -> Due:
        return Due(None)

    def placement(self, *_of: Any) -> None: ...


class Story:
    """Drives a window by dice, answering what is open in any order; counts how each job ended."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.most = self.dice.randint(1, 4)
        self.jobs = [self._job(number) for number in range(self.dice.randint(1, 12))]
        work: Any = Work(self.dice.random() < 0.3)
        self.window: WindowLogic[Any] = WindowLogic(
            "light", WorkerLogic(a_variant(), self.most), work, Refuges(), 3, self.most
        )
        self.ends, self.commits, self.overlapped, self.joined = Counter[str](), 0, 0, 0
        self.open: list[Any] = []
        self.faults, self.checks = set[Fault](), 0
        self.is_sick = False

    def _job(self, number: int) -> Job:
        request = a_classified(a_request(request_id=f"r-{number}"))
        owners, attempts = self.dice.choice((1, 1, 1, 2, 4)), self.dice.choice((1, 1, 3))
        return Job(f"j-{number}", owners, self.dice.randrange(2), self.dice.random() < 0.3, request, attempts=attempts)

    def told(self) -> "Story":
        first = self.dice.randint(1, len(self.jobs))
        later = self.jobs[first:]
        self._take(self.window.begin(self.jobs[:first], self.dice.randint(1, 3), 0.0))
        now_ms = 0.0
        while self.open:
            stored = [effect for effect in self.open if isinstance(effect, Keep | Wait)]
            assert len(self.open) - min(len(stored), self.most if self.most > 1 else 0) <= self.most
            assert self.commits == 0, "committed while something is open"
            if (room := self.window.room()) and later and self.dice.random() < 0.5:
                joining, later = later[:room], later[room:]
                self._take(self.window.begin(joining, 1, now_ms))
                self.joined += len(joining)
                continue
            calls = [effect for effect in self.open if isinstance(effect, Call)]
            assert len(calls) <= self.most
            self.overlapped = max(self.overlapped, len(calls))
            in_calls = [job for call in calls for job in call.jobs]
            assert len(in_calls) == len(set(in_calls)), "a job is in two calls"
            now_ms += 1000.0
            effect = self.open.pop(self.dice.randrange(len(self.open)))
            self._take(self.window.on(self._answer(effect), now_ms))
        self.jobs = self.jobs[: len(self.jobs) - len(later)]
        return self

    def _take(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case End(job) | Retry(job) | SendOn(job) | Drop(job):
                    self.ends[job.job_id] += 1
                case HandBack(job):
                    assert self.is_sick, "only what is sick hands back"
                    self.ends[job.job_id] += 1
                case Sick():
                    assert not self.is_sick, "it says so once"
                    self.is_sick = True
                case Commit():
                    self.commits += 1
                case _:
                    assert not (self.is_sick and isinstance(effect, Call | Check)), "a sick worker makes no calls"
                    self.open.append(effect)

    def _answer(self, effect: Any) -> Any:
        luck = self.dice.random()
        match effect:
            case Fetch(id_, jobs):
                away = Away(jobs[0], LOST, is_draft=True)
                return Fetched(id_, [away] if luck < 0.3 else [NoDraft(jobs[0], "missing", "")] if luck < 0.5 else [])
            case Call(id_, jobs):
                if luck < 0.2:
                    self.dice.choice(jobs).has_ended = True
                if effect.should_stop():
                    return Stopped(id_)
                if 0.2 < luck < 0.5:
                    fault = self.dice.choice([*Fault, Fault.MODEL, Fault.MODEL, Fault.MEMORY])
                    self.faults.add(fault)
                    return CallFailed(id_, LOST, fault)
                return Unfit(id_, LOST) if luck > 0.95 else Called(id_, 9.0)
            case Keep(id_, jobs):
                troubles = {0: Away(jobs[0], LOST), 1: Refused(jobs[0], "no"), 2: Unchecked(jobs[0], LOST)}
                found = troubles.get(self.dice.randrange(8))
                kept = [job for job in jobs if found is None or job is not found.job]
                self.ends.update(job.job_id for job in kept)
                return Kept(id_, [] if found is None else [found])
            case Check(id_):
                self.checks += 1
                return CallFailed(id_, LOST) if luck < 0.5 else Done(id_)
            case _:
                return Done(effect.id)


@pytest.fixture(scope="module")
def stories() -> list[Story]:
    return [Story(seed).told() for seed in range(STORIES)]


def test_every_job_ends_once_and_the_window_is_done_once(stories: list[Story]) -> None:
    for story in stories:
        assert story.ends == Counter(job.job_id for job in story.jobs)
        assert story.commits == 1
        assert story.window.in_hand() == []


def test_stories_have_all_faults_checks_and_workers_that_are_sick(stories: list[Story]) -> None:
    assert set().union(*(story.faults for story in stories)) == set(Fault)
    assert sum(story.checks for story in stories) > 3
    assert {story.is_sick for story in stories} == {True, False}


def test_jobs_join_where_calls_leave_room_and_never_a_sick_worker_s(stories: list[Story]) -> None:
    assert sum(story.joined for story in stories if story.most > 1) > 10
    for story in stories:
        assert not (story.is_sick and story.window.room())


def test_calls_overlap_where_several_are_allowed(stories: list[Story]) -> None:
    assert {story.overlapped for story in stories if story.most == 4} >= {2, 3, 4}
    assert all(story.overlapped <= 1 for story in stories if story.most == 1)


def test_a_job_that_ended_its_workers_fails_among_others_and_is_in_no_call() -> None:
    window: WindowLogic[Any] = WindowLogic("light", WorkerLogic(a_variant(), 2), Work(False), Refuges(), 3, 2)  # type: ignore[arg-type]
    killer, *others = [Job(f"j-{n}", 4 if n == 0 else 1, 0, False, a_classified()) for n in range(3)]
    effects = window.begin([killer, *others], 1, 0.0)
    assert [effect.job for effect in effects if isinstance(effect, End) and effect.status is Status.FAILED] == [killer]
    assert [effect.jobs for effect in effects if isinstance(effect, Call)] == [[others[0]], [others[1]]]
