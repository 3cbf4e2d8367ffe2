"""Admission by predicted seconds of backlog: what is let in, on which level, and when to ask again."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

OVERLOADED = "overloaded"
QUOTA = "quota"


class Admitted(NamedTuple):
    """The request goes to this level."""

    level: str


class Refused(NamedTuple):
    """The request is REJECTED for now."""

    code: str  # OVERLOADED | QUOTA
    reason: str
    retry_after_ms: int


def limit_ms(max_backlog_s: float, tier: str, headroom: float) -> float:
    """The wait a tier is admitted up to, ms: interactive requests may use what `headroom` keeps from the others."""
    return 1000 * max_backlog_s * (1.0 if tier == "interactive" else 1.0 - headroom)


def admit(wanted: str, lower: Sequence[str], wait_ms: Mapping[str, float], most_ms: float) -> Admitted | Refused:
    """The wanted level, else the first lower one whose predicted wait is within `most_ms`, else a refusal.

    `wait_ms`: level -> ms until its least loaded worker is free; infinite where nobody serves it: such a level is
    admitted if it is the wanted one and no lower one is served (the request waits for a worker, or for its deadline),
    never fallen back to. `lower` is empty for a request that does not allow a lower level.
    """
    for level in (wanted, *lower):
        if wait_ms[level] <= most_ms:
            return Admitted(level)
    if math.isinf(wait_ms[wanted]):
        return Admitted(wanted)
    seconds = wait_ms[wanted] / 1000
    reason = f"{seconds:.1f} s of work wait before {wanted}; up to {most_ms / 1000:.1f} s are admitted"
    return Refused(OVERLOADED, reason, math.ceil(wait_ms[wanted] - most_ms))
