"""The pool of started, unassigned workers: its size, and which variant gets which. Source: OctoAI, "Warm pooling".

The pool is shared by all variants and tenants: "this allows us to amortize the cost of the warm pool while still
providing burst allocations in the vast majority of cases". The post gives no size. Ours is what scale-ups took at once,
within the time that a fresh start needs, in all but a small share of past moments.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

COVERED_SHARE: Final = 0.95  # of past scale-ups that the pool is to serve whole


class Assignment(NamedTuple):
    """The workers that a scale-up gets."""

    from_pool: tuple[tuple[str, str], ...]  # (variant, worker)
    fresh: Mapping[str, int]  # workers that must be started from nothing, by variant; only those that need any

    @property
    def started(self) -> int:
        """Number of workers that are started from nothing."""
        return sum(self.fresh.values())


def pool_size(
    scale_ups: Iterable[tuple[float, int]],
    start_ms: float,
    minimum: int,
    maximum: int,
    covered: float = COVERED_SHARE,
) -> int:
    """Return how many workers to hold ready, within [minimum, maximum].

    `scale_ups`: when (epoch ms) how many workers were added, of all variants; the pool is refilled within `start_ms`,
    so that what was added within that time had to be served at once. A share of `covered` of those demands fits.
    Raises ValueError for a share outside (0, 1] or limits in the wrong order.
    """
    if not (0 < covered <= 1 and 0 <= minimum <= maximum):
        raise ValueError(f"need covered in (0, 1] and 0 <= minimum <= maximum: got {covered}, {minimum}, {maximum}")
    times = sorted(scale_ups)
    demands: list[int] = []
    first = total = 0
    for at_ms, count in times:
        total += count
        while times[first][0] <= at_ms - start_ms:
            total -= times[first][1]
            first += 1
        demands.append(total)
    demands.sort()
    needed = demands[math.ceil(covered * len(demands)) - 1] if demands else 0
    return min(maximum, max(minimum, needed))


def assign(
    wanted: Mapping[str, int], pool: Sequence[str], cost_ms: Callable[[str, str], float], most_fresh: int
) -> Assignment:
    """Share the pool among the variants that want more workers; the rest is started, `most_fresh` at most.

    `cost_ms(variant, worker)`: until the worker serves the variant, which is the time to load what it lacks. Variants
    take turns, so that one burst does not empty the pool before another's first worker, the one that wants most first;
    each takes the worker that serves it soonest. Equal arguments give an equal assignment.
    """
    left = {variant: count for variant, count in wanted.items() if count > 0}
    free = sorted(set(pool))
    taken: list[tuple[str, str]] = []
    while left and free:
        for variant in sorted(left, key=lambda variant: (-left[variant], variant)):
            if not free:
                break
            worker = min(free, key=lambda worker: (cost_ms(variant, worker), worker))
            free.remove(worker)
            taken.append((variant, worker))
            left[variant] -= 1
        left = {variant: count for variant, count in left.items() if count > 0}
    fresh: dict[str, int] = dict.fromkeys(left, 0)
    for _ in range(min(most_fresh, sum(left.values()))):
        variant = max(left, key=lambda each: (left[each] - fresh[each], [-ord(c) for c in each]))
        fresh[variant] += 1
    return Assignment(tuple(taken), {variant: count for variant, count in fresh.items() if count})
