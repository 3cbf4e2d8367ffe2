"""Jobs that wait for an idle worker, one queue a variant, where a plan's dispatch pulls; and what becomes of each.

`PullQueues` decides for the live forwarder (`agents/router/waiting/`) and the simulated one
(`replay/simulation/roles/routing/forwarder.py`). A queue has a lane for each tier: interactive jobs go first, but while
a standard one waits, no more than IN_A_ROW of them in a row; batch jobs go when no other waits. Jobs of a lane go in
the order in which they came. What waits for one variant keeps no job of another one waiting.

    its request has a result            dropped: cancelled, past its deadline by the ledger, or a repetition
    it cannot end by its deadline       ended, with its draft as the answer if it has one; the wait for the next free
                                        worker counts, which its sender could not know. If the plan holds: nothing yet,
                                        as its worker may send it to a level that is in time (`routing/refuge.py`)
    a worker of its variant is idle     sent to it
    the plan pulls, and none is idle    it waits, and those behind it
    the plan holds                      it waits until a worker is about to be idle, to which a call of jobs goes then
    the plan pushes                     sent as any job: waiting jobs leave at once when a plan changes to pushing
    no worker serves its variant        it waits while the plan gives the variant a worker, else it goes to the jobs
                                        of the variant, from where orphaned jobs are rerouted (`routing/reroute.py`)

Source: OctoAI, "Stable Diffusion at scale" (2023), "Pull-based Routing": workers take the first request of the queue
whenever they are idle. It has no classes of urgency, and no deadlines: both are ours.
"""

from collections import Counter, deque
from collections.abc import Callable, Container, Iterator
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from planner.serving.deadlines import can_meet
from planner.serving.decisions import DEADLINE, ENDED, Ignored, Rejection
from planner.serving.dispatch.dispatch import DEFAULT_TIER, ONE, Call, Retry, holds, holds_back
from schemas.messages import TIERS, Plan, Status


class Chosen(Protocol):
    """Protocol of a worker that a job would be sent to; `worker_loads.Load` is the live one."""

    @property
    def remaining_ms(self) -> float:
        """Work before it, in ms: of its call in progress, and of jobs that were sent to it."""


J = TypeVar("J")
W = TypeVar("W", bound=Chosen)

IN_A_ROW: Final = 4  # interactive jobs that overtake standard ones, then one of these goes: a fifth at least is theirs
NONE_ENDED: Container[str] = frozenset()
NO_WORKER_YET: Final = Retry(50.0, 50.0)  # its heartbeat is waited for


class Waiting(NamedTuple, Generic[J]):
    """A job that waits, and what is asked about it."""

    job: J
    request_id: str
    tier: str
    deadline_ms: float | None  # on the clock of `now_ms`; None: it has none
    least_ms: float  # from the call that generates its images until they are judged, as short as it can be


class Lanes(NamedTuple, Generic[J]):
    """The jobs that wait for one variant, by tier in the order of TIERS."""

    interactive: deque[Waiting[J]]
    standard: deque[Waiting[J]]
    batch: deque[Waiting[J]]

    def next(self, overtook: int) -> deque[Waiting[J]]:
        """Return the lane whose first job goes next, after `overtook` interactive jobs in a row; it may be empty."""
        if self.standard and (overtook >= IN_A_ROW or not self.interactive):
            return self.standard
        return self.interactive or self.batch


class Forward(NamedTuple, Generic[W]):
    """The decision to send a job to this worker; None for the topic of its variant's jobs."""

    worker: W | None


Decision = Forward[W] | Rejection | Ignored


