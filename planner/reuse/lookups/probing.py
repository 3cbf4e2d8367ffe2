"""When a worker probes the stores in the background: behind an open breaker, and while no job has a lookup.

Source: ARGUS 4.6, which "constantly also runs test retrieval requests in the background" while it serves smaller
models. Without these a store that was slow, but never failed, would not be noticed to be quick again. A plan of the
strategy `models`, a worker whose level asks for no reuse and an hour without jobs are one case: no job had a lookup.
"""

from typing import Final

from planner.reuse.lookups.breaker import Breaker

POLL_MS: Final = 500.0  # between two looks at whether a probe is due


def probe_due(breaker: Breaker, asked_ms: float, now_ms: float) -> bool:
    """Whether a background probe is due. `asked_ms`: when the stores last answered a lookup or a probe, or did not."""
    if breaker.is_open:
        return breaker.wants_probe(now_ms)
    return not 0.0 <= now_ms - asked_ms < breaker.rule.probe_ms
