"""The rights of tenants in one router process, which has two threads."""

import threading
from collections.abc import Mapping

from planner.serving.admission.quotas import Quota
from planner.serving.admission.tenants import Rights
from planner.serving.decisions import Rejection
from planner.serving.requests import Work
from schemas.messages import Admission
from streams.settings import Settings


class Tenants:
    """`planner.serving.admission.tenants.Rights` behind a lock: the router asks and opens, one on `results` closes.

    Thread-safe. Several router processes each have their own.
    """

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._rights = Rights(quotas)
        self._lock = threading.Lock()

    def refuse(self, work: Work, allowed_ms: float, now_ms: int) -> Rejection | None:
        """Why the tenant may not have this work now; None: it is open, and its tokens are taken."""
        with self._lock:
            return self._rights.refuse(work, allowed_ms, now_ms)

    def admission_of(self, admission: Admission | None, tier: str, tenant: str, now_ms: float) -> Admission | None:
        """Return the share of the tenant's requests that the plan admits; the tenant has sent one more."""
        with self._lock:
            return self._rights.admission_of(admission, tier, tenant, now_ms)

    def is_crowded_out(self, tenant: str, allowed_ms: float) -> bool:
        """Whether the backlog is that of other tenants."""
        with self._lock:
            return self._rights.is_crowded_out(tenant, allowed_ms)

    def is_open(self, request_id: str, now_ms: int) -> bool:
        """Whether the request was admitted recently and has not ended."""
        with self._lock:
            return self._rights.is_open(request_id, now_ms)

    def ended(self, request_id: str) -> None:
        """The request has a result: its work is open no more."""
        with self._lock:
            self._rights.ended(request_id)


def rights_of(settings: Settings) -> Tenants:
    """Return the rights of the tenants that the settings name, and of all others."""
    return Tenants({name: Quota(**limits.model_dump()) for name, limits in settings.tenants.items()})
