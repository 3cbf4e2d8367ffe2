"""Tenants that are not configured: which of them count as one tenant, and which share one place.

A tenant is what the record says, and anybody may send under a new name each time. A few names are each a party. Of
many, those are that ask often: as many of the busiest as ask at least that many times. So k parties take k names with
k requests each, and who changes his name with every request is one party with all others who ask as rarely.
"""

from collections import Counter

Party = str | None  # a tenant's name, or None: the place that the rest share

WINDOW_MS = 10_000.0  # requests count for as long, and for as long again
FEW = 16  # names that are each a party, however rarely they ask
MOST_PARTIES = 64
MOST_NAMES = 4096  # remembered of a window; of more, the busiest
AGAIN_MS = 100.0  # how old the answer to "how often is often" may be


class Crowd:
    """How often each name has asked of late. A clock that jumps back begins anew."""

    def __init__(self) -> None:
        self._now, self._before = Counter[str](), Counter[str]()
        self._since_ms = self._found_ms = 0.0
        self._names = 0
        self._often = 1  # requests from which a name is a party, where names are many

    def heard(self, tenant: str, now_ms: float) -> None:
        """It sent one more."""
        if not 0 <= now_ms - self._since_ms < WINDOW_MS:
            is_next = 0 <= now_ms - self._since_ms < 2 * WINDOW_MS
            self._before, self._now, self._since_ms = self._now if is_next else Counter(), Counter(), now_ms
            self._find(now_ms)
        self._names += tenant not in self._now and tenant not in self._before
        self._now[tenant] += 1
        if len(self._now) > MOST_NAMES:
            self._now = Counter(dict(self._now.most_common(MOST_NAMES // 2)))
        if self._names > FEW and not 0 <= now_ms - self._found_ms < AGAIN_MS:
            self._find(now_ms)

    def party(self, tenant: str) -> Party:
        """Whose share its requests count for."""
        return tenant if self._names <= FEW or self._asked(tenant) >= self._often else None

    def _asked(self, tenant: str) -> int:
        return self._now[tenant] + self._before[tenant]

    def _find(self, now_ms: float) -> None:
        """The least number of requests that no more names than that have sent, and no more than MOST_PARTIES."""
        self._found_ms = now_ms
        self._names = len(self._now.keys() | self._before.keys())
        asked = sorted((self._asked(name) for name in self._now.keys() | self._before.keys()), reverse=True)
        self._often = 1
        for number, times in enumerate(asked[: MOST_PARTIES + 1]):
            # the next name would be one party more than it has requests, or than there may be
            if number == MOST_PARTIES or times <= number:
                self._often = times + 1
                return
