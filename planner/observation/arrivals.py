"""How fast requests arrive, from the times they came at."""

from collections.abc import Sequence

import numpy as np


def counts_per_second(arrivals_ms: Sequence[int], now_ms: int, seconds: int) -> tuple[int, ...]:
    """Arrivals in each of the last `seconds`, the oldest first; the last one ends with now. Later ones do not count."""
    ago_ms = now_ms - np.asarray(arrivals_ms, dtype=np.int64)
    ago_s = ago_ms[(ago_ms >= 0) & (ago_ms < 1000 * seconds)] // 1000
    return tuple(np.bincount(seconds - 1 - ago_s, minlength=seconds).tolist())


def steady_ms(now_ms: int, before_ms: int, most_ms: int) -> int:
    """The time to reckon with, when it was `before_ms` the last time: it stands still while a clock makes up for a
    jump back of at most `most_ms`. After a longer one time begins anew, and what lies in its future is not counted."""
    return before_ms if 0 < before_ms - now_ms <= most_ms else now_ms
