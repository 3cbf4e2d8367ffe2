"""Quotas: a token bucket per tenant; shares of a crowded backlog are in `tenants.py`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from planner.serving.deadlines import MAX_STEP_BACK_MS, steady_ms

OTHERS: Final = "*"  # stands for all tenants without a quota of their own, together


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of one tenant: rate, burst and weight."""

    rate_rps: float = 0.0  # images a second in the long run; 0: unlimited
    burst: float = 10.0  # images at once after a silence
    weight: float = 1.0  # of its share of the backlog when it is crowded


@dataclass(frozen=True, slots=True)
class Bucket:
    """A tenant's tokens at a moment."""

    tokens: float
    at_ms: float


def take_tokens(bucket: Bucket | None, quota: Quota, cost: float, now_ms: int) -> tuple[Bucket, int | None]:
    """The bucket after `cost` tokens were taken, and None; or as it was, and the ms until there are enough.

    A cost above the burst waits for a full bucket and then overdraws it, so that a large request is served in the end.
    A clock that steps back adds nothing; beyond MAX_STEP_BACK_MS it was put back, and time goes on from there.
    Source: the token bucket of ITU-T I.371.
    """
    if quota.rate_rps <= 0:
        return bucket or Bucket(quota.burst, now_ms), None
    before = bucket or Bucket(quota.burst, now_ms)
    grown = before.tokens + max(0, now_ms - before.at_ms) / 1000 * quota.rate_rps
    filled = Bucket(min(quota.burst, grown), steady_ms(now_ms, before.at_ms, MAX_STEP_BACK_MS))
    needed = min(cost, quota.burst)
    if filled.tokens >= needed:
        return Bucket(filled.tokens - cost, filled.at_ms), None
    return filled, math.ceil((needed - filled.tokens) / quota.rate_rps * 1000)


def others_weight(quotas: Mapping[str, Quota]) -> float:
    """Return the weight of all tenants without a quota of their own: one tenant's, unless OTHERS has another."""
    return quotas[OTHERS].weight if OTHERS in quotas else 1.0


def named(quotas: Mapping[str, Quota]) -> dict[str, Quota]:
    """Return the quotas of single tenants, without OTHERS."""
    return {name: quota for name, quota in quotas.items() if name != OTHERS}
