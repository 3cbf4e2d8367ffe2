"""Reassigns partitions as members of a group learn of it with their heartbeats (KIP-848).

Measured live, heartbeats 2 s apart: a worker that joins those who serve already has its partitions 2 to 4 s later, for
an owner first learns that it has to give them up, does so when it polls after its window of work, and the newcomer
learns at its own next heartbeat that they are free. A worker that joins an empty group has them at once; the jobs of
a worker that left wait until the others' next heartbeats.
"""

from collections.abc import Callable

from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.workers.group import Group, Member
from schemas.ids import draw


class Regrouping:
    """`is_busy`: whether a member does not poll; `on_changed` is called with the members whose partitions changed."""

    def __init__(
        self,
        events: EventQueue,
        beat_ms: float,
        is_busy: Callable[[Member], bool],
        on_changed: Callable[[list[Member]], None],
        answer_ms: float = 0.0,
    ) -> None:
        """`beat_ms`: between a member's heartbeats; 0: all learn at once. `answer_ms`: until the first one's answer."""
        self._events, self._beat_ms = events, beat_ms
        self._is_busy, self._on_changed, self._answer_ms = is_busy, on_changed, answer_ms

    def joined(self, group: Group, member: Member) -> None:
        """The answer to its first heartbeat is what is free. A run begins (before 0) with groups that have settled."""
        now_ms = self._events.now_ms
        member.joined_ms = now_ms if now_ms >= 0 else now_ms + self._beat_ms * draw(member.worker_id, "group-beat")
        group.join(member)
        self._regroup(group)
        if not group.is_stable(member):
            self._events.at(now_ms + self._answer_ms, self._on_answer, (group, member))

    def left(self, group: Group, member: Member, in_hand: list[Job]) -> None:
        """Give the partitions of a member that left to the others."""
        group.leave(member, in_hand)
        self._regroup(group)

    def settle(self, group: Group, member: Member) -> list[Member]:
        """Let a member that polls learn of a change; return it if its partitions changed."""
        member.has_learnt = False
        changed = group.settle([member])
        self._await_beat(group, member)
        return changed

    def _regroup(self, group: Group) -> None:
        is_at_once = self._beat_ms <= 0 or self._events.now_ms < 0
        changed = group.settle(group.members if is_at_once else [])
        for member in group.members:
            self._await_beat(group, member)
        self._on_changed(changed)

    def _await_beat(self, group: Group, member: Member) -> None:
        if member.is_awaited or group.is_stable(member):
            return
        member.is_awaited = True
        now_ms = self._events.now_ms
        beats = (now_ms - member.joined_ms) // self._beat_ms + 1
        at_ms = member.joined_ms + beats * self._beat_ms
        if at_ms <= now_ms:  # by rounding: this one is over
            at_ms += self._beat_ms
        self._events.at(at_ms, self._on_beat, (group, member))

    def _on_answer(self, about: tuple[Group, Member]) -> None:
        group, member = about
        if member in group.members:
            self._on_changed(self.settle(group, member))

    def _on_beat(self, about: tuple[Group, Member]) -> None:
        group, member = about
        member.is_awaited = False
        if member not in group.members:
            return
        if self._is_busy(member):
            member.has_learnt = True
        else:
            self._on_changed(self.settle(group, member))
