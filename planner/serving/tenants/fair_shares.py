"""Of what a plan lets in of a tier, each tenant's part: who asks for little has it whole, the others share the rest.

Max-min fairness: a plan's share of a tier is reckoned over all of its requests, so that one tenant that floods would
otherwise have the same part of everybody's turned away. Source: Bertsekas and Gallager, Data Networks, 6.5.2.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from planner.serving.tenants.crowd import Party
from planner.serving.tenants.quotas import OTHERS, Quota, named, others_weight

WINDOW_MS = 10_000.0  # requests count whole for as long, and less and less for as long again
AGAIN_MS, MORE = 100, 0.05  # how old a level may be; by how many requests more


class Need(NamedTuple):
    """What one tenant asks for, and its weight; amounts in any unit."""

    amount: float
    weight: float


def level(needs: Iterable[Need], amount: float) -> float:
    """What each gets for its weight, at most, so that all together get `amount`; infinite where that is enough."""
    left, waiting = amount, sorted(needs, key=lambda need: need.amount / need.weight)
    weight = math.fsum(need.weight for need in waiting)
    for need in waiting:
        if need.amount / need.weight * weight > left:
            return left / weight
        left, weight = left - need.amount, weight - need.weight
    return math.inf


class Asking:
    """How many requests of one tier each party has sent of late, and the part of them to let in."""

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._quotas, self._named, self._others = quotas, named(quotas), others_weight(quotas)
        self._now, self._before, self._since_ms = Counter[Party](), Counter[Party](), 0.0
        self._level: float | None = None  # for a weight of the configured; None: nobody to share with
        self._crowd_level = math.inf  # for each of the others
        self._found_for, self._found_ms, self._good_for = -1.0, 0.0, 0.0  # the last: for so many requests more

    def heard(self, party: Party, now_ms: float) -> None:
        """It sent one more. A clock that jumps back begins a new window."""
        if not 0 <= now_ms - self._since_ms < WINDOW_MS:
            is_next = 0 <= now_ms - self._since_ms < 2 * WINDOW_MS
            self._before, self._now, self._since_ms = self._now if is_next else Counter(), Counter(), now_ms
        self._now[party] += 1
        self._good_for -= 1

    def part(self, party: Party, share: float, now_ms: float) -> float:
        """Of this party's requests, [0, 1], where `share` of all of the tier are let in; it was heard just now."""
        if share != self._found_for or self._good_for < 0 or not 0 <= now_ms - self._found_ms < AGAIN_MS:
            self._find(share, now_ms)
        if self._level is None:
            return share
        own = self._level * self._named[party].weight if party in self._named else self._crowd_level
        return min(1.0, own / self._asked(party, now_ms))

    def _find(self, share: float, now_ms: float) -> None:
        asked = {party: self._asked(party, now_ms) for party in self._now | self._before}
        total = math.fsum(asked.values())
        self._found_for, self._found_ms, self._good_for = share, now_ms, MORE * total
        self._level = None
        if len(asked) > 1:
            crowd = [Need(count, 1.0) for party, count in asked.items() if party not in self._named]
            needs = [self._need(party, asked[party]) for party in self._named.keys() & asked.keys()]
            together = self._bounded(OTHERS, math.fsum(need.amount for need in crowd), self._others)
            self._level = level([*needs, together] if crowd else needs, share * total)
            self._crowd_level = level(crowd, min(together.amount, self._level * self._others))

    def _asked(self, party: Party, now_ms: float) -> float:
        """Requests in a window that ends now."""
        return self._now[party] + (1 - (now_ms - self._since_ms) / WINDOW_MS) * self._before[party]

    def _need(self, tenant: str, count: float) -> Need:
        return self._bounded(tenant, count, self._named[tenant].weight)

    def _bounded(self, name: str, count: float, weight: float) -> Need:
        """No more than its quota would let it have."""
        rate_rps = self._quotas[name].rate_rps if name in self._quotas else 0.0
        return Need(min(count, rate_rps * WINDOW_MS / 1000) if rate_rps > 0 else count, weight)
