"""An upper bound of the hits on devices that a fleet can have if it knows all requests beforehand.

    maximise    sum of x over the gaps between two uses of a component; x: the share of it that is held meanwhile
    such that   at each request, bytes of what it needs + bytes held for later ones <= bytes of all devices together,
                and large components needed + large ones held for later <= devices;    0 <= x <= 1

This is Belady's MIN for components of unlike sizes, held in fractions (Berger, Beckmann, Harchol-Balter, "Practical
Bounds on Optimal Caching with Variable Object Sizes", SIGMETRICS 2018). All devices are one pool; of components larger
than half a device, each holds one. No component needs a second copy because its holder is busy.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_array, coo_array, eye_array

from planner.components.component import Component


class _Gap(NamedTuple):
    """From a use of a component to the next one, by the numbers of their requests."""

    id: str
    first: int
    last: int


def max_hit_rate(
    requests: Sequence[Sequence[str]], components: Mapping[str, Component], devices: int, device_bytes: int
) -> float:
    """Return the largest share [0, 1] of requested components that are found on a device; 0 where none is requested.

    No way to place, dispatch or evict has more, if it begins requests in this order and loads a component only when a
    request needs it. Raises KeyError for a component that is not known, ValueError for a request larger than all
    devices together.
    """
    gaps = _gaps(requests)
    if not gaps:
        return 0.0
    ids = {id_ for needed in requests for id_ in needed}
    bytes_ = {id_: components[id_].bytes / device_bytes for id_ in ids}
    large = {id_: float(size > 0.5) for id_, size in bytes_.items()}
    free = [_free(requests, weights, devices) for weights in (bytes_, large)]
    if min(room.min() for room in free) < 0:
        raise ValueError(
            f"a request needs more than {devices} devices of {device_bytes} bytes hold: no worker can serve it"
        )
    n, before = len(requests), eye_array(len(requests)) - eye_array(len(requests), k=-1)
    found = linprog(
        np.concatenate([-np.ones(len(gaps)), np.zeros(2 * n)]),
        A_eq=block_array(
            [[_changes(gaps, bytes_, n), before, None], [_changes(gaps, large, n), None, before]], format="csr"
        ),
        b_eq=np.zeros(2 * n),
        bounds=[*((0.0, 1.0) for _ in gaps), *((0.0, room) for each in free for room in each.tolist())],
        method="highs",
    )
    return float(-found.fun / sum(len(needed) for needed in requests))


def _gaps(requests: Sequence[Sequence[str]]) -> list[_Gap]:
    last: dict[str, int] = {}
    gaps: list[_Gap] = []
    for number, needed in enumerate(requests):
        gaps += [_Gap(id_, last[id_], number) for id_ in needed if id_ in last]
        last |= dict.fromkeys(needed, number)
    return gaps


def _free(requests: Sequence[Sequence[str]], weights: Mapping[str, float], devices: int) -> np.ndarray:
    """[n] what a request leaves of all devices, in devices."""
    return np.array([devices - sum(weights[id_] for id_ in needed) for needed in requests])


def _changes(gaps: Sequence[_Gap], weights: Mapping[str, float], n: int) -> coo_array:
    """[n, gaps] by how much less is held for later at a request than at the one before, of each gap that is held."""
    own = np.array([weights[gap.id] for gap in gaps])
    rows = np.array([(gap.first + 1, gap.last) for gap in gaps])  # from the request after its first use to its last
    columns = np.arange(len(gaps))
    return coo_array(
        (np.concatenate([-own, own]), (rows.T.ravel(), np.concatenate([columns, columns]))), shape=(n, len(gaps))
    )
