"""The rights of tenants: what each has used and has open, and its share where not all can be served.

`Rights` is the state of all of it in one router. It asks `quotas.py` who may send how much, `Crowd` who counts as one
tenant, `OpenWork` for the shares of a crowded backlog, and `Asking` for the shares of what a plan lets in.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from planner.serving.admission.quotas import OTHERS, Bucket, Quota, named, others_weight, take_tokens
from planner.serving.decisions import OVERLOADED, QUOTA, Rejection
from planner.serving.requests import OPEN_MS, Work
from schemas.messages import TIERS, Admission, Status

UNLIMITED = Quota()
Party = str | None  # a tenant's name, or None: the place that the rest share

CROWD_WINDOW_MS = 10_000.0  # requests count for as long, and for as long again
MAX_SEPARATE = 16  # names that are each a party, however rarely they ask
MAX_PARTIES = 64
MAX_NAMES = 4096  # remembered of a window; of more, the busiest
CROWD_MAX_AGE_MS = 100.0  # how old the answer to "how often is often" may be
CROWDED = 0.5  # of the allowed backlog; below it shares do not matter (work-conserving)
NOTHING_MS = 0.5  # what rounding leaves
STALE = 64  # entries of the heap beyond four a party before it is made anew
WINDOW_MS = 10_000.0  # requests count whole for as long, and less and less for as long again
MAX_AGE_MS, MORE = 100, 0.05  # how old a level may be; by how many requests more


class _Opened(NamedTuple):
    party: Party  # whose share it took
    ms: float
    at_ms: int


class Rights:
    """Buckets, open work and what was asked for, by tenant; changed by `admission_of`, `refuse` and `ended` alone.

    A tenant that is configured has its own; of the others the few or busy ones do, and the rest share one place
    (`Crowd`). All that are not configured share the quota of OTHERS, where there is one.
    """

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._quotas = quotas
        self._named = named(quotas)
        self._crowd = Crowd()
        self._buckets: dict[str, Bucket] = {}
        self._open = OpenWork({name: quota.weight for name, quota in self._named.items()}, others_weight(quotas))
        self._works: dict[str, _Opened] = {}  # by request
        self._asking: dict[str, Asking] = {}  # by tier

    def refuse(self, work: Work, allowed_ms: float, now_ms: int) -> Rejection | None:
        """Return why the tenant may not have this now, or None: then its tokens are taken and its work is open.

        A request that is open already changes nothing. `allowed_ms`: the backlog that may wait in all, as in
        `OpenWork.exceeds_share`.
        """
        if self.is_open(work.request_id, now_ms):
            return None
        self.ended(work.request_id)
        party = self._party(work.tenant)
        if self._open.exceeds_share(party, work.ms, allowed_ms):
            reason = f"{_who(work.tenant, party)} its share of a crowded backlog: {self._open.of(party) / 1000:.1f} s"
            return Rejection(Status.REJECTED, OVERLOADED, reason, round(work.ms) + 1)
        payer = work.tenant if work.tenant in self._named else OTHERS
        quota = self._quotas.get(payer, UNLIMITED)
        bucket, retry_after_ms = take_tokens(self._buckets.get(payer), quota, work.images, now_ms)
        if retry_after_ms is not None:
            whose = f"tenant {work.tenant!r}" if payer != OTHERS else "all tenants that are not configured together"
            reason = f"{whose} may have {quota.rate_rps:g} images a second, {quota.burst:g} at once"
            return Rejection(Status.REJECTED, QUOTA, reason, retry_after_ms)
        if quota.rate_rps > 0:
            self._buckets[payer] = bucket
        self._works[work.request_id] = _Opened(party, work.ms, now_ms)
        self._open.add(party, work.ms)
        return None

    def _party(self, tenant: str) -> Party:
        return tenant if tenant in self._named else self._crowd.party(tenant)

    def admission_of(self, admission: Admission | None, tier: str, tenant: str, now_ms: float) -> Admission | None:
        """Return the plan's admission with this tenant's part of its tier; the tenant has sent one more request."""
        if tenant not in self._named:
            self._crowd.count(tenant, now_ms)
        if tier not in TIERS:
            return admission
        asking, party = self._asking.setdefault(tier, Asking(self._quotas)), self._party(tenant)
        asking.count(party, now_ms)
        share = admission.shares.get(tier, 1.0) if admission else 1.0
        if admission is None or share >= 1:
            return admission
        return replace(admission, shares={**admission.shares, tier: asking.part(party, share, now_ms)})

    def is_crowded_out(self, tenant: str, allowed_ms: float) -> bool:
        """Whether the backlog is that of others, so that it is no reason to refuse this one."""
        return self._open.is_crowded_out(self._party(tenant), allowed_ms)

    def is_open(self, request_id: str, now_ms: int) -> bool:
        """Whether the request was admitted within OPEN_MS and has not ended."""
        opened = self._works.get(request_id)
        return opened is not None and now_ms - opened.at_ms < OPEN_MS

    def ended(self, request_id: str) -> None:
        """Close the work of a request that has a result."""
        opened = self._works.pop(request_id, None)
        if opened is not None:
            self._open.add(opened.party, -opened.ms)


def _who(tenant: str, party: Party) -> str:
    return f"tenant {tenant!r} has" if party is not None else f"tenant {tenant!r} and others that ask rarely have"


class Crowd:
    """Counts the recent requests of each name, and decides which unconfigured tenants count as one tenant.

    A tenant is what the record says, and a client may send under a new name each time. A few names are each a party. Of
    many, the k busiest with at least k requests each are; all others are one party. So k parties need k names with k
    requests each, and a client with a new name for every request shares one party with all rare ones. A clock that
    jumps back begins anew.
    """

    def __init__(self) -> None:
        self._now = Counter[str]()
        self._before = Counter[str]()
        self._since_ms = 0.0
        self._found_ms = 0.0
        self._names = 0
        self._often = 1  # requests from which a name is a party, where names are many

    def count(self, tenant: str, now_ms: float) -> None:
        """Count one more request of a tenant."""
        if not 0 <= now_ms - self._since_ms < CROWD_WINDOW_MS:
            is_next = 0 <= now_ms - self._since_ms < 2 * CROWD_WINDOW_MS
            self._before, self._now, self._since_ms = self._now if is_next else Counter(), Counter(), now_ms
            self._find(now_ms)
        self._names += tenant not in self._now and tenant not in self._before
        self._now[tenant] += 1
        if len(self._now) > MAX_NAMES:
            self._now = Counter(dict(self._now.most_common(MAX_NAMES // 2)))
        if self._names > MAX_SEPARATE and not 0 <= now_ms - self._found_ms < CROWD_MAX_AGE_MS:
            self._find(now_ms)

    def party(self, tenant: str) -> Party:
        """Return the party whose share the tenant's requests count for."""
        return tenant if self._names <= MAX_SEPARATE or self._asked(tenant) >= self._often else None

    def _asked(self, tenant: str) -> int:
        return self._now[tenant] + self._before[tenant]

    def _find(self, now_ms: float) -> None:
        """Find the least number of requests that at most this many names, and at most MAX_PARTIES, have sent."""
        self._found_ms = now_ms
        self._names = len(self._now.keys() | self._before.keys())
        asked = sorted((self._asked(name) for name in self._now.keys() | self._before.keys()), reverse=True)
        self._often = 1
        for number, times in enumerate(asked[: MAX_PARTIES + 1]):
            # the next name would be one party more than it has requests, or than there may be
            if number == MAX_PARTIES or times <= number:
                self._often = times + 1
                return


