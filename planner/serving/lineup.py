"""The workers that take new jobs of one variant, and when each is free: what dispatch looks at."""

import math
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class LoadedWorker:
    """A worker as a sender's view knows it."""

    worker_id: str
    variant: str
    state: str
    partitions: list[int]
    unseen: set[int]  # of its partitions, those that may hold own sends which its last heartbeat had not seen
    turn: int  # which of its partitions is next: spread, so that a new worker takes over a fair part
    seen_ms: float = 0
    backlog_ms: float = 0  # of all its partitions, at `at_ms`
    at_ms: float = 0
    lineup: "Lineup | None" = None  # the one in force that it stands in
    place: int = 0  # in it

    def load(self, backlog_ms: float, at_ms: float) -> None:
        """It has so much to do at a moment; works it off at one ms a ms from then on."""
        self.backlog_ms, self.at_ms = backlog_ms, at_ms
        if self.lineup is not None:
            self.lineup.free_at_ms[self.place] = at_ms + backlog_ms

    def remaining_ms(self, now_ms: float) -> float:
        """What is left of it; a clock that jumps back adds nothing."""
        return max(0.0, self.backlog_ms - max(0, now_ms - self.at_ms))


@dataclass(slots=True, eq=False)
class Lineup:
    """Workers and the times at which they are free, place by place."""

    until_ms: float  # nobody in it is silent before
    silent_ms: float
    workers: list[LoadedWorker]
    free_at_ms: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        for place, worker in enumerate(self.workers):
            worker.lineup, worker.place = self, place
            self.free_at_ms.append(worker.at_ms + worker.backlog_ms)

    def partition(self, place: int) -> int:
        """Where to write to reach the worker at a place."""
        worker = self.workers[place]
        return worker.partitions[worker.turn % len(worker.partitions)]

    def wait_ms(self, now_ms: float) -> float:
        """Until the least loaded one is free; infinite where there is none."""
        return max(0.0, min(self.free_at_ms) - now_ms) if self.free_at_ms else math.inf

    def dissolve(self) -> None:
        """It is no more what its workers keep up to date."""
        for worker in self.workers:
            worker.lineup = None
