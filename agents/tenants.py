"""What each tenant has taken and has open: the state behind `planner/quotas.py`, of one router process."""

import threading
from collections import Counter
from collections.abc import Mapping

from planner.backlog import QUOTA
from planner.placement import TurnedAway
from planner.quotas import Bucket, Quota, exceeds_share, take_tokens
from schemas.messages import GenerateRequest, Status

UNLIMITED = Quota()


class Tenants:
    """Thread-safe: the router asks and opens, a follower of `results` closes. Several routers each keep their own."""

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._quotas = quotas
        self._weights = {name: quota.weight for name, quota in quotas.items()}
        self._lock = threading.Lock()
        self._buckets: dict[str, Bucket] = {}
        self._open_ms: Counter[str] = Counter()  # tenant -> predicted ms of its work that has not ended
        self._works: dict[str, tuple[str, float]] = {}  # request -> (tenant, ms)

    def refuse(self, request: GenerateRequest, work_ms: float, allowed_ms: float, now_ms: int) -> TurnedAway | None:
        """Why the tenant may not have this now, or None: then its tokens are taken and its work is open."""
        tenant = request.tenant
        quota = self._quotas.get(tenant, UNLIMITED)
        with self._lock:
            self._close(request.request_id)  # a record read again is open once
            if exceeds_share(tenant, work_ms, self._open_ms, self._weights, allowed_ms):
                told = f"tenant {tenant!r} has its share of a crowded backlog: {self._open_ms[tenant] / 1000:.1f} s"
                return TurnedAway(Status.REJECTED, QUOTA, told, round(work_ms) + 1)
            bucket, retry_after_ms = take_tokens(self._buckets.get(tenant), quota, request.options.n, now_ms)
            if retry_after_ms is not None:
                told = f"tenant {tenant!r} may have {quota.rate_rps:g} pictures a second, {quota.burst:g} at once"
                return TurnedAway(Status.REJECTED, QUOTA, told, retry_after_ms)
            if quota.rate_rps > 0:
                self._buckets[tenant] = bucket
            self._open(request.request_id, tenant, work_ms)
            return None

    def _open(self, request_id: str, tenant: str, work_ms: float) -> None:
        self._works[request_id] = (tenant, work_ms)
        self._open_ms[tenant] += work_ms  # type: ignore[assignment]  # typeshed counts in integers only

    def ended(self, request_id: str) -> None:
        """The request has a result: its work is open no more."""
        with self._lock:
            self._close(request_id)

    def _close(self, request_id: str) -> None:
        tenant, work_ms = self._works.pop(request_id, ("", 0.0))
        if tenant:
            self._open_ms[tenant] -= work_ms  # type: ignore[assignment]
            if self._open_ms[tenant] <= 0.5:
                del self._open_ms[tenant]
