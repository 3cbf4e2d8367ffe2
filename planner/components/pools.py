"""Sizes of the pinned memory pools that weights are read into, and which pool a tensor gets. Source: MLoRA 6.2.2.

    Eq. 7    M_alloc = {(s_i, f_i)}: sizes and how often each is asked for
    Eq. 8    weighted k-means of the sizes, k = 5, weights f_i; one pool per cluster
    Eq. 9    the pool with the least size - s_req among those at least s_req large

A pool is as large as the largest size of its cluster: one at the centroid would leave the larger half without a place.
Clusters are of log sizes, as a MB matters to an adapter and not to a base. In one dimension the best clusters are found
exactly (k segments of the sorted sizes), so that there is no seed.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

POOLS: Final = 5  # k of Eq. 8
MAX_SIZES: Final = 128  # distinct sizes that are clustered; of more, neighbours are merged first


def pool_sizes(allocations: Mapping[int, float], pools: int = POOLS) -> tuple[int, ...]:
    """Return the sizes of the pools in bytes, rising, for frequencies by size in bytes; at most `pools`, at least 1.

    Without allocations there is no pool. O(pools x n^2) for n distinct sizes, n at most 128. Raises ValueError for a
    size or a frequency that is not positive.
    """
    for size, frequency in allocations.items():
        if not (size > 0 and frequency > 0):
            raise ValueError(f"sizes and frequencies must be above 0: got {size} bytes, {frequency} times")
    sizes, weights = _merged(allocations)
    if not sizes:
        return ()
    return tuple(sizes[end - 1] for end in _segment_ends(sizes, weights, min(max(1, pools), len(sizes))))


def best_pool(pools: Iterable[int], size: int) -> int | None:
    """Return the size in bytes of the smallest pool for `size` bytes (Eq. 9); None if none fits: do not pin."""
    return min((pool for pool in pools if pool >= size), default=None)


def _merged(allocations: Mapping[int, float]) -> tuple[list[int], list[float]]:
    """The sizes, rising, with their frequencies: neighbours of equal rank share the largest of them."""
    ranked = sorted(allocations)
    step = math.ceil(len(ranked) / MAX_SIZES) or 1
    groups = [ranked[at : at + step] for at in range(0, len(ranked), step)]
    return [group[-1] for group in groups], [sum(allocations[size] for size in group) for group in groups]


def _segment_ends(sizes: list[int], weights: list[float], clusters: int) -> list[int]:
    """Return the ends (exclusive) of the best clusters of rising sizes: least weighted squared distance of log sizes.

    best[j] is the least cost of the first j sizes in the clusters so far, and cut[c][j] where the last of c begins.
    """
    n = len(sizes)
    logs = [math.log(size) for size in sizes]
    w, wx, wxx = [0.0], [0.0], [0.0]  # prefix sums
    for log, weight in zip(logs, weights, strict=True):
        w.append(w[-1] + weight)
        wx.append(wx[-1] + weight * log)
        wxx.append(wxx[-1] + weight * log * log)

    def cost(first: int, end: int) -> float:
        weight, mean = w[end] - w[first], (wx[end] - wx[first])
        return max(0.0, wxx[end] - wxx[first] - mean * mean / weight)

    best = [0.0, *(cost(0, end) for end in range(1, n + 1))]
    cuts = [[0] * (n + 1)]
    for count in range(2, clusters + 1):
        cut = [0] * (n + 1)
        fresh = [math.inf] * (n + 1)
        for end in range(count, n + 1):
            fresh[end], cut[end] = min((best[first] + cost(first, end), first) for first in range(count - 1, end))
        best = fresh
        cuts.append(cut)
    ends = [n]
    for cut in reversed(cuts[1:]):
        ends.append(cut[ends[-1]])
    return ends[::-1]
