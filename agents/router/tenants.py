"""The tenants' rights (`planner/serving/tenants.py`) of one router process, for its two threads."""

import threading
from collections.abc import Mapping
from dataclasses import replace

from planner.serving.placement import TurnedAway
from planner.serving.quotas import Quota
from planner.serving.tenants import Rights, Work
from schemas.messages import GenerateRequest, Plan


class Tenants:
    """Thread-safe: the router asks and opens, a follower of `results` closes. Several routers each keep their own."""

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._rights, self._lock = Rights(quotas), threading.Lock()

    def refuse(self, request: GenerateRequest, work_ms: float, allowed_ms: float, now_ms: int) -> TurnedAway | None:
        """Why the tenant may not have this now, or None: then its tokens are taken and its work is open."""
        work = Work(request.request_id, request.tenant, request.options.n, work_ms)
        with self._lock:
            return self._rights.refuse(work, allowed_ms, now_ms)

    def let_in(self, plan: Plan, request: GenerateRequest, now_ms: int) -> Plan:
        """The plan, with the tenant's part of what it lets in of the tier; it has asked for one more."""
        with self._lock:
            admission = self._rights.let_in(plan.admission, request.tier, request.tenant, now_ms)
        return plan if admission is plan.admission else replace(plan, admission=admission)

    def is_crowded_out(self, tenant: str, allowed_ms: float) -> bool:
        """Whether the backlog is that of others, so that it is no reason to refuse this one."""
        with self._lock:
            return self._rights.is_crowded_out(tenant, allowed_ms)

    def is_open(self, request_id: str, now_ms: int) -> bool:
        """Whether the request was let in, of late, and has not ended."""
        with self._lock:
            return self._rights.is_open(request_id, now_ms)

    def ended(self, request_id: str) -> None:
        """The request has a result: its work is open no more."""
        with self._lock:
            self._rights.ended(request_id)
