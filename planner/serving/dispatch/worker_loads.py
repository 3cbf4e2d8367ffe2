"""The remaining work of each worker, as one sender sees it: heartbeats plus the sender's own sends since.

Dispatch asks the `WorkerPool` of a variant: the workers that take its new jobs, and when each is free. Those that the
plan gives another variant take none.
"""

import math
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from planner.observation.workers import FORGET_MS, GONE, SERVING
from planner.serving.dispatch.free_times import FreeTimes
from planner.serving.dispatch.lacking import ExpectedHoldings, Need
from schemas.messages import Heartbeat, Plan

POLL_MS = FORGET_MS // 10  # between two searches for such workers
UNACKNOWLEDGED_MS = 300_000  # librdkafka gives a send up by then (message.timeout.ms)
MAX_SENDS = 2048  # remembered per partition; beyond it, a partition without an owner only looks emptier

Key = tuple[str, int]  # (variant, partition)


class Load(NamedTuple):
    """A worker as the sender sees it: where to write to reach it, and what it still has to do."""

    worker_id: str
    partition: int  # of the variant's job topic
    remaining_ms: float


@dataclass(slots=True)
class Sent:
    """A job the sender wrote; its handle until the broker has acknowledged it."""

    run_ms: float  # as its worker serves it, the load of components included
    at_ms: float
    offset: int | None  # None: not acknowledged yet. What fails is sent again, or its sender ends


@dataclass(slots=True, eq=False)
class LoadedWorker:
    """A worker as a sender's view knows it."""

    worker_id: str
    variant: str
    state: str
    partitions: list[int]
    unseen: set[int]  # of its partitions, those that may hold own sends which its last heartbeat had not seen
    next_turn: int  # which of its partitions is next: spread, so that a new worker takes over a fair part
    seen_ms: float = 0
    backlog_ms: float = 0  # of all its partitions, at `at_ms`
    at_ms: float = 0
    pool: "WorkerPool | None" = None  # the current one that it belongs to
    place: int = 0  # in the pool
    held: ExpectedHoldings = field(default_factory=ExpectedHoldings)  # components, where its variant lists bases
    slowness: float = 1.0  # of its last calls, by its last heartbeat: run time as a multiple of the profiled one

    def load(self, backlog_ms: float, at_ms: float) -> None:
        """Set its backlog at a moment. The worker works it off at one ms a ms from then on."""
        self.backlog_ms, self.at_ms = backlog_ms, at_ms
        if self.pool is not None:
            self.pool.free.set(self.place, at_ms + backlog_ms)

    def calls_take(self, slowness: float) -> None:
        """Take over how slow its last calls were."""
        if self.pool is not None:
            self.pool.replace_slowness(self.slowness, slowness)
        self.slowness = slowness

    def remaining_ms(self, now_ms: float) -> float:
        """Backlog that is left; a clock that jumps back adds nothing."""
        return max(0.0, self.backlog_ms - max(0, now_ms - self.at_ms))


@dataclass(slots=True, eq=False)
class WorkerPool:
    """The workers that take new jobs of one variant and the times at which they are free, place by place."""

    until_ms: float  # until then none of its workers is silent
    silent_ms: float
    workers: list[LoadedWorker]
    free: FreeTimes = field(init=False)
    _slownesses: list[float] = field(init=False)  # of its workers, in order of size

    def __post_init__(self) -> None:
        self._slownesses = sorted(worker.slowness for worker in self.workers)
        for place, worker in enumerate(self.workers):
            worker.pool, worker.place = self, place
        self.free = FreeTimes(worker.at_ms + worker.backlog_ms for worker in self.workers)

    def next_partition(self, place: int) -> int:
        """Return the next partition to write to, to reach the worker at a place."""
        worker = self.workers[place]
        return worker.partitions[worker.next_turn % len(worker.partitions)]

    def load(self, place: int, now_ms: float) -> Load:
        """Return the worker at a place as a sender sees it."""
        worker = self.workers[place]
        return Load(worker.worker_id, self.next_partition(place), worker.remaining_ms(now_ms))

    def lacking_ms(self, place: int, need: Need) -> float:
        """Time in ms that the worker at a place, its queue done, loads components for a job."""
        return self.workers[place].held.lacking_ms(need)

    @property
    def slowness(self) -> float:
        """Run time of its workers' calls as a multiple of the profiled one: median; 1 where there is no worker."""
        seen = self._slownesses
        middle = len(seen) // 2
        if len(seen) % 2:
            return seen[middle]
        return (seen[middle - 1] + seen[middle]) / 2 if seen else 1.0

    def replace_slowness(self, before: float, now: float) -> None:
        """Take over that the calls of one of its workers are as slow as this now. O(workers) moves, no sort."""
        del self._slownesses[bisect_left(self._slownesses, before)]
        insort(self._slownesses, now)

    def wait_ms(self, now_ms: float, queued_ms: float = 0.0, *, holds: bool = False) -> float:
        """Time until the least loaded worker is free, and its share of a queue done; infinite where there is none.

        `holds`: the plan does, and calls of what is queued go to all workers: the mean one's work counts.
        """
        if not (holds and queued_ms):
            return self.free.wait_ms(now_ms) + queued_ms
        return queued_ms + sum([max(0.0, at_ms - now_ms) for at_ms in self.free]) / len(self.free)

    def ready_ms(self, need: Need, now_ms: float) -> float:
        """Time until the first worker is free and has loaded what it lacks of a need; infinite where there is none.

        O(workers): one that is free later may have loaded it already. A worker that reports no components lacks none.
        """
        return min(
            (
                max(0.0, at_ms - now_ms) + (worker.held.lacking_ms(need) if worker.held.is_reported else 0.0)
                for at_ms, worker in zip(self.free, self.workers, strict=True)
            ),
            default=math.inf,
        )

    def invalidate(self) -> None:
        """Detach the workers, which keep its times up to date no more."""
        for worker in self.workers:
            worker.pool = None


