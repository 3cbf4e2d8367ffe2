"""Work that has not ended, by whose it is, and each one's weighted share of a crowded backlog.

Tenants that are configured share by their weights; all others together are as one tenant beside them, and share that
part evenly. So a configured tenant's share depends on the configured ones alone: however many names others send under,
they take no more of it than one tenant does. Sums are kept, not made: a question costs the same among 10 and 20,000.
"""

import heapq
from collections.abc import Mapping
from typing import Final

from planner.serving.tenants.crowd import Party

CROWDED = 0.5  # of the allowed backlog: below it nobody's share matters (work-conserving)
NOTHING_MS = 0.5  # what rounding leaves
STALE = 64  # entries of the heap beyond four a party before it is made anew


class Group:
    """Parties that share by weight, those of them with open work."""

    def __init__(self) -> None:
        self.open_ms: dict[Party, float] = {}
        self.ms = self.weight = 0.0  # sums
        self._weights: dict[Party, float] = {}
        self._heap: list[tuple[float, int, Party]] = []  # (-ms a weight, tie-breaker, party), outdated ones among them
        self._pushed = 0

    def add(self, party: Party, weight: float, ms: float) -> None:
        """More of a party's work is open, or, below 0, less."""
        before = self.open_ms.get(party, 0.0)
        if before + ms <= NOTHING_MS:
            self._forget(party)
            return
        if party not in self._weights:
            self._weights[party] = weight
            self.weight += weight
        self.open_ms[party] = before + ms
        self.ms += ms
        self._push(party)
        if len(self._heap) > 4 * len(self.open_ms) + STALE:
            self._heap.clear()
            for each in self.open_ms:
                self._push(each)

    def _forget(self, party: Party) -> None:
        self.ms -= self.open_ms.pop(party, 0.0)
        self.weight -= self._weights.pop(party, 0.0)
        if not self._weights:  # what rounding has left over
            self.ms = self.weight = 0.0
            self._heap.clear()

    def _push(self, party: Party) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (self._rank(party), self._pushed, party))

    def _rank(self, party: Party) -> float:
        return -self.open_ms[party] / self._weights[party]

    def largest(self) -> float:
        """The most open work for its weight that one of them has."""
        while self._heap and not self._is_current(*self._heap[0]):
            heapq.heappop(self._heap)
        return -self._heap[0][0] if self._heap else 0.0

    def _is_current(self, rank: float, _number: int, party: Party) -> bool:
        return party in self.open_ms and self._rank(party) == rank

    def weight_with(self, party: Party, weight: float) -> float:
        """Of all that have open work, and of this one."""
        return self.weight + (0.0 if party in self._weights else weight)


EVEN: Final = 1.0  # the weight of each of those that are not configured, among themselves


class OpenWork:
    """Open work of the configured (`weights`) and of the others, who together weigh `others`."""

    def __init__(self, weights: Mapping[str, float], others: float = 1.0) -> None:
        self._weights: dict[Party, float] = dict(weights.items())
        self._others = others
        self._named, self._crowd = Group(), Group()

    def add(self, party: Party, ms: float) -> None:
        """More of a party's work is open, or, below 0, less."""
        if party in self._weights:
            self._named.add(party, self._weights[party], ms)
        else:
            self._crowd.add(party, EVEN, ms)

    def of(self, party: Party) -> float:
        """What this one has open."""
        return (self._named if party in self._weights else self._crowd).open_ms.get(party, 0.0)

    def by_party(self) -> dict[Party, float]:
        """Everybody's."""
        return {**self._named.open_ms, **self._crowd.open_ms}

    def exceeds_share(self, party: Party, cost_ms: float, allowed_ms: float) -> bool:
        """Whether this work would take more than the party's share of a crowded backlog.

        `allowed_ms`: the backlog allowed in all (the limit a worker times the workers). Below CROWDED of it everything
        is admitted; shares are among those that have open work, so that a lone one may fill all of it.
        """
        if self._named.ms + self._crowd.ms + cost_ms <= CROWDED * allowed_ms:
            return False
        return self.of(party) + cost_ms > self._share(party) * allowed_ms

    def is_crowded_out(self, party: Party, allowed_ms: float) -> bool:
        """Whether others have more open than their shares, and this one less than its own: so that what waits is
        theirs, and no reason to refuse it. All have no more open than twice `allowed_ms` by this."""
        if self.of(party) >= self._share(party) * allowed_ms:
            return False
        a_weight_ms = allowed_ms / self._weight(party)
        if self._named.largest() > a_weight_ms:
            return True
        crowd_ms = self._others * a_weight_ms
        if party in self._weights:
            return self._crowd.ms > crowd_ms
        return self._crowd.largest() > crowd_ms / self._crowd.weight_with(party, EVEN)

    def _share(self, party: Party) -> float:
        if party in self._weights:
            return self._weights[party] / self._weight(party)
        return self._others / self._weight(party) / self._crowd.weight_with(party, EVEN)

    def _weight(self, party: Party) -> float:
        """Of all with open work, the others together as one, and of this one."""
        if party in self._weights:
            crowd = self._others if self._crowd.open_ms else 0.0
            return self._named.weight_with(party, self._weights[party]) + crowd
        return self._named.weight + self._others
