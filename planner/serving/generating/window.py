"""What becomes of the jobs that a worker took at once: the order of all checks, calls, retries and waits.

`WindowLogic` is the worker's machine: events in (jobs, answers), effects out (`effects.py`). Three drivers run it: the
worker on Kafka (`agents/worker/driving.py`), simulated time (`replay/simulation/roles/workers/serving.py`) and tests.
It knows no client, no clock and no thread; one thread owns it.

    begin   a window of jobs -> the first effects
    on      the answer to one that is open -> the next ones, until `Commit`
    end     what the window wrote is acknowledged and committed
"""

import math
from collections import deque
from collections.abc import Generator, Hashable, Iterable, Sequence
from itertools import chain, count
from typing import Any, Final, Generic, Protocol, TypeVar

from planner.catalog.components import Offer, needs_components, unhonoured
from planner.serving.backoff import DRAFT_S, backoff_s
from planner.serving.decisions import INVALID, POISON, UNHONOURED, Rejection
from planner.serving.dispatch.worker import MAX_DEATHS, WorkerLogic, group_by_call, has_killed_enough
from planner.serving.ending.outcomes import late_status
from planner.serving.generating.effects import (
    Answer,
    Away,
    Call,
    Called,
    CallFailed,
    Check,
    Commit,
    Drop,
    Effect,
    End,
    Fault,
    Fetch,
    Fetched,
    HandBack,
    Keep,
    Kept,
    LookUp,
    NoDraft,
    Open,
    Refused,
    Retry,
    SendOn,
    Sick,
    Stopped,
    Unchecked,
    Unfit,
    Wait,
)
from planner.serving.requests import ClassifiedValues
from planner.serving.routing.composing import insists_on
from planner.serving.routing.placement import Placement
from planner.serving.routing.soft_deadline import Due
from planner.serving.safety import UNSAFE
from schemas.errors import PochadeError
from schemas.messages import GenerateOptions, Plan, Status

MAX_ATTEMPTS: Final = 3
MAX_FAILING: Final = 3  # different jobs in a row that a call fails on, until the worker is checked; 1 if none has not
MAX_BAD_IMAGES: Final = 2  # attempts at a job that is given no image
KEEPS_DRAFT: Final = "; the draft was kept"
COMMIT: Final = Commit()


class EndedWorkers(PochadeError):
    """A job whose workers died as often as is allowed."""


class WindowJob(Protocol):
    """A job as a window reads it. Its owner changes it in place: the images it begins with, the options it has."""

    @property
    def job_id(self) -> str:
        """Its id, which reasons name."""

    @property
    def classified(self) -> ClassifiedValues:
        """Its classified request."""

    @property
    def level(self) -> str:
        """The level that it was sent to."""

    @property
    def routed_ms(self) -> float:
        """When it was sent there."""

    @property
    def owners(self) -> int:
        """Number of workers that had its record in hand, this one included."""

    @property
    def attempts(self) -> int:
        """Number of attempts at it, this one included: after deaths and after errors."""

    @property
    def has_draft(self) -> bool:
        """Whether an image of its request was made, which is its answer if this one cannot come."""

    @property
    def refines(self) -> bool:
        """Whether it is to begin with that draft."""


J = TypeVar("J", bound=WindowJob)
Task = Generator[Open[J], Any, None]  # sends an effect that is open, is sent its answer
J_contra = TypeVar("J_contra", bound=WindowJob, contravariant=True)


class Work(Protocol[J_contra]):
    """What a window asks its driver of jobs, the plan and the views in force. Nothing waits."""

    def plan(self) -> Plan | None:
        """Return the plan in force; None: none has come."""

    def has_ended(self, job: J_contra) -> bool:
        """Whether the request has its result, so that nothing of it is wanted any more."""

    def refusal(self, job: J_contra) -> Rejection | None:
        """Return why the request is refused here: it equals one that ended its workers, or names what is not there."""

    def has_objects(self, job: J_contra) -> bool:
        """Whether the job begins with objects that are to be fetched: images that its request names, or its draft."""

    def changes(self, job: J_contra) -> Sequence[str]:
        """Return what of the prompts and images is changed, as far as a strict request does not allow it."""

    def looks_up(self) -> bool:
        """Whether stored latents are looked up, as the plan in force has it."""

    def key(self, job: J_contra) -> Hashable:
        """Return what is equal for jobs that can share a call."""

    def run_ms(self, job: J_contra) -> float:
        """Return the profiled time of a job in a call of its own."""

    def call_ms(self, jobs: Sequence[J_contra]) -> float:
        """Return the profiled time of a call."""

    def judged_ms(self, job: J_contra) -> float:
        """Return how long judging its image takes, as far as it is judged."""

    def lacking_ms(self, job: J_contra) -> float:
        """Return the time to load what the device lacks of the job's components."""

    def size(self, job: J_contra) -> tuple[int, int]:
        """Return the pixels of an image of the job, and the number of its images."""

    def has_failed_here(self, job: J_contra) -> bool:
        """Whether a call with the job has failed on this very worker before."""

    def can_go_elsewhere(self, job: J_contra) -> bool:
        """Whether another worker takes jobs of the level, none of whose calls has failed with this one."""

    def begins_with_own_image(self, job: J_contra) -> bool:
        """Whether the request names the image that it begins with, which is never left out."""

    def on_blank(self, job: J_contra, kind: str, why: str) -> None:
        """Let a job begin from noise in place of a draft or a latent. `kind`: why, in one of few words."""