class Group:
    """The parties with open work, which share by weight."""

    def __init__(self) -> None:
        self.open_ms: dict[Party, float] = {}
        self.ms = 0.0  # sum
        self.weight = 0.0  # sum
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
        """Return the most open work in ms, divided by weight, of any party."""
        while self._heap and not self._is_current(*self._heap[0]):
            heapq.heappop(self._heap)
        return -self._heap[0][0] if self._heap else 0.0

    def _is_current(self, rank: float, _number: int, party: Party) -> bool:
        return party in self.open_ms and self._rank(party) == rank

    def weight_with(self, party: Party, weight: float) -> float:
        """Return the sum of the weights of all parties with open work, and of this one."""
        return self.weight + (0.0 if party in self._weights else weight)


EVEN: Final = 1.0  # the weight of each of those that are not configured, among themselves


class OpenWork:
    """The open work of each party, and its weighted share of a crowded backlog.

    Tenants that are configured share by their `weights`; all others together are as one tenant beside them, who weighs
    `others`, and share that part evenly. So a configured tenant's share depends on the configured ones alone: however
    many names others send under, they take no more of it than one tenant does. Sums are kept, not made: a question
    costs the same among 10 and 20,000.
    """

    def __init__(self, weights: Mapping[str, float], others: float = 1.0) -> None:
        self._weights: dict[Party, float] = dict(weights.items())
        self._others = others
        self._named = Group()
        self._crowd = Group()

    def add(self, party: Party, ms: float) -> None:
        """More of a party's work is open, or, below 0, less."""
        if party in self._weights:
            self._named.add(party, self._weights[party], ms)
        else:
            self._crowd.add(party, EVEN, ms)

    def of(self, party: Party) -> float:
        """Return the open work of a party, in ms."""
        return (self._named if party in self._weights else self._crowd).open_ms.get(party, 0.0)

    def by_party(self) -> dict[Party, float]:
        """Return the open work of all parties, in ms."""
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
        """Return the sum of the weights of all with open work, the others together as one, and of this one."""
        if party in self._weights:
            crowd = self._others if self._crowd.open_ms else 0.0
            return self._named.weight_with(party, self._weights[party]) + crowd
        return self._named.weight + self._others


