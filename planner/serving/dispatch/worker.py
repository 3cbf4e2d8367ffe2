"""The decisions of a worker: which jobs it takes, which share a call, and what its heartbeats report.

`WorkerLogic` decides for as long as a worker serves one variant; the functions below it are its rules. The live worker
and the simulated one drive the same class.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import median
from typing import Final, Generic, NamedTuple, TypeVar

from planner.catalog.entries import Variant, run_ms
from planner.observation.run_times import MIN_CALLS
from planner.observation.workers import SERVING, STALLED, WorkerView
from planner.serving.deadlines import can_meet, predicted_finish_ms
from planner.serving.dispatch.worker_loads import wanted_variant
from schemas.messages import Plan

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

POLL_MS = 100.0  # that an idle worker waits for jobs before it reads the plan again
MIN_BEAT_MS = 50.0  # between two heartbeats: one after every batch shows the router which worker is free
DRAIN_MS = 10_000.0  # that the last worker of a variant works off its topic, when a plan gives it another one
DRAIN_LOADS = 2  # of the variant, for which it does so where they take longer: leaving and coming back costs as much
SETTLE_MS = 2000.0  # routes have left a variant this long after the first plan that left it: one is obeyed within 1 s
WINDOW_MS = 200  # of work is taken at once: quick variants pay for acks and commits once a window, slow ones a job
PACE_OVER = 16  # jobs: how many back the pace remembers, and the mean of what jobs wait for components
MAX_CALLS: Final = 30  # of its own that a worker looks back on, to know how long its calls take; MIN_CALLS at least
TOLERANCE: Final = 0.05  # of the profiled time, within which it takes the profile for right: the noise of so few calls
MAX_DEATHS: Final = 2  # owners that a job may end: the second had no other job
LIMIT_MS: Final = 600_000.0  # that a worker remembers how many images its memory was too small for
STALL_FACTOR = 3.0  # times the predicted time of the work, plus
MIN_STALL_MS = 2000.0  # this: later than both together a call is stalled


class Window(NamedTuple, Generic[T]):
    """Jobs that a worker took at once and generates before it takes others."""

    batches: list[list[T]]
    run_ms: float  # predicted, of all of them


class Turn(NamedTuple):
    """A worker's next action, by the plan in force."""

    is_leaving: bool  # the plan wants it elsewhere
    leaves: bool  # at once, and takes nothing more
    batch: int  # jobs that may share a call
    max_jobs: int  # to take at once