class Refuges(Protocol):
    """By when jobs are due, and where late ones go; `planner.serving.routing.refuge.RefugeLogic`."""

    def due(self, classified: ClassifiedValues, level: str, routed_ms: float) -> Due:
        """Return the time by which a job of `level` must be answered there."""

    def placement(self, classified: ClassifiedValues, level: str, plan: Plan, now_ms: float) -> Placement | None:
        """Return the placement of a job of `level` on another one; None: no other is in time, or may stand in."""


class WindowLogic(Generic[J]):
    """Decides on a worker's windows of jobs while it serves one variant. Times are ms of the clock of `now_ms`."""

    def __init__(
        self, variant: str, worker: WorkerLogic, work: Work[J], refuges: Refuges, max_attempts: int = MAX_ATTEMPTS,
        calls_at_once: int = 1,
    ) -> None:  # fmt: skip
        """`max_attempts`: at a job that the engine fails on. `calls_at_once`: of the engine that may be open."""
        self.worker = worker
        self._variant, self._work, self._refuges = variant, work, refuges
        self._max_attempts, self._calls_at_once = max_attempts, calls_at_once
        self._now_ms = self._began_ms = 0.0
        self._ids = count()
        self._tasks: dict[int, tuple[Task[J], Open[J]]] = {}  # by the id of the effect that each waits for
        self._batches: deque[list[J]] = deque()  # to be prepared
        self._prepared: list[J] = []  # the batch that is being prepared
        self._calls: deque[list[J]] = deque()  # to be made
        self._failing: set[str] = set()  # jobs that calls have failed on since one has not
        self._has_generated = False  # whether any call, or check, has not failed
        self.is_sick = False  # no call is made any more
        self._out: list[Effect[J]] = []

    def begin(self, jobs: list[J], batch: int, now_ms: float) -> list[Effect[J]]:
        """Begin a window of jobs, of which up to `batch` share a call, or let them join the one that is in hand."""
        in_hand = len(self.in_hand())
        self._began_ms = self._began_ms if in_hand else now_ms
        self._now_ms, self._out = now_ms, []
        if jobs:
            self._batches.extend(self.worker.begin(jobs, batch, in_hand, now_ms - self._began_ms).batches)
        self._go_on()
        return self._out

    def on(self, answer: Answer[J], now_ms: float) -> list[Effect[J]]:
        """Go on after an answer. One to an effect that is not open changes nothing."""
        self._now_ms, self._out = now_ms, []
        entry = self._tasks.pop(answer.id, None)
        if entry is not None:
            self._run(entry[0], answer)
            self._go_on()
        return self._out

    def end(self) -> None:
        """End the window."""
        self.worker.end()

    def room(self) -> int:
        """Return how many jobs may join the window: 0 while every call that may be open is, or others wait for one."""
        if self.is_sick or self._busy() + len(self._calls) + len(self._batches) >= self._calls_at_once:
            return 0
        return self.worker.max_jobs(1) - len(self.in_hand())

    def in_hand(self) -> list[J]:
        """Return the jobs of the window that are not answered; those of a `Keep` may be on their way."""
        being_made = [effect.jobs for _, effect in self._tasks.values() if isinstance(effect, Call | Keep | Wait)]
        jobs = chain(self._prepared, *being_made, *self._calls, *self._batches)
        return list({id(job): job for job in jobs}.values())

    def _go_on(self) -> None:
        """Begin what may begin: a call, else a batch, else the window is done."""
        if self.is_sick:
            self._out.extend(map(HandBack, chain(*self._calls, *self._batches)))
            self._calls.clear()
            self._batches.clear()
        while self._busy() < self._calls_at_once:
            if self._calls:
                call = self._calls.popleft()
                if self.worker.limits:
                    call, *others = self._that_fit(call) or [[]]
                    self._calls.extendleft(reversed(others))
                if len(call) > 1:
                    call, *others = self._in_time(call)
                    self._calls.extendleft(others)
                if call:
                    self._run(self._call(call))
            elif self._batches and not self._prepared:
                self._run(self._prepare(self._batches.popleft()))
            else:
                break
        if not self._tasks:
            self._out.append(COMMIT)

    def _busy(self) -> int:
        """Return how many calls are open, or about to be; images of as many others may be stored meanwhile."""
        if self._calls_at_once == 1:
            return len(self._tasks)
        stored = sum(isinstance(effect, Keep | Wait) for _, effect in self._tasks.values())
        return len(self._tasks) - min(stored, self._calls_at_once)

    def _run(self, task: Task[J], answer: Answer[J] | None = None) -> None:
        try:
            effect = task.send(answer)
        except StopIteration:
            return
        self._tasks[effect.id] = task, effect
        self._out.append(effect)

    # What comes before the calls of a batch.

    def _prepare(self, batch: list[J]) -> Task[J]:
        """Settle the jobs of a batch: which are generated, in which calls."""
        self._prepared = [job for job in batch if self._is_wanted(job)]
        if any(map(self._work.has_objects, self._prepared)):
            yield from self._fetch()
        self._prepared = [job for job in self._prepared if self._is_honoured(job)]
        if self._prepared and self._work.looks_up():
            yield LookUp(next(self._ids), self._prepared)
        wanted = [job for job in self._prepared if self._is_in_time(job)]
        self._prepared = []
        self._calls.extend(group_by_call(wanted, self._key) if len(wanted) > 1 else [wanted] if wanted else ())

    def _key(self, job: J) -> Hashable:
        """Return what is equal for jobs that share a call: one that may have ended a worker is generated alone."""
        return self._work.key(job) if job.owners == 1 else job.job_id

    def _is_wanted(self, job: J) -> bool:
        """Whether a job is generated, by what is known before anything is fetched; one that is not has ended."""
        if self._work.has_ended(job):
            self._out.append(Drop(job))
        elif has_killed_enough(job.owners):
            self._fail_as_poison(job, job.owners - 1)
        elif (refused := self._work.refusal(job)) is not None:
            self._reject(job, refused.reason, refused.code, refused.param)
        else:
            if job.attempts > 1 and job.refines:
                self._work.on_blank(job, "retry", "an earlier attempt did not end well")
            return True
        return False

    def _fetch(self) -> Task[J]:
        """Open what the jobs of the batch begin with; a store that is away is waited for, for DRAFT_S."""
        began_ms, failures = self._now_ms, 0
        jobs = [job for job in self._prepared if self._work.has_objects(job)]
        while jobs:
            answer: Fetched[J] = yield Fetch(next(self._ids), jobs)
            away = []
            for trouble in answer.troubles:
                match trouble:
                    case NoDraft(job, kind, why):
                        self._work.on_blank(job, kind, why)
                    case Refused(job, reason, param):
                        self._prepared.remove(job)
                        self._reject(job, reason, INVALID, param)
                    case Away():
                        away.append(trouble)
            if away and self._now_ms - began_ms >= 1000 * DRAFT_S:
                self._give_up(away)
                return
            jobs = [each.job for each in away]
            if jobs:
                failures += 1
                yield Wait(next(self._ids), jobs, 1000 * backoff_s(failures))

    def _give_up(self, away: Iterable[Away[J]]) -> None:
        """Let jobs begin without what the store does not give: without a draft from noise, else in another attempt."""
        for job, error, is_draft, kind in away:
            if is_draft:
                self._work.on_blank(job, kind, f"{error}; waited {DRAFT_S:g} s")
            else:
                self._prepared.remove(job)
                self._retry_or_fail(job, error)

    def _is_honoured(self, job: J) -> bool:
        """Whether a job's prompts and images are as asked, or need not be; one that is not has ended."""
        changed = self._work.changes(job)
        if not changed or not job.classified.request.options.strict:
            return True
        reason, param = insists_on(job.level, changed)
        self._refuse(job, reason, param)
        return False

    def _is_in_time(self, job: J) -> bool:
        """Whether a job is generated; one that is not has ended, or goes on to a cheaper level."""
        due, now_ms = self._refuges.due(job.classified, job.level, job.routed_ms), self._now_ms
        alone_ms, besides_ms, open_ = self._work.run_ms(job), self._besides_ms(job), len(self._tasks)
        if self.worker.is_in_time(due.at_ms, alone_ms, besides_ms, now_ms, open_):
            return True
        reason = f"{self._variant} would have finished after {due.name} {due.at_ms:.0f}"
        plan = None if job.has_draft else self._work.plan()
        if plan is not None and (placed := self._refuges.placement(job.classified, job.level, plan, now_ms)):
            self._out.append(SendOn(job, placed, reason))
            return False
        if due.is_soft and not job.has_draft:
            return True
        status = late_status(has_draft=job.has_draft)
        self._out.append(End(job, status, reason + KEEPS_DRAFT if job.has_draft else reason))
        return False

    def _besides_ms(self, job: J) -> float:
        """Return what a job takes beside its call until it is an answer: loading what the device lacks, and judging."""
        return self._work.judged_ms(job) + self._work.lacking_ms(job)

    def _in_time(self, jobs: list[J]) -> list[list[J]]:
        """Return the call, or the two that more of its jobs are in time with."""
        return self.worker.calls_in_time(jobs, [self._due_ms(job) for job in jobs], self._work.call_ms, self._now_ms)

    def _due_ms(self, job: J) -> float:
        """When the call of a job must have ended for its image to be an answer in time."""
        deadline_ms = job.classified.request.deadline_ms
        return math.inf if deadline_ms is None else deadline_ms - self._besides_ms(job)

    # A call, and what comes after it.

    def _call(self, jobs: list[J]) -> Task[J]:
        """Generate jobs in one call, and keep their images."""
        worker, work = self.worker, self._work
        worker.on_loading(work.lacking_ms(jobs[0]))
        most = worker.limit(work.size(jobs[0])[0], self._now_ms) if worker.limits else None
        answer = yield Call(next(self._ids), jobs, work.has_ended, most or 0)
        if not isinstance(answer, Called):
            self._on_no_images(jobs, answer)
            if len(self._failing) >= (MAX_FAILING if self._has_generated else 1) and not self.is_sick:
                yield from self._check()
            return
        self._failing.clear()
        self._has_generated = True
        worker.proven_pixels = max(worker.proven_pixels, work.size(jobs[0])[0])
        worker.on_loaded(answer.load_ms, len(jobs))
        worker.on_generated(answer.run_ms, work.call_ms(jobs) * worker.crowding(answer.side_by_side - 1))
        left, failures = [job for job in jobs if not work.has_ended(job)], 0
        if len(left) < len(jobs):
            self._out.extend(Drop(job) for job in jobs if job not in left)
        while left:
            kept: Kept[J] = yield Keep(next(self._ids), left)
            left = self._not_kept(kept.troubles) if kept.troubles else []
            if left:
                failures += 1
                yield Wait(next(self._ids), left, 1000 * backoff_s(failures))

    def _on_no_images(self, jobs: list[J], answer: Stopped | Unfit | CallFailed) -> None:
        """End or repeat the jobs of a call that gave no images."""
        match answer:
            case Stopped():
                self._out.extend(map(Drop, jobs))
            case Unfit(_, error) if self._work.begins_with_own_image(jobs[0]):
                for job in jobs:
                    self._reject(job, str(error), UNHONOURED)
            case Unfit(_, error):
                for job in jobs:
                    self._work.on_blank(job, "engine", str(error))
                self._calls.appendleft(jobs)
            case CallFailed(_, error, Fault.DEVICE):
                self._on_device_fault(jobs, error)
            case CallFailed(_, error, Fault.MEMORY):
                self._on_out_of_memory(jobs, error)
            case CallFailed() if len(jobs) > 1:  # one of them may be the cause: each alone
                self._calls.extendleft([job] for job in reversed(jobs))
            case CallFailed(_, error, Fault.JOB, param):
                self._refuse(jobs[0], str(error), param)
            case CallFailed(_, error, fault):
                if fault is not Fault.CLIENT:
                    self._failing.add(jobs[0].job_id)
                self._retry_or_fail(jobs[0], error, MAX_BAD_IMAGES if fault is Fault.IMAGE else self._max_attempts)

    # A worker that cannot go on as it is.

    def _check(self) -> Task[J]:
        """Find out whether it is the jobs that calls fail on, or the model: then a new process has to load it."""
        answer = yield Check(next(self._ids))
        failing = len(self._failing)
        self._failing.clear()
        self._has_generated = True
        if isinstance(answer, CallFailed):
            self._sicken(f"calls failed on {failing} different jobs, and on one of its own: {_in_words(answer.error)}")

    def _sicken(self, reason: str, *, counts: bool = True) -> None:
        if not self.is_sick:
            self.is_sick = True
            self._out.append(Sick(reason, counts))

    def _on_device_fault(self, jobs: list[J], error: Exception) -> None:
        """Let the worker be sick, and the jobs go on: each alone, and no further once it has ended enough workers."""
        self._sicken(_in_words(error), counts=all(job.owners == 1 for job in jobs))
        for job in jobs:
            is_death = not self._work.has_failed_here(job)  # one worker's device may be to blame, however often
            ends_workers = has_killed_enough(job.owners + is_death) or job.attempts > MAX_DEATHS
            if len(jobs) == 1 and ends_workers:
                self._fail_as_poison(job, job.owners)
            else:
                self._out.append(Retry(job, job.attempts + 1, error, is_death))

    def _on_out_of_memory(self, jobs: list[J], error: Exception) -> None:
        """Make calls of half as many images from now on; one alone that does not fit goes elsewhere once."""
        pixels, _ = self._work.size(jobs[0])
        images = sum(self._work.size(job)[1] for job in jobs)
        if self.worker.on_out_of_memory(pixels, images, self._now_ms):
            self._calls.appendleft(jobs)
        elif pixels > self.worker.proven_pixels:
            self._do_not_fit(jobs, error)
        else:
            for job in jobs:
                self._failing.add(job.job_id)
                self._retry_or_fail(job, error)

    def _that_fit(self, jobs: list[J]) -> list[list[J]]:
        """Return the calls for jobs that could share one, as the device's memory allows; none for what never fits."""
        pixels, images = self._work.size(jobs[0])
        limit = self.worker.limit(pixels, self._now_ms)
        if limit is None:
            return [jobs]
        if not limit:
            self._do_not_fit(jobs, MemoryError(f"an image of {pixels} pixels did not fit before"))
            return []
        at_once = max(1, limit // images)
        return [jobs[first : first + at_once] for first in range(0, len(jobs), at_once)]

    def _do_not_fit(self, jobs: list[J], error: Exception) -> None:
        for job in jobs:
            if job.attempts == 1 and self._work.can_go_elsewhere(job):
                self._out.append(Retry(job, job.attempts + 1, error))
            else:
                pixels, _ = self._work.size(job)
                said = f"{self._variant} has too little memory here for an image of {pixels / 1e6:.1f} megapixels"
                self._refuse(job, f"{said}, even alone: ask for a smaller one", "width")

    def _not_kept(self, troubles: Iterable[Refused[J] | Unchecked[J] | Away[J]]) -> list[J]:
        """Return the jobs whose images are to be stored once more; the others have ended."""
        away = []
        for trouble in troubles:
            match trouble:
                case Away(job):
                    away.append(job)
                case Refused(job, reason):
                    self._reject(job, reason, UNSAFE)
                case Unchecked(job, error):
                    self._retry_or_fail(job, error)
        return away

    # How a job ends without an image.

    def _retry_or_fail(self, job: J, error: Exception, most: int | None = None) -> None:
        if job.attempts >= min(most or self._max_attempts, self._max_attempts):
            self._fail(job, error)
        else:
            self._out.append(Retry(job, job.attempts + 1, error))

    def _fail_as_poison(self, job: J, deaths: int) -> None:
        said = f"job {job.job_id} ended {deaths} workers; requests equal to it are refused for an hour"
        self._fail(job, EndedWorkers(said), is_poison=True)

    def _fail(self, job: J, error: Exception, *, is_poison: bool = False) -> None:
        self._out.append(End(job, Status.FAILED, _in_words(error), error=error, is_poison=is_poison))

    def _refuse(self, job: J, reason: str, param: str) -> None:
        """End a job that its level cannot generate: with the draft it was to refine, if there is one."""
        if job.has_draft:
            self._out.append(End(job, Status.COMPLETED, reason + KEEPS_DRAFT))
        else:
            self._reject(job, reason, UNHONOURED, param)

    def _reject(self, job: J, reason: str, code: str, param: str = "") -> None:
        self._out.append(End(job, Status.REJECTED, reason, code, param))


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def refusal_of(options: GenerateOptions, offer: Offer, equal: str | None) -> Rejection | None:
    """Return why a worker refuses a request, as drivers answer `Work.refusal`. None if it does not.

    `equal`: the id of an equal request that ended its workers recently. `offer`: of the worker's variant: a router of
    another catalog may have sent what it cannot generate with.
    """
    if equal is not None:
        reason = f"request {equal} with this prompt and these options ended its workers: change one or wait an hour"
        return Rejection(Status.REJECTED, POISON, reason)
    fault = unhonoured(options, offer) if needs_components(options) else None
    return fault and Rejection(Status.REJECTED, UNHONOURED, fault.reason, param=fault.param)
