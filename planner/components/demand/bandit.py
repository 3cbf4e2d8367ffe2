"""Chooses the warm components to load ahead of their usual time of day. Source: MLoRA 6.1.1.

The paper names "temporal prefetching using multi-armed bandit algorithms" and gives no algorithm. Ours: the period (a
day) has slots (hours), and an arm is a component in a slot. Its reward is 1 where the component was asked for in the
slot and 0 where it was loaded for nothing; what was neither loaded nor asked for teaches nothing. An arm's index is
that of UCB with forgetting (discounted UCB), so that new habits replace old ones within tens of visits:

    (s + m) / (n + 1)  +  c sqrt(ln(1 + visits) / (n + 1))

s and n are the arm's discounted rewards and observations, m the component's mean over all slots, which stands in until
the slot itself has been observed. It draws nothing: equal histories choose equally.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from planner.components.component import Component, Tier

EXPLORATION: Final = 0.05  # c
MEMORY: Final = 20.0  # observations of an arm that count, about


class _Arm(NamedTuple):
    rewards: float = 0.0
    observations: float = 0.0


class PrefetchBandit:
    """The habits of components by slot of a period. Not thread-safe: one owner; times are arguments in epoch ms."""

    def __init__(self, period_ms: float, slots: int, exploration: float = EXPLORATION, memory: float = MEMORY) -> None:
        if not (period_ms > 0 and slots > 0 and memory >= 1):
            raise ValueError(f"period_ms and slots must be above 0, memory at least 1: {period_ms}, {slots}, {memory}")
        self._period_ms = period_ms
        self._slots = slots
        self._exploration = exploration
        self._keep = 1.0 - 1.0 / memory
        self._arms: dict[str, dict[int, _Arm]] = {}  # component -> slot
        self._visits: Counter[int] = Counter()  # of each slot

    def slot(self, now_ms: float) -> int:
        """Return the slot of the period that a time lies in."""
        return int((now_ms % self._period_ms) * self._slots / self._period_ms)

    def index(self, id_: str, slot: int) -> float:
        """Return the optimistic probability that a component is asked for in a slot; it may exceed 1."""
        arms = self._arms.get(id_, {})
        arm = arms.get(slot, _Arm())
        observations = arm.observations + 1.0
        bonus = math.sqrt(math.log1p(self._visits[slot]) / observations)
        return (arm.rewards + _mean(arms.values())) / observations + self._exploration * bonus

    def choose(
        self, candidates: Iterable[Component], room_bytes: float, now_ms: float, into: Tier = Tier.HOST
    ) -> tuple[str, ...]:
        """Return what to load into a tier for the slot that begins now, in the order of loading time saved per byte."""
        slot = self.slot(now_ms)

        def value(each: Component) -> float:
            return self.index(each.id, slot) * (each.load_from(Tier.REMOTE) - each.load_from(into)) / each.bytes

        chosen = []
        for each in sorted(candidates, key=lambda each: (-value(each), each.id)):
            if each.bytes <= room_bytes and value(each) > 0:
                chosen.append(each.id)
                room_bytes -= each.bytes
        return tuple(chosen)

    def end_slot(self, began_ms: float, prefetched: Collection[str], requested: Collection[str]) -> None:
        """Learn from a slot that is over: what was loaded ahead for it, and what was asked for in it."""
        slot = self.slot(began_ms)
        self._visits[slot] += 1
        for each in {*prefetched, *requested}:
            arm = self._arms.setdefault(each, {}).get(slot, _Arm())
            reward = 1.0 if each in requested else 0.0
            self._arms[each][slot] = _Arm(self._keep * arm.rewards + reward, self._keep * arm.observations + 1.0)

    def snapshot(self) -> dict[str, object]:
        """Return the state as JSON values, for `restore`."""
        arms = {id_: {str(slot): list(arm) for slot, arm in slots.items()} for id_, slots in self._arms.items()}
        return {"arms": arms, "visits": {str(slot): count for slot, count in self._visits.items()}}

    def restore(self, arms: Mapping[str, Mapping[str, tuple[float, float]]], visits: Mapping[str, int]) -> None:
        """Replace the state by the parts of a snapshot."""
        self._arms = {id_: {int(slot): _Arm(*arm) for slot, arm in slots.items()} for id_, slots in arms.items()}
        self._visits = Counter({int(slot): count for slot, count in visits.items()})


def _mean(arms: Iterable[_Arm]) -> float:
    rewards = observations = 0.0
    for arm in arms:
        rewards += arm.rewards
        observations += arm.observations
    return rewards / observations if observations else 0.0