class Need(NamedTuple):
    """The demand of one tenant and its weight; amounts in any unit."""

    amount: float
    weight: float


def level(needs: Iterable[Need], amount: float) -> float:
    """Return the most that a weight of 1 gets, so that all together get `amount`; infinite where that is enough."""
    left, waiting = amount, sorted(needs, key=lambda need: need.amount / need.weight)
    weight = math.fsum(need.weight for need in waiting)
    for need in waiting:
        if need.amount / need.weight * weight > left:
            return left / weight
        left, weight = left - need.amount, weight - need.weight
    return math.inf


class Asking:
    """Counts the recent requests of one tier by party, and computes the part of them to admit.

    Of a tier's admitted requests, parties with few get all of theirs, and the others share the rest: max-min fairness.
    A plan's share of a tier is computed over all of its requests, so that one tenant that floods would otherwise have
    the same part of all tenants' requests rejected. Source: Bertsekas and Gallager, Data Networks, 6.5.2.
    """

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._quotas = quotas
        self._named = named(quotas)
        self._others = others_weight(quotas)
        self._now = Counter[Party]()
        self._before = Counter[Party]()
        self._since_ms = 0.0
        self._level: float | None = None  # for a weight of the configured; None without other parties
        self._crowd_level = math.inf  # for each of the others
        self._found_for = -1.0
        self._found_ms = 0.0
        self._good_for = 0.0  # max number of further requests until it is computed anew

    def count(self, party: Party, now_ms: float) -> None:
        """Count one more request of a party. A clock that jumps back begins a new window."""
        if not 0 <= now_ms - self._since_ms < WINDOW_MS:
            is_next = 0 <= now_ms - self._since_ms < 2 * WINDOW_MS
            self._before, self._now, self._since_ms = self._now if is_next else Counter(), Counter(), now_ms
        self._now[party] += 1
        self._good_for -= 1

    def part(self, party: Party, share: float, now_ms: float) -> float:
        """Share in [0, 1] of this party's requests that is admitted where `share` of the tier is; the last counts."""
        if share != self._found_for or self._good_for < 0 or not 0 <= now_ms - self._found_ms < MAX_AGE_MS:
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
        """Return the demand of a party, bounded by its quota."""
        rate_rps = self._quotas[name].rate_rps if name in self._quotas else 0.0
        return Need(min(count, rate_rps * WINDOW_MS / 1000) if rate_rps > 0 else count, weight)
