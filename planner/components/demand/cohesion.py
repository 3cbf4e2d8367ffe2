"""Predicts the components that a user who tries variants requests again. Source: MLoRA 6.3.1.

The paper extends the lifetime of related components "based on the empirical observation that users iteratively explore
creative variants within short time windows", without a rule. Ours learns how often a user's next request within a
window asks for a component of the one before, by kind, and adds that to the probability of reuse while the window is
open.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

from planner.components.component import Kind, kind_of

WINDOW_MS: Final = 600_000.0  # in which a user's next request counts as a variant of the last
MIN_SAMPLES: Final = 20.0  # as if that many requests had no follow-up: nothing is extended before there is evidence
FORGET_OVER: Final = 2000.0  # pairs of requests after which the counts are halved, as habits change


class _Session(NamedTuple):
    ids: frozenset[str]
    at_ms: float


class Cohesion:
    """The components of each user's last request, and how often they come again. Not thread-safe: one owner."""

    def __init__(self, window_ms: float = WINDOW_MS) -> None:
        self._window_ms = window_ms
        self._sessions: OrderedDict[str, _Session] = OrderedDict()  # by user, the oldest first
        self._users: dict[str, dict[str, float]] = {}  # component -> user -> when asked for
        self._asked: Counter[Kind] = Counter()  # components of requests that had their whole window, or a follow-up
        self._again: Counter[Kind] = Counter()  # of those, components that the follow-up asked for

    def on_request(self, user: str, ids: Iterable[str], now_ms: float) -> None:
        """Learn from a user's request; one without a user ("") is ignored."""
        self._expire(now_ms)
        if not user:
            return
        asked = frozenset(ids)
        if (before := self._close(user)) is not None:
            self._learn(before.ids, before.ids & asked)
        self._sessions[user] = _Session(asked, now_ms)
        for each in asked:
            self._users.setdefault(each, {})[user] = now_ms

    def probability(self, id_: str, now_ms: float) -> float:
        """Return the probability that one of the users who asked for a component lately asks for it again.

        Each user's part fades linearly to 0 at the end of the window.
        """
        users = self._users.get(id_)
        if not users:
            return 0.0
        again = self.follow_up(kind_of(id_))
        left = (1.0 - max(0.0, now_ms - at_ms) / self._window_ms for at_ms in users.values())
        return 1.0 - math.prod(1.0 - again * share for share in left if share > 0)

    def follow_up(self, kind: Kind) -> float:
        """Return the share of components of a kind that a user's next request within the window asks for again."""
        return self._again[kind] / (self._asked[kind] + MIN_SAMPLES)

    def _expire(self, now_ms: float) -> None:
        while self._sessions:
            user, session = next(iter(self._sessions.items()))
            if now_ms - session.at_ms < self._window_ms:
                return
            self._close(user)
            self._learn(session.ids, frozenset())

    def _close(self, user: str) -> _Session | None:
        session = self._sessions.pop(user, None)
        for each in session.ids if session else ():
            self._users[each].pop(user, None)
            if not self._users[each]:
                del self._users[each]
        return session

    def _learn(self, asked: Iterable[str], again: Iterable[str]) -> None:
        self._asked.update(map(kind_of, asked))
        self._again.update(map(kind_of, again))
        for kind in [kind for kind, count in self._asked.items() if count > FORGET_OVER]:
            self._asked[kind] //= 2
            self._again[kind] //= 2