class LoadView:
    """The loads of all workers. Not thread-safe: one owner; times are arguments, on one clock.

    A heartbeat has the remaining work up to each partition's end offset; own sends at or above that offset, or not
    acknowledged yet, come on top. Between heartbeats a worker works its backlog off at one ms a ms, so that a view is
    not partial to the worker whose heartbeat came last. A partition that two workers claim is that of the newest.

    A worker that the plan in force gives another variant is about to leave: it gets no new jobs while others stay,
    since its heartbeats show the move only after its call in progress.
    """

    def __init__(self) -> None:
        self._workers: dict[str, LoadedWorker] = {}
        self._owners: dict[Key, str] = {}
        self._sends: defaultdict[Key, deque[Sent]] = defaultdict(lambda: deque(maxlen=MAX_SENDS))
        self._pools: dict[str, WorkerPool] = {}
        self._plan: Plan | None = None
        self._next_poll_ms = -math.inf

    def obey(self, plan: Plan) -> None:
        """Take over the plan in force. O(workers) where it moves some, O(1) for the one that is known."""
        before, self._plan = self._plan, plan
        if plan is not before and (before is None or not moves_alike(before, plan)):
            for variant in list(self._pools):
                self._invalidate(variant)

    def on_heartbeat(self, heartbeat: Heartbeat, seen_ms: float) -> None:
        """Update from a heartbeat. O(partitions of its worker + own sends since the last one)."""
        ends = {owned.partition: owned.end_offset for owned in heartbeat.partitions}
        remaining_ms = float(sum(owned.remaining_ms for owned in heartbeat.partitions))
        self.update_from_heartbeat(
            heartbeat.worker_id, heartbeat.variant, heartbeat.state, list(ends), ends, remaining_ms, seen_ms,
            heartbeat.slowness,
        )  # fmt: skip
        if heartbeat.components is not None:
            self.on_components(heartbeat.worker_id, heartbeat.components.held, seen_ms)

    def on_components(self, worker_id: str, held: Mapping[str, Iterable[str]], seen_ms: float) -> None:
        """Take over what a worker holds by tier, after the other parts of its heartbeat. No-op for an unknown one."""
        worker = self._workers.get(worker_id)
        if worker is not None:
            worker.held.update(held, seen_ms)

    def update_from_heartbeat(
        self, worker_id: str, variant: str, state: str, partitions: list[int], ends: Mapping[int, int] | Sequence[int],
        remaining_ms: float, seen_ms: float, slowness: float = 1.0,
    ) -> None:  # fmt: skip
        """Take over the parts of a heartbeat; `ends` by partition, `remaining_ms` of all its partitions together.

        `slowness`: run time of its last calls as a multiple of the profiled one.
        """
        if seen_ms >= self._next_poll_ms:
            self._forget(seen_ms)
        worker = self._workers.get(worker_id)
        if (
            worker is None
            or worker.variant != variant
            or worker.partitions != partitions
            or (worker.state != state and _changes(worker.state, state))
        ):
            worker = self._changed(worker, worker_id, variant, state, partitions)
        if worker is None:
            return
        worker.state, worker.seen_ms = state, seen_ms
        if worker.pool is None:  # it may have been silent
            self._invalidate(variant)
        if slowness != worker.slowness:
            worker.calls_take(slowness)
        if worker.unseen:
            pending = {p: self._pending_ms((variant, p), ends[p], seen_ms) for p in sorted(worker.unseen)}
            worker.unseen = {partition for partition, ms in pending.items() if ms}
            remaining_ms += sum(pending.values())
        worker.load(remaining_ms, seen_ms)

    def on_sent(
        self, variant: str, partition: int, offset: int | None, run_ms: float, now_ms: float, need: Need | None = None
    ) -> Sent:
        """Count an own send; `offset` None until `on_acknowledged` has it. O(1), and the components of one worker.

        It counts as slow as the worker's last calls were; `run_ms` is as profiled. `need`: the components of the job.
        To load those that the worker lacks then takes its time, and it holds them.
        """
        worker = self._workers.get(self._owners.get((variant, partition), ""))
        if worker:
            run_ms *= worker.slowness
            if need is not None:
                run_ms += worker.held.lacking_ms(need)
        sent = Sent(run_ms, now_ms, offset)
        self._sends[variant, partition].append(sent)
        if worker:
            worker.load(worker.remaining_ms(now_ms) + run_ms, now_ms)
            if need is not None:
                worker.held.on_sent(need, now_ms + worker.remaining_ms(now_ms))
            worker.next_turn += 1
            worker.unseen.add(partition)
        return sent

    def on_acknowledged(self, sent: Sent, offset: int) -> None:
        """The broker has written the job at this offset."""
        sent.offset = offset

    def loads(self, variant: str, now_ms: float, silent_ms: float) -> list[Load]:
        """The workers that take new jobs of a variant: serving, owning a partition, not silent, staying. O(workers)."""
        pool = self.pool(variant, now_ms, silent_ms)
        return [pool.load(place, now_ms) for place in range(len(pool.workers))]

    def pool(self, variant: str, now_ms: float, silent_ms: float) -> WorkerPool:
        """Return the workers that take new jobs of a variant. O(1) while the workers do not change, else O(workers)."""
        pool = self._pools.get(variant)
        if pool is None or now_ms > pool.until_ms or pool.silent_ms != silent_ms:
            pool = self._new_pool(variant, now_ms, silent_ms)
        return pool

    def _new_pool(self, variant: str, now_ms: float, silent_ms: float) -> WorkerPool:
        self._invalidate(variant)
        workers = [
            worker
            for worker in self._workers.values()
            if worker.variant == variant
            and worker.partitions
            and worker.state in SERVING
            and now_ms - worker.seen_ms <= silent_ms
        ]
        plan = self._plan
        if plan is not None:
            workers = [each for each in workers if wanted_variant(each.worker_id, variant, plan) == variant] or workers
        until_ms = min((worker.seen_ms for worker in workers), default=math.inf) + silent_ms
        self._pools[variant] = WorkerPool(until_ms, silent_ms, workers)
        return self._pools[variant]

    def _invalidate(self, variant: str) -> None:
        pool = self._pools.pop(variant, None)
        if pool is not None:
            pool.invalidate()

    def _changed(
        self, worker: LoadedWorker | None, worker_id: str, variant: str, state: str, partitions: list[int]
    ) -> LoadedWorker | None:
        """Return the worker as it is now; None if it is gone."""
        self._release(worker_id)
        if state in GONE:
            self._workers.pop(worker_id, None)
            return None
        for partition in partitions:
            self._take((variant, partition), worker_id)
        next_turn = worker.next_turn if worker else 0
        self._invalidate(variant)
        changed = LoadedWorker(worker_id, variant, state, list(partitions), set(partitions), next_turn)
        if worker is not None and worker.variant == variant:
            changed.held = worker.held
        self._workers[worker_id] = changed
        return changed

    def _take(self, key: Key, worker_id: str) -> None:
        other = self._workers.get(self._owners.get(key, ""))
        if other and key[1] in other.partitions:
            other.partitions.remove(key[1])
            other.unseen.discard(key[1])
            self._invalidate(other.variant)
        self._owners[key] = worker_id

    def _release(self, worker_id: str) -> None:
        worker = self._workers.get(worker_id)
        if worker:
            for partition in worker.partitions:
                self._owners.pop((worker.variant, partition), None)
            worker.partitions, worker.unseen = [], set()
            self._invalidate(worker.variant)

    def _forget(self, now_ms: float) -> None:
        self._next_poll_ms = now_ms + POLL_MS
        for worker_id in [w for w, worker in self._workers.items() if now_ms - worker.seen_ms > FORGET_MS]:
            self._release(worker_id)
            del self._workers[worker_id]

    def _pending_ms(self, key: Key, end_offset: int, now_ms: float) -> float:
        sends = self._sends.get(key)
        if not sends:
            return 0.0
        kept = [sent for sent in sends if _is_pending(sent, end_offset, now_ms)]
        sends.clear()
        sends.extend(kept)
        return sum(sent.run_ms for sent in kept)


def wanted_variant(worker_id: str, serves: str, plan: Plan) -> str:
    """Return the variant that a plan has a worker serve, which serves `serves` now; "": none.

    A worker that the plan does not name goes on, unless the plan scales the fleet: then it is one of the pool.
    """
    return plan.allocation.get(worker_id, serves if plan.scale is None else "")


def moves_alike(before: Plan, plan: Plan) -> bool:
    """Whether both plans have each worker serve the same variant, whatever it serves now."""
    return before.allocation == plan.allocation and (before.scale is None) == (plan.scale is None)


def _changes(before: str, state: str) -> bool:
    """Whether another state makes a worker take jobs, or no more."""
    return state in GONE or (before in SERVING) != (state in SERVING)


def _is_pending(sent: Sent, end_offset: int, now_ms: float) -> bool:
    if sent.offset is None:
        return now_ms - sent.at_ms <= UNACKNOWLEDGED_MS
    return sent.offset >= end_offset
