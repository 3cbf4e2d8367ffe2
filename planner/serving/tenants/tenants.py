"""What each tenant has taken and has open: the state behind `planner/serving/tenants/quotas.py`, of one router."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from planner.catalog.options import TIERS
from planner.serving.backlog import OVERLOADED, QUOTA
from planner.serving.placement import TurnedAway
from planner.serving.tenants.crowd import Crowd, Party
from planner.serving.tenants.fair_shares import Asking
from planner.serving.tenants.quotas import OTHERS, Bucket, Quota, named, others_weight, take_tokens
from planner.serving.tenants.shares import OpenWork
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
    party: Party  # whose share it took
    ms: float
    at_ms: int


class Rights:
    """Buckets, open work and what was asked for, by tenant; changed by `let_in`, `refuse` and `ended` alone.

    A tenant that is configured has its own; of the others the few or busy ones do, and the rest share one place
    (`planner/serving/tenants/crowd.py`). All that are not configured share the quota of OTHERS, where there is one.
    """

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._quotas, self._named, self._crowd = quotas, named(quotas), Crowd()
        self._buckets: dict[str, Bucket] = {}
        self._open = OpenWork({name: quota.weight for name, quota in self._named.items()}, others_weight(quotas))
        self._works: dict[str, _Opened] = {}  # by request
        self._asking: dict[str, Asking] = {}  # by tier

    def refuse(self, work: Work, allowed_ms: float, now_ms: int) -> TurnedAway | None:
        """Why the tenant may not have this now, or None: then its tokens are taken and its work is open.

        A request that is open already changes nothing. `allowed_ms`: the backlog that may wait in all, as in
        `OpenWork.exceeds_share`.
        """
        if self.is_open(work.request_id, now_ms):
            return None
        self.ended(work.request_id)
        party = self._party(work.tenant)
        if self._open.exceeds_share(party, work.ms, allowed_ms):
            told = f"{_who(work.tenant, party)} its share of a crowded backlog: {self._open.of(party) / 1000:.1f} s"
            return TurnedAway(Status.REJECTED, OVERLOADED, told, round(work.ms) + 1)
        payer = work.tenant if work.tenant in self._named else OTHERS
        quota = self._quotas.get(payer, UNLIMITED)
        bucket, retry_after_ms = take_tokens(self._buckets.get(payer), quota, work.pictures, now_ms)
        if retry_after_ms is not None:
            whose = f"tenant {work.tenant!r}" if payer != OTHERS else "all tenants that are not configured together"
            told = f"{whose} may have {quota.rate_rps:g} pictures a second, {quota.burst:g} at once"
            return TurnedAway(Status.REJECTED, QUOTA, told, retry_after_ms)
        if quota.rate_rps > 0:
            self._buckets[payer] = bucket
        self._works[work.request_id] = _Opened(party, work.ms, now_ms)
        self._open.add(party, work.ms)
        return None

    def _party(self, tenant: str) -> Party:
        return tenant if tenant in self._named else self._crowd.party(tenant)

    def let_in(self, admission: Admission | None, tier: str, tenant: str, now_ms: float) -> Admission | None:
        """What a plan lets in, with this tenant's part of the tier's; it has asked for one more."""
        if tenant not in self._named:
            self._crowd.heard(tenant, now_ms)
        if tier not in TIERS:
            return admission
        asking, party = self._asking.setdefault(tier, Asking(self._quotas)), self._party(tenant)
        asking.heard(party, now_ms)
        share = admission.shares.get(tier, 1.0) if admission else 1.0
        if admission is None or share >= 1:
            return admission
        return replace(admission, shares={**admission.shares, tier: asking.part(party, share, now_ms)})

    def is_crowded_out(self, tenant: str, allowed_ms: float) -> bool:
        """Whether the backlog is that of others, so that it is no reason to refuse this one."""
        return self._open.is_crowded_out(self._party(tenant), allowed_ms)

    def is_open(self, request_id: str, now_ms: int) -> bool:
        """Whether the request was let in, of late, and has not ended."""
        opened = self._works.get(request_id)
        return opened is not None and now_ms - opened.at_ms < OPEN_MS

    def ended(self, request_id: str) -> None:
        """The request has a result: its work is open no more."""
        opened = self._works.pop(request_id, None)
        if opened is not None:
            self._open.add(opened.party, -opened.ms)


def _who(tenant: str, party: Party) -> str:
    return f"tenant {tenant!r} has" if party is not None else f"tenant {tenant!r} and others that ask rarely have"
