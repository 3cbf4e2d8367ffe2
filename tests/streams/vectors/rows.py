"""Rows for tests, and waiting until a store shows what was written to it."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from streams.vectors.port import Latent, Match, Source, VectorRow, VectorStore, Wanted
from tests.patience import PATIENCE_S

DIMENSION = 8
CALL_S = 30.0  # deadline of a call that is not about deadlines
NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
WANTED = Wanted(tenant="alice", model="model-1", width=64, height=64, now_ms=NOW_MS)
EAST = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
NORTH = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
NORTH_EAST = (0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def a_row(**changes: Any) -> VectorRow:
    usual = VectorRow(
        id="row-1",
        vector=EAST,
        tenant=WANTED.tenant,
        model=WANTED.model,
        width=WANTED.width,
        height=WANTED.height,
        created_ms=NOW_MS - HOUR_MS,
        expires_ms=NOW_MS + HOUR_MS,
        latent=Latent(uri="file:///images/ab/latent.npy", sha256="ab" * 32, bytes=512),
        source=Source(
            request_id="r-1", image_uri="file:///images/cd/image.png", prompt="two red hearts", facts="heart:2:red"
        ),
    )
    return replace(usual, **changes)


def matches(store: VectorStore, wanted: Wanted = WANTED, vector: tuple[float, ...] = EAST) -> list[Match]:
    return list(store.nearest(vector, wanted, 10, CALL_S).matches)


def ids(store: VectorStore, wanted: Wanted = WANTED, vector: tuple[float, ...] = EAST) -> list[str]:
    return [match.row.id for match in matches(store, wanted, vector)]


def poll_until(holds: Callable[[], bool], what: str) -> None:
    """Ask until it holds: a store shows soon, and not at once, what was written to it."""
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def written(store: VectorStore, *rows: VectorRow, wanted: Wanted = WANTED) -> None:
    """Write rows, and wait until they are found."""
    store.upsert(rows, CALL_S)
    expected = sorted({row.id for row in rows})
    poll_until(lambda: sorted(set(ids(store, wanted)) & set(expected)) == expected, f"{expected} are found")
