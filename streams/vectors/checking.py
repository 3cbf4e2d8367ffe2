"""The one judge of what vector stores return: filters of a store are for speed, and what is used is checked here.

A store may be stale, may lie, or may be written by others: nothing that it returned is taken on trust, its similarity
neither, which is computed again from the vector.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from streams import metrics
from streams.vectors.port import (
    Dropped,
    Latent,
    Match,
    Nearest,
    Probed,
    Selection,
    UnusableRow,
    VectorRow,
    VectorStore,
    Wanted,
    why_no_vector,
)


def checked(found: Nearest, vector: Sequence[float], wanted: Wanted, limit: int) -> Nearest:
    """Keep the rows that are wanted, each id once, with their true similarity; count the others by reason."""
    dropped = Counter(found.dropped)
    rows: dict[str, VectorRow] = {}
    for match in found.matches:
        reason = why_dropped(match.row, vector, wanted)
        if reason is None:
            rows.setdefault(match.row.id, match.row)
        else:
            dropped[reason] += 1
    matches = [Match(row, _cosine(row.vector, vector)) for row in rows.values()]
    matches.sort(key=lambda match: -match.similarity)
    return Nearest(tuple(matches[:limit]), dropped)


def why_dropped(row: VectorRow, vector: Sequence[float], wanted: Wanted) -> Dropped | None:
    """Return why a row must not be reused; None if it may. Ordered by the damage that reuse would do."""
    if row.tenant != wanted.tenant:
        return Dropped.TENANT
    if row.model != wanted.model:
        return Dropped.MODEL
    if (row.width, row.height) != (wanted.width, wanted.height):
        return Dropped.SIZE
    if row.expires_ms <= wanted.now_ms:
        return Dropped.EXPIRED
    return Dropped.DIMENSION if len(row.vector) != len(vector) else None


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return float(np.clip(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), -1.0, 1.0))


class CheckedVectorStore:
    """`VectorStore` whose answers have passed `checked`; what is dropped is counted in a metric, by reason."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store

    def ensure(self, dimension: int, timeout_s: float) -> None:
        self._store.ensure(dimension, timeout_s)

    def upsert(self, rows: Sequence[VectorRow], timeout_s: float) -> None:
        self._store.upsert(rows, timeout_s)

    def nearest(self, vector: Sequence[float], wanted: Wanted, limit: int, timeout_s: float) -> Nearest:
        assert limit >= 1, f"at least one row is asked for, not {limit}"
        if reason := why_no_vector(vector):
            raise UnusableRow(f"nothing is near to this: {reason}")
        found = checked(self._store.nearest(vector, wanted, limit, timeout_s), vector, wanted, limit)
        for reason, count in found.dropped.items():
            metrics.VECTORS_DROPPED.labels(reason).inc(count)
        return found

    def latents(self, ids: Sequence[str], timeout_s: float) -> dict[str, Latent]:
        wanted = frozenset(ids)
        return {name: latent for name, latent in self._store.latents(ids, timeout_s).items() if name in wanted}

    def delete(self, selection: Selection, timeout_s: float) -> None:
        self._store.delete(selection, timeout_s)

    def probe(self, timeout_s: float) -> Probed:
        return self._store.probe(timeout_s)

    def close(self) -> None:
        self._store.close()
