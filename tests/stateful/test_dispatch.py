"""Dispatch: a sender's view of the workers is what a naive count of heartbeats and its own sends makes of them."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from planner.observation.workers import GONE, SERVING
from planner.serving.dispatch.dispatch import KINDS, ahead_ms, pick
from planner.serving.dispatch.worker_loads import UNACKNOWLEDGED_MS, LoadView, Sent
from schemas.messages import Heartbeat
from tests.agents.stubs import SILENT_MS
from tests.builders import NOW_MS, a_heartbeat, owned
from tests.planner.serving.workers import choose, shortest_ms
from tests.stateful.depth import depth

VARIANTS = ("light", "heavy")
WORKERS = st.sampled_from(["w-0", "w-1", "w-2", "w-3"])
STATES = st.sampled_from(["ready", "ready", "painting", "draining", "loading", "failed", "stopped"])
REBORN_MS = 10 * SILENT_MS  # how far back a new sender reads heartbeats


@dataclass(eq=False)
class Job:
    """One that this router wrote."""

    variant: str
    partition: int
    run_ms: float
    at_ms: float
    offset: int  # where it lies
    handle: Sent
    is_acknowledged: bool = False


class Beat(NamedTuple):
    """A heartbeat as it lies on its topic."""

    told: Heartbeat
    at_ms: float


class DispatchMachine(RuleBasedStateMachine):
    """`beats` and `ends` are the topics; `received`, `jobs` and `base` the naive count of one router's life."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms, self.number = float(NOW_MS), 0
        self.beats: list[Beat] = []
        self.ends: Counter[tuple[str, int]] = Counter()  # jobs that lie on a partition
        self.seen: Counter[tuple[str, int]] = Counter()  # of them, how many some worker has seen: it never sees fewer
        self.live()

    def live(self) -> None:
        """A new router: it reads the heartbeats of late, and knows nothing of what the former one sent."""
        self.view, self.jobs, self.received = LoadView(), list[Job](), list[Beat]()
        self.base: dict[str, tuple[float, float]] = {}  # worker -> (ms of work, at)
        for beat in self.beats:
            if self.now_ms - beat.at_ms <= REBORN_MS:
                self.take_in(beat)

    def take_in(self, beat: Beat) -> None:
        self.view.on_heartbeat(beat.told, beat.at_ms)
        self.received.append(beat)
        if beat.told.state in GONE:
            return
        ends = {each.partition: each.end_offset for each in beat.told.partitions}
        there = [job for job in self.jobs if job.variant == beat.told.variant and job.partition in ends]
        pending = [job for job in there if is_pending(job, ends[job.partition], beat.at_ms)]
        self.jobs = [job for job in self.jobs if job not in there or job in pending]
        work_ms = sum(each.remaining_ms for each in beat.told.partitions) + sum(job.run_ms for job in pending)
        self.base[beat.told.worker_id] = (work_ms, beat.at_ms)

    # ------------------------------------------------------------------ the naive count

    def owners(self) -> dict[tuple[str, int], str]:
        """Of each partition, who claimed it last and has not said otherwise since."""
        found: dict[tuple[str, int], str] = {}
        for told, _ in self.received:
            found = {place: worker for place, worker in found.items() if worker != told.worker_id}
            if told.state not in GONE:
                found |= {(told.variant, each.partition): told.worker_id for each in told.partitions}
        return found

    def expected(self, variant: str) -> dict[str, float]:
        """worker -> ms of work, of those that take jobs of a variant."""
        owning = {worker for (name, _), worker in self.owners().items() if name == variant}
        last = {beat.told.worker_id: beat for beat in self.received}
        return {
            worker: self.work_ms(worker)
            for worker, (told, at_ms) in last.items()
            if worker in owning and told.variant == variant and told.state in SERVING
            and self.now_ms - at_ms <= SILENT_MS
        }  # fmt: skip

    def work_ms(self, worker: str) -> float:
        work_ms, since_ms = self.base[worker]
        return max(0.0, work_ms - max(0.0, self.now_ms - since_ms))

    # ------------------------------------------------------------------ steps

    @rule(
        worker=WORKERS, variant=st.sampled_from(VARIANTS), state=STATES, partitions=st.sets(st.integers(0, 3)),
        work_ms=st.sampled_from([0, 15, 400]), sees=st.booleans(), late_ms=st.sampled_from([0, 0, 40]),
    )  # fmt: skip
    def a_worker_beats(
        self, worker: str, variant: str, state: str, partitions: set[int], work_ms: int, sees: bool, late_ms: int
    ) -> None:
        """It reports its partitions as far as some worker has seen them, or of all that lies there; a little late."""
        for partition in partitions if sees else ():
            self.seen[variant, partition] = self.ends[variant, partition]
        told = tuple(owned(p, self.seen[variant, p], work_ms) for p in sorted(partitions))
        at_ms = max(self.now_ms - late_ms, self.beats[-1].at_ms if self.beats else 0)  # the broker's clock
        beat = Beat(a_heartbeat(worker_id=worker, variant=variant, state=state, partitions=told), at_ms)
        self.beats.append(beat)
        self.take_in(beat)

    @rule(variant=st.sampled_from(VARIANTS), partition=st.integers(0, 3))
    def another_router_sends_a_job(self, variant: str, partition: int) -> None:
        self.ends[variant, partition] += 1

    @rule(kind=st.sampled_from(sorted(KINDS)), variant=st.sampled_from(VARIANTS), batch=st.sampled_from([1, 4]),
          size=st.sampled_from([1.0, 20.0]))  # fmt: skip
    def a_job_is_sent(self, kind: str, variant: str, batch: int, size: float) -> None:
        loads, self.number = self.view.loads(variant, self.now_ms, SILENT_MS), self.number + 1
        chosen = choose(kind, loads, f"r-{self.number}", self.number, size, batch)
        pool = self.view.pool(variant, self.now_ms, SILENT_MS)
        at = pick(kind, pool.free, self.now_ms, f"r-{self.number}", self.number, ahead_ms(size, batch))
        if chosen is None:
            assert at is None
            assert not loads or kind == "pull"
            assert shortest_ms(loads) > 0, "an idle worker pulls"
            return
        assert at is not None
        assert (pool.workers[at].worker_id, pool.next_partition(at)) == chosen[:2]
        if kind in ("least-work", "pull"):
            assert chosen.remaining_ms == pytest.approx(shortest_ms(loads), abs=1e-6)
        if kind == "pull" and batch == 1:
            assert chosen.remaining_ms == 0, "pulled by a busy worker"
        place = (variant, chosen.partition)
        assert self.owners()[place] == chosen.worker_id, "sent to a partition of another"
        handle = self.view.on_sent(variant, chosen.partition, None, size, self.now_ms)
        self.jobs.append(Job(variant, chosen.partition, size, self.now_ms, self.ends[place], handle))
        self.ends[place] += 1
        self.base[chosen.worker_id] = (self.work_ms(chosen.worker_id) + size, self.now_ms)

    @precondition(lambda self: any(not job.is_acknowledged for job in self.jobs))
    @rule(data=st.data())
    def the_broker_acknowledges_one(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from([job for job in self.jobs if not job.is_acknowledged]))
        job.is_acknowledged = True
        self.view.on_acknowledged(job.handle, job.offset)

    @rule(ms=st.sampled_from([1.0, 10.0, 100.0, 1000.0, SILENT_MS + 1.0, 70_000.0, 400_000.0]))
    def time_passes(self, ms: float) -> None:
        self.now_ms += ms

    @rule()
    def the_router_is_killed(self) -> None:
        self.live()

    # ------------------------------------------------------------------ what is promised

    @invariant()
    def loads_are_what_the_naive_count_says(self) -> None:
        for variant in VARIANTS:
            loads = self.view.loads(variant, self.now_ms, SILENT_MS)
            told = {load.worker_id: load.remaining_ms for load in loads}
            assert told == pytest.approx(self.expected(variant), abs=1e-6)
            pool = self.view.pool(variant, self.now_ms, SILENT_MS)
            assert pool.wait_ms(self.now_ms) == pytest.approx(shortest_ms(loads), abs=1e-6)

    @invariant()
    def no_load_is_negative_and_a_partition_has_one_worker(self) -> None:
        for variant in VARIANTS:
            loads = self.view.loads(variant, self.now_ms, SILENT_MS)
            assert all(load.remaining_ms >= 0 for load in loads)
            assert len({load.partition for load in loads}) == len(loads)


def is_pending(job: Job, end: int, at_ms: float) -> bool:
    """Whether a heartbeat that knows its partition up to `end` has not counted it."""
    return job.offset >= end if job.is_acknowledged else at_ms - job.at_ms <= UNACKNOWLEDGED_MS


TestDispatch = DispatchMachine.TestCase
TestDispatch.settings = depth(60)
