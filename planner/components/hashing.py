"""Chooses the workers that hold a component, by consistent hashing. Source: MLoRA 6.1.1.

Each pair of component and worker has a hash; a component goes to the workers with the highest (rendezvous hashing). It
keeps the promise of a hash ring exactly, without virtual nodes: a worker that leaves moves the components that it held
and no other, and a worker that joins takes over from others and moves nothing between them.
"""

import hashlib
from collections.abc import Iterable


def preferred(component_id: str, workers: Iterable[str]) -> list[str]:
    """Return all workers in the order in which they should hold a component; O(n log n) in their number."""
    return sorted(workers, key=lambda worker: (-_weight(component_id, worker), worker))


def replicas(component_id: str, workers: Iterable[str], factor: int) -> list[str]:
    """Return the workers that should hold a component: `factor` of them, or all where there are fewer."""
    return preferred(component_id, workers)[: max(0, factor)]


def _weight(component_id: str, worker: str) -> int:
    digest = hashlib.blake2b(f"{component_id}\x00{worker}".encode(), digest_size=8).digest()
    return int.from_bytes(digest)
