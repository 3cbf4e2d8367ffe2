"""Limits of growth: at most doubled, within a tenant's maximum and the fleet's.

Source: OctoAI, "Automatic scaling": "we limit the size of in-flight scale-up operations to be equal to the number of
current replicas", "a max number defined by the customer". Taken literally none would ever be added to none: one may.
"""

import math
from collections.abc import Mapping


def cap_at_doubling(wanted: int, ready: int) -> int:
    """Return `wanted`, or as many as may be started at once beside `ready` workers: 0 -> 1 -> 2 -> 4 -> 8.

    `ready` counts workers that serve; those that are starting are the scale-up in flight, and count for nothing.
    """
    return min(wanted, ready + max(1, ready))


def within_tenant_maxima(
    in_flight: Mapping[str, Mapping[str, float]], maxima: Mapping[str, int], per_worker: float
) -> dict[str, float]:
    """Return the number in flight by variant that workers may be added for, from those by tenant and variant.

    A tenant's requests count at most as what its maximum of workers serves, `per_worker` each; its variants share
    that by what is in flight. A tenant that is not in `maxima` has none. Raises ValueError for a negative maximum.
    """
    counted: dict[str, float] = {}
    for tenant, by_variant in in_flight.items():
        total = sum(by_variant.values())
        most = maxima.get(tenant, math.inf)
        if most < 0:
            raise ValueError(f"maximum of tenant {tenant} must be at least 0 workers: got {most}")
        share = min(1.0, most * per_worker / total) if total > 0 else 0.0
        for variant, each in by_variant.items():
            counted[variant] = counted.get(variant, 0.0) + share * each
    return counted


def within_total(wanted: Mapping[str, int], maximum: int) -> dict[str, int]:
    """Return the workers by variant, together at most `maximum`, each at most as wanted.

    Where they are too few, each variant that wants any gets one, those that want most first, and the rest is shared in
    proportion to what is wanted beyond it, by largest remainder; of equals the first name comes first.
    """
    total = sum(wanted.values())
    if total <= maximum:
        return dict(wanted)
    order = sorted(wanted, key=lambda variant: (-wanted[variant], variant))
    given = {variant: int(wanted[variant] > 0 and rank < maximum) for rank, variant in enumerate(order)}
    room = max(0, maximum) - sum(given.values())
    beyond = {variant: wanted[variant] - given[variant] for variant in wanted}
    if room <= 0:
        return {variant: given[variant] for variant in wanted}
    exact = {variant: room * beyond[variant] / sum(beyond.values()) for variant in wanted}
    parts = {variant: math.floor(exact[variant]) for variant in wanted}
    left = room - sum(parts.values())
    for variant in sorted(wanted, key=lambda v: (parts[v] - exact[v], v))[:left]:
        parts[variant] += 1
    return {variant: given[variant] + parts[variant] for variant in wanted}


def donor_of(workers: Mapping[str, int]) -> str | None:
    """Return the variant that gives a worker to one without any: that with the most workers, if it keeps one.

    Of equals the first name; None if none can.
    """
    most = max(sorted(workers), key=lambda variant: workers[variant], default=None)
    return most if most is not None and workers[most] > 1 else None
