"""What each tenant has taken and has open: the state behind `planner/quotas.py`, of one router."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from planner.backlog import OVERLOADED, QUOTA
from planner.fair_shares import Asking
from planner.options import TIERS
from planner.placement import TurnedAway
from planner.quotas import Bucket, Quota, exceeds_share, is_crowded_out, take_tokens
from schemas.messages import Admission, Status

UNLIMITED = Quota()
OPEN_MS = 3_600_000  # one let in longer ago may have lost its job, as to a topic's retention: it is let in anew


class Work(NamedTuple):
    """What a request would have painted for its tenant."""

    request_id: str
    tenant: str
    pictures: int
    ms: float  # predicted


class _Opened(NamedTuple):
    work: Work
    at_ms: int


class Rights:
    """Buckets, open work and what was asked for, by tenant; changed by `let_in`, `refuse` and `ended` alone."""

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._quotas = quotas
        self._weights = {name: quota.weight for name, quota in quotas.items()}
        self._buckets: dict[str, Bucket] = {}
        self._open_ms: defaultdict[str, float] = defaultdict(float)  # tenant -> of its work that has not ended
        self._works: dict[str, _Opened] = {}  # by request
        self._asking: dict[str, Asking] = {}  # by tier

    def refuse(self, work: Work, allowed_ms: float, now_ms: int) -> TurnedAway | None:
        """Why the tenant may not have this now, or None: then its tokens are taken and its work is open.

        A request that is open already changes nothing. `allowed_ms`: the backlog that may wait in all, as in
        `exceeds_share`.
        """
        tenant, quota = work.tenant, self._quotas.get(work.tenant, UNLIMITED)
        if self.is_open(work.request_id, now_ms):
            return None
        self.ended(work.request_id)
        if exceeds_share(tenant, work.ms, self._open_ms, self._weights, allowed_ms):
            told = f"tenant {tenant!r} has its share of a crowded backlog: {self._open_ms.get(tenant, 0) / 1000:.1f} s"
            return TurnedAway(Status.REJECTED, OVERLOADED, told, round(work.ms) + 1)
        bucket, retry_after_ms = take_tokens(self._buckets.get(tenant), quota, work.pictures, now_ms)
        if retry_after_ms is not None:
            told = f"tenant {tenant!r} may have {quota.rate_rps:g} pictures a second, {quota.burst:g} at once"
            return TurnedAway(Status.REJECTED, QUOTA, told, retry_after_ms)
        if quota.rate_rps > 0:
            self._buckets[tenant] = bucket
        self._works[work.request_id] = _Opened(work, now_ms)
        self._open_ms[tenant] += work.ms
        return None

    def let_in(self, admission: Admission | None, tier: str, tenant: str, now_ms: float) -> Admission | None:
        """What a plan lets in, with this tenant's part of the tier's; it has asked for one more."""
        if tier not in TIERS:
            return admission
        asking = self._asking.setdefault(tier, Asking(self._quotas))
        asking.heard(tenant, now_ms)
        share = admission.shares.get(tier, 1.0) if admission else 1.0
        if admission is None or share >= 1:
            return admission
        return replace(admission, shares={**admission.shares, tier: asking.part(tenant, share, now_ms)})

    def is_crowded_out(self, tenant: str, allowed_ms: float) -> bool:
        """Whether the backlog is that of others, so that it is no reason to refuse this one."""
        return is_crowded_out(tenant, self._open_ms, self._weights, allowed_ms)

    def is_open(self, request_id: str, now_ms: int) -> bool:
        """Whether the request was let in, of late, and has not ended."""
        opened = self._works.get(request_id)
        return opened is not None and now_ms - opened.at_ms < OPEN_MS

    def ended(self, request_id: str) -> None:
        """The request has a result: its work is open no more."""
        opened = self._works.pop(request_id, None)
        if opened is not None:
            work = opened.work
            self._open_ms[work.tenant] -= work.ms
            if self._open_ms[work.tenant] <= 0.5:  # what rounding leaves
                del self._open_ms[work.tenant]
