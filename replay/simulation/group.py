"""A variant's job topic and the workers that read it: partitions, their owners, and jobs that wait for one."""

from collections import deque
from dataclasses import dataclass, field

from replay.simulation.job import Job


@dataclass(slots=True, eq=False)
class Member:
    """One process's membership: its partitions and the jobs that lie in them, the oldest first."""

    worker_id: str
    partitions: list[int] = field(default_factory=list)
    waiting: deque[Job] = field(default_factory=deque)


class Group:
    """Partitions are spread evenly over the members and stay where they are as far as that allows (KIP-848)."""

    def __init__(self, partitions: int) -> None:
        self.ends = [0] * partitions  # offset of the next job, by partition
        self.members: list[Member] = []
        self._owners: list[Member | None] = [None] * partitions
        self._orphans: list[Job] = []  # in partitions that nobody owns

    def append(self, partition: int, job: Job) -> Member | None:
        """A job is written, and there; who has it now, if anybody."""
        self.ends[partition] += 1
        return self.deliver(partition, job)

    def deliver(self, partition: int, job: Job) -> Member | None:
        """A job that was written is there to be taken; who has it now, if anybody."""
        job.partition = partition
        owner = self._owners[partition]
        if owner is None:
            self._orphans.append(job)
        else:
            owner.waiting.append(job)
        return owner

    def waiting(self) -> int:
        """Jobs that no worker has taken."""
        return len(self._orphans) + sum(len(member.waiting) for member in self.members)

    def take_orphans(self) -> list[Job]:
        """The jobs in partitions that nobody owns lie there no more."""
        taken, self._orphans = self._orphans, []
        return taken

    def leave_behind(self, jobs: list[Job]) -> None:
        """They lie there again."""
        self._orphans += jobs

    def join(self, member: Member) -> list[Member]:
        """A new member takes its share, with the jobs that lie there; who has other partitions than before."""
        self.members.append(member)
        return self._rebalance()

    def leave(self, member: Member, in_hand: list[Job]) -> list[Member]:
        """Its partitions are the others'; so are the jobs it had taken and not finished, which come first again."""
        self.members.remove(member)
        for job in in_hand:
            self._owners[job.partition] = None
        self._orphans += [*in_hand, *member.waiting]
        for partition in member.partitions:
            self._owners[partition] = None
        member.partitions, member.waiting = [], deque()
        return self._rebalance()

    def _rebalance(self) -> list[Member]:
        before = [(member, list(member.partitions)) for member in self.members]
        self._release_surplus()
        for partition, owner in enumerate(self._owners):
            if owner is None and self.members:
                least = min(self.members, key=lambda member: len(member.partitions))
                least.partitions.append(partition)
                self._owners[partition] = least
        self._deliver()
        return [member for member, had in before if member.partitions != had]

    def _release_surplus(self) -> None:
        """What a member has above its even share becomes free, with the jobs in it."""
        if not self.members:
            return
        least, extra = divmod(len(self._owners), len(self.members))
        for member in sorted(self.members, key=lambda member: -len(member.partitions)):
            most = least + (1 if extra > 0 else 0)
            extra -= len(member.partitions) >= least + 1 and extra > 0
            for partition in member.partitions[most:]:
                self._owners[partition] = None
            freed = set(member.partitions[most:])
            if freed:
                member.partitions = member.partitions[:most]
                self._orphans += [job for job in member.waiting if job.partition in freed]
                member.waiting = deque(job for job in member.waiting if job.partition not in freed)

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
            member.waiting = deque(sorted(member.waiting, key=lambda job: job.order))
