"""Assigns workers to variants: the number of each, and which workers move."""

import math
from collections.abc import Iterable, Mapping, Sequence

from planner.observation.workers import WorkerView


def split(work: Mapping[str, float], n_workers: int) -> dict[str, int]:
    """Workers for each variant in proportion to its work (any unit), by largest remainder; the counts sum to n.

    Every variant with work gets one at least; where that is impossible, those with the most work do.
    """
    counts = dict.fromkeys(work, 0)
    busy = sorted((name for name in work if work[name] > 0), key=lambda name: -work[name])
    if n_workers < len(busy):
        return counts | dict.fromkeys(busy[:n_workers], 1)
    small = _below_one(busy, work, n_workers)
    counts |= dict.fromkeys(small, 1)
    rest = [name for name in busy if name not in small]
    return counts | _largest_remainder(rest, work, n_workers - len(small))


def _below_one(busy: Sequence[str], work: Mapping[str, float], n_workers: int) -> list[str]:
    """The variants whose quota is below one worker: what is rounded up for one lowers the quota of the rest."""
    left, total = n_workers, math.fsum(work[name] for name in busy)
    small: list[str] = []
    for name in reversed(busy):  # least work first
        if left * work[name] >= total:
            break
        small.append(name)
        left, total = left - 1, total - work[name]
    return small


def _largest_remainder(names: Sequence[str], work: Mapping[str, float], n_workers: int) -> dict[str, int]:
    total = math.fsum(work[name] for name in names)
    quotas = {name: n_workers * work[name] / total for name in names}
    counts = {name: int(quota) for name, quota in quotas.items()}
    by_remainder = sorted(names, key=lambda name: counts[name] - quotas[name])
    for name in by_remainder[: n_workers - sum(counts.values())]:
        counts[name] += 1
    return counts


def assign(counts: Mapping[str, int], workers: Iterable[WorkerView]) -> dict[str, str]:
    """worker_id -> variant with as few moves as the counts allow; the same for the same arguments.

    Of too many workers on a variant those with the smallest ids stay. Workers beyond the sum of the counts are not
    named; with fewer workers than that, the variants named first are filled first.
    """
    short, allocation, free = dict(counts), {}, []
    for worker in sorted(workers, key=lambda w: w.worker_id):
        if short.get(worker.home, 0) > 0:
            allocation[worker.worker_id] = worker.home
            short[worker.home] -= 1
        else:
            free.append(worker.worker_id)
    places = [variant for variant, missing in short.items() for _ in range(missing)]
    return allocation | dict(zip(free, places, strict=False))


def busiest(busy: Mapping[str, float], counts: Mapping[str, int]) -> float:
    """Utilisation of the busiest level or variant, from the workers that each would keep busy; above 1: too few.

    One without a worker counts as having one, so that the number stays finite.
    """
    return max(workers / max(1, counts.get(name, 0)) for name, workers in busy.items())