class PullQueues(Generic[J]):
    """The jobs that wait for idle workers, by variant. Not thread-safe: one owner; knows no clock."""

    def __init__(self, ended: Container[str] = NONE_ENDED) -> None:
        """`ended`: ids of the requests that have a result."""
        self._ended = ended
        self._lanes: dict[str, Lanes[J]] = {}
        self._overtook: Counter[str] = Counter()  # interactive jobs that went in a row while a standard one waited
        self._idle_in_ms: dict[str, float] = {}

    def add(self, variant: str, waiting: Waiting[J]) -> None:
        """Put a job behind those of its lane."""
        lanes = self._lanes.setdefault(variant, Lanes(deque(), deque(), deque()))
        lanes[TIERS.index(waiting.tier if waiting.tier in TIERS else DEFAULT_TIER)].append(waiting)

    def remove(self, variant: str, is_lost: Callable[[J], bool]) -> None:
        """Forget the jobs of a variant that another owner has now."""
        for lane in self._lanes.get(variant, ()):
            kept = [waiting for waiting in lane if not is_lost(waiting.job)]
            lane.clear()
            lane.extend(kept)

    def variants(self) -> list[str]:
        """Return the variants that jobs wait for."""
        return [variant for variant, lanes in self._lanes.items() if any(lanes)]

    def count(self, variant: str) -> int:
        """Return the number of jobs that wait for a variant."""
        return sum(map(len, self._lanes.get(variant, ())))

    def idle_in_ms(self) -> float:
        """Time in ms until a worker can take a job that waits, as far as was known when they were last asked about.

        0 where jobs wait for a worker of which nothing is known; infinite where none waits.
        """
        return min((self._idle_in_ms.get(variant, 0.0) for variant in self.variants()), default=float("inf"))

    def forward(
        self, variant: str, plan: Plan, now_ms: float, choose: Callable[[Waiting[J]], W | Retry | None],
        call: Call = ONE,
    ) -> Iterator[tuple[Waiting[J], Decision[W]]]:  # fmt: skip
        """Yield the jobs of a variant that wait no more with the decision on each, the first of the queue first.

        `choose`: the worker of a `call` of jobs by the plan's dispatch, Retry where they are to wait for one, None if
        the variant has no worker. It must know what was sent to each of the jobs that were yielded before.
        """
        open_calls = deque[tuple[W | None, int]]()  # of workers chosen here, with the number of jobs that may join

        def worker_of(waiting: Waiting[J]) -> W | Retry | None:
            chosen = choose(waiting)
            return open_calls[0][0] if isinstance(chosen, Retry) and open_calls else chosen

        lanes = self._lanes.get(variant)
        if lanes is None:
            return
        self._idle_in_ms.pop(variant, None)
        while lane := lanes.next(self._overtook[variant]):
            decision = self._decide(lane[0], variant, plan, now_ms, worker_of)
            if isinstance(decision, Retry):
                self._idle_in_ms[variant] = max(0.0, decision.idle_in_ms)
                return
            if isinstance(decision, Forward):
                joins = open_calls and open_calls[0][0] is decision.worker
                left = open_calls.popleft()[1] if joins else call.beside if lanes.interactive else call.jobs
                open_calls += [(decision.worker, left - 1)] * (left > 1)
                overtakes = lane is lanes.interactive and lanes.standard
                self._overtook[variant] = self._overtook[variant] + 1 if overtakes else 0
            yield lane.popleft(), decision

    def _decide(
        self, waiting: Waiting[J], variant: str, plan: Plan, now_ms: float,
        choose: Callable[[Waiting[J]], W | Retry | None],
    ) -> Decision[W] | Retry:  # fmt: skip
        if waiting.request_id in self._ended:
            return ENDED
        ends_late = not holds_back(plan)  # else its worker ends it, or sends it to a level that is in time
        if ends_late and not can_meet(waiting.deadline_ms, now_ms + waiting.least_ms):
            return _too_late(variant, waiting, "no worker was idle before")
        chosen = choose(waiting)
        if isinstance(chosen, Retry):
            return chosen
        if chosen is None:
            return NO_WORKER_YET if holds(plan) and variant in plan.allocation.values() else Forward(None)
        if ends_late and not can_meet(waiting.deadline_ms, now_ms + chosen.remaining_ms + waiting.least_ms):
            return _too_late(variant, waiting, f"its next worker was busy for {chosen.remaining_ms:.0f} ms more")
        return Forward(chosen)


def _too_late(variant: str, waiting: Waiting[J], why: str) -> Rejection:
    reason = f"{variant} would have finished after deadline_ms {waiting.deadline_ms}: {why}"
    return Rejection(Status.EXPIRED, DEADLINE, reason)
