"""Classes of components: hot, warm, cold. Source: MLoRA 6.1.1: the top 5 %, the next to 30 %, the other 70 %.

Ranks are taken within a kind, as a hundred adapters would otherwise push every base out of the hot ones.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from planner.components.component import Kind, kind_of

HOT_SHARE: Final = 0.05
WARM_SHARE: Final = 0.30
MIN_REPLICAS: Final = 3  # of a hot component (MLoRA 6.1.1: a replication factor of 3 to 5)
MAX_REPLICAS: Final = 5


class Popularity(StrEnum):
    """The class of a component's demand among those of its kind."""

    HOT = "hot"  # held for good on several workers
    WARM = "warm"  # loaded ahead of the time at which it is expected
    COLD = "cold"  # held while there is room


def classes(requests: Mapping[str, float]) -> dict[str, Popularity]:
    """Return the class of each component by id, from decayed counts of requests (or rates) by id.

    Of the components of a kind with any request the first 5 % are hot and those up to 30 % warm, both rounded up; the
    rest is cold. Of equal counts the first id ranks first.
    """
    by_kind: defaultdict[Kind, list[str]] = defaultdict(list)
    for each, count in requests.items():
        if count > 0:
            by_kind[kind_of(each)].append(each)
    found = dict.fromkeys(requests, Popularity.COLD)
    for ids in by_kind.values():
        ids.sort(key=lambda each: (-requests[each], each))
        hot, warm = math.ceil(HOT_SHARE * len(ids)), math.ceil(WARM_SHARE * len(ids))
        found |= dict.fromkeys(ids[:warm], Popularity.WARM) | dict.fromkeys(ids[:hot], Popularity.HOT)
    return found


def replication_factor(busy_workers: float) -> int:
    """Return how many workers hold a hot component whose requests keep `busy_workers` workers busy on average.

    It is one more than they need, so that one may leave, within 3 and 5. We choose within the paper's range by load,
    for which it gives no rule.
    """
    return min(MAX_REPLICAS, max(MIN_REPLICAS, math.ceil(busy_workers) + 1))
