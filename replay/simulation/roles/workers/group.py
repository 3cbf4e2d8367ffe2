"""A variant's job topic and the workers that read it: partitions, their owners, and jobs that wait for one.

Who is to own what is decided when a member comes or goes; it comes about as the members' heartbeats reach the group's
coordinator (`regrouping.py`): who has too much gives it up at its own, who lacks it takes what is free at its own.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from replay.simulation.job import Job


@dataclass(slots=True, eq=False)
class Member:
    """A process's membership in a group: its partitions and the jobs in them, the oldest first."""

    worker_id: str
    joined_ms: float = 0.0  # its heartbeats count from here
    partitions: list[int] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)  # partitions that are to be its
    waiting: deque[Job] = field(default_factory=deque)
    coming: int = 0  # jobs that are written to its partitions, and not there yet
    suspects: int = 0  # of those that wait, jobs that a dead owner had begun
    is_awaited: bool = False  # its next heartbeat will change something
    has_learnt: bool = False  # of a change, and has not polled since
    has_news: bool = True  # jobs were written to its partitions, or came to it, since its last heartbeat

    def take(self, count: int) -> list[Job]:
        """The first jobs that wait, which wait no more."""
        if count == 1 and not self.suspects:
            return [self.waiting.popleft()]
        taken = [self.waiting.popleft() for _ in range(count)]
        if self.suspects:
            self.suspects -= _suspects(taken)
        return taken

    def wait_for(self, jobs: Iterable[Job]) -> None:
        """Add jobs that wait."""
        self.waiting, self.has_news = deque(jobs), True
        self.suspects = _suspects(self.waiting)


def _suspects(jobs: Iterable[Job]) -> int:
    return sum(job.deaths is not None for job in jobs)


class Group:
    """Partitions are spread evenly over the members and stay where they are as far as that allows (KIP-848)."""

    def __init__(self, partitions: int) -> None:
        self.ends = [0] * partitions  # offset of the next job, by partition
        self.members: list[Member] = []
        self._owners: list[Member | None] = [None] * partitions
        self._orphans: list[Job] = []  # in partitions without an owner

    def append(self, partition: int, job: Job) -> Member | None:
        """Write and deliver a job. Returns the member that has it, if any."""
        self.written(partition)
        return self.deliver(partition, job)

    def written(self, partition: int) -> None:
        """A job is written to a partition, and not there yet."""
        self.ends[partition] += 1
        owner = self._owners[partition]
        if owner is not None:
            owner.coming += 1
            owner.has_news = True

    def deliver(self, partition: int, job: Job) -> Member | None:
        """Deliver a written job. Returns the member that has it, if any."""
        job.partition = partition
        owner = self._owners[partition]
        if owner is None:
            self._orphans.append(job)
        else:
            owner.waiting.append(job)
            owner.coming = max(0, owner.coming - 1)  # of a job that was written before it owned the partition none
            owner.has_news = True
        return owner

    def waiting(self) -> int:
        """Jobs that no worker has taken."""
        return len(self._orphans) + sum(len(member.waiting) for member in self.members)

    def take_orphans(self) -> list[Job]:
        """Remove and return the jobs in partitions without an owner."""
        taken, self._orphans = self._orphans, []
        return taken

    def leave_behind(self, jobs: list[Job]) -> None:
        """Put jobs back on their partitions."""
        self._orphans += jobs

    def join(self, member: Member) -> None:
        """A new member is to have its share."""
        self.members.append(member)
        self._assign()

    def leave(self, member: Member, in_hand: list[Job]) -> None:
        """Give its partitions to the others, and the jobs it had taken and not finished, which go first."""
        self.members.remove(member)
        for partition in member.partitions:
            self._owners[partition] = None
        self._orphans += [*in_hand, *member.waiting]
        member.partitions, member.wanted = [], []
        member.wait_for(())
        self._assign()
        self._deliver()

    def is_stable(self, member: Member) -> bool:
        """Whether it has what is to be its, and no more."""
        return len(member.partitions) == len(member.wanted) and set(member.partitions) == set(member.wanted)

    def settle(self, members: Iterable[Member]) -> list[Member]:
        """Let each member give up partitions of others, then take free ones of its own; return the changed members."""
        before = [(member, list(member.partitions)) for member in members]
        for member, _ in before:
            self._release(member)
        for member, _ in before:
            free = [partition for partition in member.wanted if self._owners[partition] is None]
            member.partitions += free
            for partition in free:
                self._owners[partition] = member
        self._deliver()
        return [member for member, had in before if member.partitions != had]

    def _assign(self) -> None:
        """Take partitions from members above their even share; give those without an owner to members below it."""
        if not self.members:
            return
        least, extra = divmod(len(self._owners), len(self.members))
        for member in sorted(self.members, key=lambda member: -len(member.wanted)):
            most = least + (1 if extra > 0 else 0)
            extra -= len(member.wanted) >= least + 1 and extra > 0
            member.wanted = member.wanted[:most]
        taken = {partition for member in self.members for partition in member.wanted}
        for partition in range(len(self._owners)):
            if partition not in taken:
                min(self.members, key=lambda member: len(member.wanted)).wanted.append(partition)

    def _release(self, member: Member) -> None:
        freed = set(member.partitions) - set(member.wanted)
        if freed:
            for partition in freed:
                self._owners[partition] = None
            member.partitions = [partition for partition in member.partitions if partition not in freed]
            member.coming = 0
            self._orphans += [job for job in member.waiting if job.partition in freed]
            member.wait_for([job for job in member.waiting if job.partition not in freed])

    def _deliver(self) -> None:
        """Orphans go to the owners of their partitions, in the order in which they were sent."""
        gained: dict[int, Member] = {}
        left: list[Job] = []
        for job in self._orphans:
            owner = self._owners[job.partition]
            if owner is None:
                left.append(job)
            else:
                owner.waiting.append(job)
                gained[id(owner)] = owner
        self._orphans = left
        for member in gained.values():
            member.wait_for(sorted(member.waiting, key=lambda job: job.order))
