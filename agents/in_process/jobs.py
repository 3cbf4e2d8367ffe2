"""The jobs of one variant in memory, and the workers that share them; attempts survive a death, as on Kafka."""

from collections import deque
from collections.abc import Sequence

from agents.worker.jobs import Taken
from planner.serving.dispatch.worker import attempts_before, counted_attempts, jobs_at_once
from schemas.record import Incoming


class JobQueue:
    """One variant's jobs by partition; each partition belongs to one of the workers that serve the variant."""

    def __init__(self, partitions: int) -> None:
        self._waiting: list[deque[Taken]] = [deque() for _ in range(partitions)]
        self._members: list[str] = []
        self._in_hand: dict[str, list[Taken]] = {}  # worker -> its window
        self._absolved: set[str] = set()  # workers whose window waits for a store

    def put(self, record: Incoming) -> None:
        """Take in a job's record."""
        self._waiting[record.partition].append(Taken(record, 1))

    def join(self, worker_id: str) -> None:
        """Give a worker its share."""
        self._members = sorted({*self._members, worker_id})

    def leave(self, worker_id: str) -> None:
        """Give a worker's share to the others; what it had in hand waits again, with an attempt more."""
        window = self._in_hand.pop(worker_id, [])
        counted = 0 if worker_id in self._absolved else counted_attempts([taken.attempt for taken in window])
        for taken in reversed(window):
            attempt = taken.attempt
            if worker_id not in self._absolved:
                attempt = attempts_before(counted) + 1
            self._waiting[taken.record.partition].appendleft(Taken(taken.record, attempt))
        self._absolved.discard(worker_id)
        self._members = [member for member in self._members if member != worker_id]

    def owned(self, worker_id: str) -> dict[int, int]:
        """Return the partitions of a worker, each with the number of its jobs."""
        place, count = self._members.index(worker_id), len(self._members)
        return {at: len(jobs) for at, jobs in enumerate(self._waiting) if at % count == place}

    def take(self, worker_id: str, most: int) -> list[Taken]:
        """Return a window of jobs; one alone as long as there are some that a dead worker had in hand."""
        owned = [self._waiting[at] for at in self.owned(worker_id)]
        many = jobs_at_once(most, are_suspects=any(taken.attempt > 1 for jobs in owned for taken in jobs))
        window: list[Taken] = []
        for jobs in owned:
            while jobs and len(window) < many:
                window.append(jobs.popleft())
        self._in_hand[worker_id] = window
        return window

    def absolve(self, worker_id: str) -> None:
        """Let a worker's death count against no job of its window, as it waits for a store."""
        self._absolved.add(worker_id)

    def commit(self, worker_id: str) -> None:
        """The worker's window is done."""
        self._in_hand.pop(worker_id, None)
        self._absolved.discard(worker_id)

    def orphans(self) -> Sequence[Taken]:
        """Return the jobs that no worker serves; they stay until `remove`."""
        return () if self._members else [taken for jobs in self._waiting for taken in jobs]

    def remove(self, taken: Taken) -> None:
        """Remove a job that was answered elsewhere."""
        self._waiting[taken.record.partition].remove(taken)