class WorkerLogic:
    """The decisions of a worker while it serves one variant. Times are of the caller's clock."""

    def __init__(self, variant: Variant, calls_at_once: int = 1) -> None:
        """`calls_at_once`: of the engine, that run side by side, a job each: then a call slows the others down.

        Its time is that of a call for as many images as there are calls: `latency_ms` by batch size says both.
        """
        self._calls_at_once = calls_at_once
        self.own_ms = run_ms(variant, 1)
        self.pace = 1.0  # predicted time of its recent jobs over the variant's own: options and drafts change it
        self.reported_pace = 1.0  # `pace` at the end of the last window, which heartbeats go by
        self.in_hand_ms = 0.0  # predicted time of the current window, with the loads of its calls so far; 0 without one
        self.loading_ms = 0.0  # that its recent jobs waited for components: running mean
        self.reported_loading_ms = 0.0  # `loading_ms` at the end of the last window
        self.slowness = 1.0  # median run time of its last calls, as a multiple of the profiled one
        self._slownesses: deque[float] = deque(maxlen=MAX_CALLS)
        self.limits: dict[int, tuple[int, float]] = {}  # pixels -> images of a call that fit, and until when it holds
        self.proven_pixels = variant.width * variant.height  # the largest image that fits alone: its own, until seen
        self._variant = variant
        self._max_jobs: dict[int, int] = {}
        self._call_ms = {1: self.own_ms}
        self._seen_version = -1  # of the newest plan
        self.left_ms: float | None = None  # when the first was made of the plans in a row that want it elsewhere

    def turn(
        self, worker_id: str, plan: Plan | None, live: Callable[[], Iterable[WorkerView]], now_ms: float, *,
        holds: bool = False,
    ) -> Turn:  # fmt: skip
        """Return what to do before the next window. `live`: all live workers, asked only where it is to leave.

        `holds`: it stays, whatever the plan wants. A worker without a plan goes on.
        """
        if plan is None:
            return Turn(False, False, 1, self.max_jobs(1))
        serves = self._variant.name
        is_leaving = not holds and wanted_variant(worker_id, serves, plan) != serves
        self.follow(plan.version, plan.created_ms, is_leaving=is_leaving)
        leaves = is_leaving and may_leave(
            worker_id, serves, plan, live(), has_drained_enough=self.has_drained_enough(now_ms)
        )
        batch = plan.batch.get(serves, 1)
        return Turn(is_leaving, leaves, batch, self.max_jobs(batch))

    def follow(self, version: int, created_ms: float, *, is_leaving: bool) -> None:
        """Learn of the plan in force. Of plans that were missed nothing is known: they may have let the worker stay."""
        if not is_leaving:
            self.left_ms = None
        elif self.left_ms is None or version > self._seen_version + 1:
            self.left_ms = created_ms
        else:
            self.left_ms = min(self.left_ms, created_ms)  # the first may be by a clock that is ahead
        self._seen_version = version

    def may_leave_empty(self, now_ms: float) -> bool:
        """Whether all routers obey the plans that want it elsewhere, so that the last worker may leave an empty topic.

        Counted from the first of these plans: a planner may publish oftener than routers take to obey.
        """
        return self.left_ms is not None and now_ms - self.left_ms > SETTLE_MS

    def has_drained_enough(self, now_ms: float) -> bool:
        """Whether the plans have wanted it elsewhere for longer than it may work off the topic that it leaves."""
        return self.left_ms is not None and now_ms - self.left_ms > drain_ms(self._variant)

    def max_jobs(self, batch: int) -> int:
        """Number of jobs to take at once, where the plan lets `batch` share a call."""
        found = self._max_jobs.get(batch)
        if found is None:
            at_once = batch if self._calls_at_once == 1 else self._calls_at_once
            found = self._max_jobs[batch] = window(self._variant, at_once)
        return found

    def begin(self, jobs: list[T], batch: int, others: int = 0, elapsed_ms: float = 0.0) -> Window[T]:
        """Begin a window of these jobs, one or more: its batches, where the plan lets `batch` share a call.

        `others`: jobs of the window that are in hand, `elapsed_ms` after it began, and that these join.
        """
        if self._calls_at_once > 1:
            images = len(jobs) + others
            at_once = min(images, self._calls_at_once)
            batches, own_ms = [[job] for job in jobs], self._of_call(at_once) * images / at_once
        elif len(jobs) == 1:
            batches, own_ms = [jobs], self.own_ms
        else:
            batches = [jobs[first : first + batch] for first in range(0, len(jobs), batch)]
            own_ms = sum(self._of_call(len(each)) for each in batches)
        self.in_hand_ms = elapsed_ms + self.slowness * self.pace * own_ms
        return Window(batches, self.in_hand_ms)

    def end(self) -> None:
        """End the window."""
        self.in_hand_ms, self.reported_pace, self.reported_loading_ms = 0.0, self.pace, self.loading_ms

    def on_loading(self, load_ms: float) -> None:
        """A call of the window begins, and first loads components for this long, as predicted."""
        self.in_hand_ms += load_ms

    def on_loaded(self, load_ms: float, jobs: int) -> None:
        """A call of this many jobs waited for components for this long: `loading_ms` follows."""
        if load_ms or self.loading_ms:
            for _ in range(jobs):
                self.loading_ms += (load_ms / jobs - self.loading_ms) / PACE_OVER

    def on_generated(self, took_ms: float, profiled_ms: float) -> None:
        """A call took this long, without loading, and was to take that long by the catalog: `slowness` follows.

        A median of the last calls, which a straggler moves little. Source: DiffServe 3.1, run times as served.
        """
        if took_ms <= 0 or profiled_ms <= 0:
            return
        self._slownesses.append(took_ms / profiled_ms)
        if len(self._slownesses) >= MIN_CALLS:
            seen = median(self._slownesses)
            self.slowness = seen if abs(seen - 1) > TOLERANCE else 1.0

    def crowding(self, beside: int) -> float:
        """Return how much longer a call takes while so many others of the engine run."""
        return self._of_call(1 + min(beside, self._calls_at_once - 1)) / self.own_ms

    def on_out_of_memory(self, pixels: int, images: int, now_ms: float) -> int:
        """A call of this many images of this size had too little memory: return how many are to share one.

        0: even one alone had, which is remembered unless one as large has fitted: then something else took the memory.
        """
        fit = min(images, self.limit(pixels, now_ms) or images) // 2
        if fit or pixels > self.proven_pixels:
            self.limits = self.limits | {pixels: (fit, now_ms + LIMIT_MS)}  # a new one: heartbeats read it
        return fit

    def limit(self, pixels: int, now_ms: float) -> int | None:
        """Return how many images of this size fit, after calls with too little memory; None: it is not known."""
        self.limits = {size: each for size, each in self.limits.items() if each[1] > now_ms}
        return min((most for size, (most, _) in self.limits.items() if size <= pixels), default=None)

    def limits_in_words(self) -> str:
        """Return what its memory is too small for, for its heartbeat; "": nothing is known."""
        found = [f"{most} of {size / 1e6:.2f} megapixels" for size, (most, _) in sorted(self.limits.items())]
        return f"too little memory for more images at once than {', '.join(found)}" if found else ""

    def is_in_time(
        self, deadline_ms: float | None, run_ms: float, scoring_ms: float, now_ms: float, beside: int = 0
    ) -> bool:
        """Whether a job is worth generating: profiled at `run_ms`, and then `scoring_ms` until it is an answer.

        `beside`: calls that run already. It counts in the worker's pace either way.
        """
        if run_ms != self.own_ms or self.pace != 1.0:
            self.pace = updated_pace(self.pace, run_ms, self.own_ms)
        took_ms = self.slowness * self.crowding(beside) * run_ms
        return can_meet(deadline_ms, predicted_finish_ms(now_ms, 0, took_ms + scoring_ms))

    def calls_in_time(
        self, jobs: list[T], due_ms: Sequence[float], call_ms: Callable[[Sequence[T]], float], now_ms: float
    ) -> list[list[T]]:
        """The calls for jobs that can share one: two, the most urgent first, where so more of them end in time.

        `due_ms`: when the call of each must have ended, infinite without a deadline; `call_ms`: its profiled time.
        """
        slowness = self.slowness
        if min(due_ms) >= now_ms + slowness * call_ms(jobs):
            return [jobs]
        return split_in_time(jobs, due_ms, lambda some: slowness * call_ms(some), now_ms)

    def waiting_ms(self, jobs: int) -> float:
        """ms of work that a heartbeat reports for jobs that are not taken yet.

        What they need is known once they are taken: each counts with what recent jobs waited for components.
        """
        own_ms = self._of_call(self._calls_at_once) / self._calls_at_once
        return jobs * (own_ms * self.reported_pace * self.slowness + self.reported_loading_ms)

    def _of_call(self, images: int) -> float:
        if images not in self._call_ms:
            self._call_ms[images] = run_ms(self._variant, images)
        return self._call_ms[images]


