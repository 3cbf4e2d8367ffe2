"""How fast requests arrive, from the times they came at."""

from collections.abc import Sequence


def counts_per_second(arrivals_ms: Sequence[int], now_ms: int, seconds: int) -> tuple[int, ...]:
    """Arrivals in each of the last `seconds`, the oldest first; the last one ends with now. Later ones do not count."""
    counts = [0] * seconds
    for at_ms in arrivals_ms:
        ago_ms = now_ms - at_ms
        if 0 <= ago_ms < 1000 * seconds:
            counts[seconds - 1 - ago_ms // 1000] += 1
    return tuple(counts)


def steady_ms(now_ms: int, before_ms: int, most_ms: int) -> int:
    """The time to reckon with, when it was `before_ms` the last time: it stands still while a clock makes up for a
    jump back of at most `most_ms`. After a longer one time begins anew, and what lies in its future is not counted."""
    return before_ms if 0 < before_ms - now_ms <= most_ms else now_ms
