"""Who may send how much: a token bucket a tenant, and weighted shares of the backlog when it is crowded."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

CROWDED = 0.5  # of the allowed backlog: below it nobody's share matters (work-conserving)


@dataclass(frozen=True, slots=True)
class Quota:
    """What one tenant may do."""

    rate_rps: float = 0.0  # pictures a second in the long run; 0: unlimited
    burst: float = 10.0  # pictures at once after a silence
    weight: float = 1.0  # of its share of the backlog when it is crowded


@dataclass(frozen=True, slots=True)
class Bucket:
    """A tenant's tokens at a moment."""

    tokens: float
    at_ms: int


def take_tokens(bucket: Bucket | None, quota: Quota, cost: float, now_ms: int) -> tuple[Bucket, int | None]:
    """The bucket after `cost` tokens were taken, and None; or as it was, and the ms until there are enough.

    A cost above the burst waits for a full bucket and then overdraws it, so that a large request is served in the end.
    A clock that jumps back adds nothing. Source: the token bucket of ITU-T I.371, as everybody builds it.
    """
    if quota.rate_rps <= 0:
        return bucket or Bucket(quota.burst, now_ms), None
    before = bucket or Bucket(quota.burst, now_ms)
    grown = before.tokens + max(0, now_ms - before.at_ms) / 1000 * quota.rate_rps
    filled = Bucket(min(quota.burst, grown), max(now_ms, before.at_ms))
    needed = min(cost, quota.burst)
    if filled.tokens >= needed:
        return Bucket(filled.tokens - cost, filled.at_ms), None
    return filled, math.ceil((needed - filled.tokens) / quota.rate_rps * 1000)


def exceeds_share(
    tenant: str, cost_ms: float, open_ms: Mapping[str, float], weights: Mapping[str, float], allowed_ms: float
) -> bool:
    """Whether this work would take more than the tenant's weighted share of a crowded backlog.

    `open_ms`: tenant -> predicted ms of its work that has not ended; `allowed_ms`: the backlog allowed in all (the
    limit a worker times the workers). Below CROWDED of it everything is admitted; shares are among the tenants that
    have open work, so that a lone tenant may fill all of it. Weights default to 1.
    """
    if sum(open_ms.values()) + cost_ms <= CROWDED * allowed_ms:
        return False
    return open_ms.get(tenant, 0.0) + cost_ms > _shares(tenant, open_ms, weights)[tenant] * allowed_ms


def is_crowded_out(tenant: str, open_ms: Mapping[str, float], weights: Mapping[str, float], allowed_ms: float) -> bool:
    """Whether others have more open than their shares, and this tenant less than its own: so that what waits is theirs,
    and no reason to refuse it. All together have no more open than twice `allowed_ms` by this. As `exceeds_share`.
    """
    shares = _shares(tenant, open_ms, weights)
    over = {name for name, share in shares.items() if open_ms.get(name, 0.0) > share * allowed_ms}
    return bool(over) and open_ms.get(tenant, 0.0) < shares[tenant] * allowed_ms


def _shares(tenant: str, open_ms: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Of those who have open work, and of this tenant."""
    active = {name: weights.get(name, 1.0) for name in {tenant, *(name for name, ms in open_ms.items() if ms > 0)}}
    total = sum(active.values())
    return {name: weight / total for name, weight in active.items()}
