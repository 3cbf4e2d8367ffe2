"""Orphans of a run, deleted by the rule of `pochade gc`."""

import math

from streams.clock import now_ms
from streams.operator.gc import choose, needed
from streams.settings import Settings
from streams.store.open import open_store


def collect(settings: Settings) -> int:
    """Delete the images that nothing names, however young, as no role runs any more; how many are left of them."""
    store = open_store(settings)
    there = needed(settings)

    def orphans() -> list[str]:
        stored, now = list(store.list(now_ms() + 1)), now_ms() + 1
        return [each.uri for each in choose(stored, now, math.inf, there.uris, there.results_kept_ms, 0).orphans]

    for uri in orphans():
        store.delete(uri)
    return len(orphans())
