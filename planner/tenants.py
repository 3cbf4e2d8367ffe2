"""What each tenant has taken and has open: the state behind `planner/quotas.py`, of one router."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from planner.backlog import QUOTA
from planner.placement import TurnedAway
from planner.quotas import Bucket, Quota, exceeds_share, take_tokens
from schemas.messages import Status

UNLIMITED = Quota()


class Work(NamedTuple):
    """What a request would have painted for its tenant."""

    request_id: str
    tenant: str
    pictures: int
    ms: float  # predicted


class Rights:
    """Buckets and open work by tenant; changed by `refuse` and `ended` alone."""

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._quotas = quotas
        self._weights = {name: quota.weight for name, quota in quotas.items()}
        self._buckets: dict[str, Bucket] = {}
        self._open_ms: defaultdict[str, float] = defaultdict(float)  # tenant -> of its work that has not ended
        self._works: dict[str, Work] = {}  # by request

    def refuse(self, work: Work, allowed_ms: float, now_ms: int) -> TurnedAway | None:
        """Why the tenant may not have this now, or None: then its tokens are taken and its work is open.

        `allowed_ms`: the backlog that may wait in all, as in `exceeds_share`.
        """
        tenant, quota = work.tenant, self._quotas.get(work.tenant, UNLIMITED)
        self.ended(work.request_id)  # a record read again is open once
        if exceeds_share(tenant, work.ms, self._open_ms, self._weights, allowed_ms):
            told = f"tenant {tenant!r} has its share of a crowded backlog: {self._open_ms.get(tenant, 0) / 1000:.1f} s"
            return TurnedAway(Status.REJECTED, QUOTA, told, round(work.ms) + 1)
        bucket, retry_after_ms = take_tokens(self._buckets.get(tenant), quota, work.pictures, now_ms)
        if retry_after_ms is not None:
            told = f"tenant {tenant!r} may have {quota.rate_rps:g} pictures a second, {quota.burst:g} at once"
            return TurnedAway(Status.REJECTED, QUOTA, told, retry_after_ms)
        if quota.rate_rps > 0:
            self._buckets[tenant] = bucket
        self._works[work.request_id] = work
        self._open_ms[tenant] += work.ms
        return None

    def ended(self, request_id: str) -> None:
        """The request has a result: its work is open no more."""
        work = self._works.pop(request_id, None)
        if work is not None:
            self._open_ms[work.tenant] -= work.ms
            if self._open_ms[work.tenant] <= 0.5:  # what rounding leaves
                del self._open_ms[work.tenant]
