"""What waits for a variant that no worker serves, in one sentence: for clients and operators."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

Variants = tuple[str, ...]
"""Of which any one will do, in order of preference."""


class Unserved(NamedTuple):
    """Requests that wait for variants, none of which a worker serves."""

    variants: Variants
    requests: int
    oldest_ms: float  # when the first of them came (epoch ms)

    def in_words(self, now_ms: float) -> str:
        """Say it: "12 wait for heavy, which no worker serves; oldest 41 s"."""
        wait = "1 waits" if self.requests == 1 else f"{self.requests} wait"
        age_s = max(0.0, now_ms - self.oldest_ms) / 1000
        return f"{wait} for {' or '.join(self.variants)}, which no worker serves; oldest {age_s:.0f} s"


def unserved(waiting: Iterable[tuple[Variants, float]], serving: Collection[str]) -> tuple[Unserved, ...]:
    """Return what waits in vain, by its variants. `waiting`: what each request needs and when it came; (): any level.

    `serving`: variants that workers serve now, whatever the plan has ordered.
    """
    found: dict[Variants, Unserved] = {}
    for variants, came_ms in waiting:
        if variants and not any(variant in serving for variant in variants):
            _, count, oldest_ms = found.get(variants, (variants, 0, came_ms))
            found[variants] = Unserved(variants, count + 1, min(oldest_ms, came_ms))
    return tuple(found[variants] for variants in sorted(found))
