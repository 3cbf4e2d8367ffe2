"""The components of a job that a worker lacks, by its last heartbeat and the jobs sent since."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from planner.catalog.components import Selection
from planner.catalog.model import Catalog
from planner.components.component import Component, Tier
from planner.components.demand.combinations import combination, parts_of
from planner.components.from_catalog import components_of, requested
from planner.components.holdings import LOCAL, Holdings

MAX_PENDING: Final = 256  # jobs remembered per worker; of a longer queue, the newest
MAX_NEEDS: Final = 10_000  # of combinations that are remembered: tenants choose them
_ME: Final = ""  # of one worker's holdings, whose name does not matter


class Need(NamedTuple):
    """The components that a job needs on the device, of its variant's."""

    ids: tuple[str, ...]  # base, adapters, controls; those whose size is known
    fused: str  # the base with the adapters fused in, which stands for both where it is held; "": none
    components: Mapping[str, Component]  # all of the variant


class Needs:
    """The needs of jobs by variant and selection, each worked out once. Not thread-safe: one owner."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[tuple[str, Selection], Need] = {}

    def of(self, variant: str, selection: Selection) -> Need:
        """Return what a job needs that a variant generates so; the selection names a base."""
        key = variant, selection
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MAX_NEEDS:
                self._known.clear()
            found = self._known[key] = self._need(variant, selection)
        return found

    def _need(self, variant: str, selection: Selection) -> Need:
        components, request = components_of(self._catalog, variant), requested(selection)
        ids = tuple(id_ for id_ in request.ids if id_ in components)
        return Need(ids, combination(request.base, request.adapters) or "", components)


class ExpectedHoldings:
    """The components that one worker is expected to hold. Not thread-safe: one owner; the sender's times.

    Components of a sent job count as held on the device until its predicted end, for the jobs behind it. Then
    heartbeats say what is held, and what was evicted meanwhile.
    """

    __slots__ = ("_held", "_pending", "_view", "is_reported")

    def __init__(self) -> None:
        self.is_reported = False  # by a heartbeat; else nothing is known of what it holds
        self._held: Mapping[str, Iterable[str]] = {}  # of the last heartbeat
        self._view = Holdings()
        self._pending: deque[tuple[float, tuple[str, ...]]] = deque(maxlen=MAX_PENDING)  # when done, ms; components

    def update(self, held: Mapping[str, Iterable[str]], seen_ms: float) -> None:
        """Take over a heartbeat's holdings by tier; tiers of another release are left out."""
        is_news, self.is_reported = held is not self._held, True
        while self._pending and self._pending[0][0] <= seen_ms:
            self._pending.popleft()
            is_news = True
        if is_news:
            self._held = held
            tiers = {tier: frozenset(held[tier.label]) for tier in LOCAL if tier.label in held}
            pending = [id_ for _, ids in self._pending for id_ in ids]
            self._view = Holdings({_ME: tiers}).with_pending(_ME, pending)

    def on_sent(self, need: Need, done_ms: float) -> None:
        """A job was sent to it that should be done by then."""
        self._pending.append((done_ms, need.ids))
        self._view = self._view.with_pending(_ME, need.ids)

    def lacking_ms(self, need: Need) -> float:
        """Return the time in ms to load, once its queue is done, what the worker then lacks of a need."""
        ids = need.ids
        if need.fused and self._view.tier_of(_ME, need.fused) is Tier.DEVICE:
            parts = set(parts_of(need.fused))
            ids = tuple(id_ for id_ in ids if id_ not in parts)
        return self._view.missing_ms(_ME, ids, need.components)