def drain_ms(variant: Variant) -> float:
    """Return how long the last worker of a variant works off its topic, when a plan gives it another one."""
    return max(DRAIN_MS, DRAIN_LOADS * variant.load_ms)


def working_state(is_leaving: bool) -> str:
    """Return the state of a worker with work in progress; `is_leaving`: the plan gives it another variant."""
    return "draining" if is_leaving else "painting"


def idle_state(is_leaving: bool) -> str:
    """The state of a worker that has loaded its variant and has no work in progress."""
    return "draining" if is_leaving else "ready"


def waiting_state(state: str, is_leaving: bool) -> str:
    """The state of a worker that found no work, by its state before: one that the plan wants to stay drains no more."""
    return idle_state(is_leaving and state == "draining")


def window(variant: Variant, most: int) -> int:
    """Number of jobs to take at once, where the plan lets `most` share a call: whole calls, one at least."""
    return most * max(1, int(WINDOW_MS / run_ms(variant, most)))


def counted_attempts(attempts: Sequence[int]) -> int:
    """Return the attempts to record for a window's first job, in case its worker dies now: 0 unless it is alone.

    The next owner takes the job as the attempt after that (`attempts_before`).
    """
    return attempts[0] if len(attempts) == 1 else 0


def attempts_before(recorded: int) -> int:
    """Return the attempts at a job that a dead owner had in progress, by its record: 1 if it had other jobs too.

    Each such job is taken alone from then on, so that no job beside a killer is met by a second death.
    """
    return max(1, recorded)


