"""How skewed the components are that a trace asks for: what MLoRA reports of its own (sections 3.1, 3.2 and 5.3)."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from replay.traces.trace import Trace

RARE = 5  # a combination that comes fewer times is rare (MLoRA 5.3)
POPULAR_SHARE = 0.8  # share of the uses that the popular adapters serve (MLoRA 3.2)


class Skew(NamedTuple):
    """Shares of 1; 0 where nothing is asked for."""

    gini: float  # Gini coefficient of the bases' requests
    first: float  # of the requests with a base, those to the most popular one
    first_five: float
    popular_adapters: float  # of the adapters, the most popular ones that together serve POPULAR_SHARE of their uses
    without_adapters: float  # of the requests
    most_adapters: int  # in one request
    rare: float  # of the combinations, those that came fewer than RARE times
    combinations: int


def skew_of(trace: Trace) -> Skew:
    """Return the skew of what the requests of a trace ask for."""
    bases, adapters, combinations = Counter[str](), Counter[str](), Counter[tuple[object, ...]]()
    without = most = 0
    for row, count in enumerate(np.bincount(trace.wish, minlength=len(trace.wishes)).tolist()):
        options = trace.wishes[row].options
        if not count:
            continue
        bases[options.model] += count
        for name in options.adapters:
            adapters[name] += count
        combinations[options.model, tuple(sorted(options.adapters)), options.controls] += count
        without += count * (not options.adapters)
        most = max(most, len(options.adapters))
    del bases[""]
    counts, asked = sorted(bases.values(), reverse=True), max(1, bases.total())
    return Skew(
        gini=gini(counts),
        first=sum(counts[:1]) / asked,
        first_five=sum(counts[:5]) / asked,
        popular_adapters=_popular(sorted(adapters.values(), reverse=True)),
        without_adapters=without / max(1, len(trace)),
        most_adapters=most,
        rare=sum(count < RARE for count in combinations.values()) / max(1, len(combinations)),
        combinations=len(combinations),
    )


def gini(counts: Iterable[float]) -> float:
    """Return the Gini coefficient: 0 where all are equal, near 1 where one has all."""
    values = np.sort(np.asarray(list(counts), dtype=np.float64))
    if not values.sum():
        return 0.0
    ranks = np.arange(1, len(values) + 1)
    return float(2 * (ranks * values).sum() / (len(values) * values.sum()) - (len(values) + 1) / len(values))


def _popular(counts: list[int]) -> float:
    if not counts:
        return 0.0
    served = np.cumsum(counts) / sum(counts)
    return float(np.searchsorted(served, POPULAR_SHARE) + 1) / len(counts)
