"""What waits for a variant, and whether no worker serves it, in one sentence: for clients and operators."""

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
        """Return it as `waiting_in_words` does."""
        age_s = max(0.0, now_ms - self.oldest_ms) / 1000
        return waiting_in_words(self.variants, self.requests, age_s, is_served=False)


def waiting_in_words(variants: Variants, requests: int, oldest_s: float | None, *, is_served: bool) -> str:
    """Return what waits, as in "12 wait for heavy, which no worker serves; oldest 41 s".

    `oldest_s`: age of the oldest; None: unknown.
    """
    wait = "1 waits" if requests == 1 else f"{requests} wait"
    by = "" if is_served else ", which no worker serves"
    oldest = "" if oldest_s is None else f"; oldest {oldest_s:.0f} s"
    return f"{wait} for {' or '.join(variants)}{by}{oldest}"


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