def jobs_at_once(max_jobs: int, *, are_suspects: bool) -> int:
    """Number of jobs to take; `are_suspects`: some wait that a dead owner had in flight, so that each goes alone."""
    return 1 if are_suspects else max_jobs


def has_killed_enough(attempt: int, max_deaths: int = MAX_DEATHS) -> bool:
    """Whether a job fails instead of being generated once more, as `max_deaths` owners died with it in progress."""
    return attempt > max_deaths


def group_by_call(jobs: Iterable[T], how: Callable[[T], K]) -> list[list[T]]:
    """The jobs that share a call, in the order of the first of each; `how` returns what must be equal in a call."""
    groups: dict[K, list[T]] = {}
    for job in jobs:
        groups.setdefault(how(job), []).append(job)
    return list(groups.values())


def split_in_time(
    jobs: list[T], due_ms: Sequence[float], call_ms: Callable[[Sequence[T]], float], now_ms: float
) -> list[list[T]]:
    """The jobs in one call, or in two where more of them end in time; what is not in time either way goes last.

    A job that has time enough alone may have too little for a call that others make longer. Arguments as in
    `WorkerLogic.calls_in_time`.
    """
    order = sorted(range(len(jobs)), key=lambda at: (due_ms[at] < now_ms + call_ms([jobs[at]]), due_ms[at]))
    whole_ms = now_ms + call_ms(jobs)
    found, most = [jobs], sum(due >= whole_ms for due in due_ms)
    for size in range(1, len(jobs)):
        first, second = [jobs[at] for at in order[:size]], [jobs[at] for at in order[size:]]
        first_ms = now_ms + call_ms(first)
        second_ms = first_ms + call_ms(second)
        in_time = sum(due_ms[at] >= (first_ms if place < size else second_ms) for place, at in enumerate(order))
        if in_time > most:
            found, most = [first, second], in_time
    return found


def updated_pace(pace: float, took_ms: float, own_ms: float) -> float:
    """The pace after one more job, which takes `took_ms`; `own_ms` is the variant's own time."""
    return pace + (took_ms / own_ms - pace) / PACE_OVER


def is_stalled(in_hand_ms: float, elapsed_ms: float) -> bool:
    """Whether work that was predicted to take `in_hand_ms` is so late that no job should wait for it."""
    return elapsed_ms > STALL_FACTOR * in_hand_ms + MIN_STALL_MS


def reported_state(state: str, in_hand_ms: float, elapsed_ms: float) -> str:
    """The state that the heartbeat of a worker with work in progress reports."""
    return STALLED if is_stalled(in_hand_ms, elapsed_ms) else state


def remaining_ms(in_hand_ms: float, elapsed_ms: float) -> float:
    """ms that work in progress takes yet: late work may be late by as much again, stalled work begins anew."""
    return in_hand_ms if is_stalled(in_hand_ms, elapsed_ms) else abs(in_hand_ms - elapsed_ms)


def may_leave(worker_id: str, serves: str, plan: Plan, live: Iterable[WorkerView], *, has_drained_enough: bool) -> bool:
    """Whether a worker that the plan moved away from `serves`, the variant that it serves now, may leave at once.

    It may when another live worker serves the variant and the plan keeps it there. Else all who serve it are leaving,
    and the one with the smallest id drains the topic first, so that no two leave work behind for each other. It does so
    until `has_drained_enough`, where the plan gives it another variant, whose requests wait for it: then what it has
    not begun is routed anew (`planner.serving.routing.reroute`). One that is to join the pool drains the topic.
    """
    wanted = wanted_variant(worker_id, serves, plan)
    if wanted == serves:
        return False
    others = [worker for worker in live if worker.variant == serves and worker.worker_id != worker_id]
    leaving = [worker.worker_id for worker in others if wanted_variant(worker.worker_id, serves, plan) != serves]
    staying = [worker for worker in others if worker.worker_id not in leaving]
    if any(worker.state in SERVING for worker in staying) or any(other < worker_id for other in leaving):
        return True
    return has_drained_enough and wanted != "" and not staying
