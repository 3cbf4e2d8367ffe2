"""What a worker tells of the work in hand: how long it takes yet, and when it hangs."""

HANGING = "hanging"  # the state of a worker whose call hangs: it is there, but takes no new jobs
TIMES, LEAST_MS = 3.0, 2000.0  # of what the work was to take, and beside that: later than both together it hangs


def hangs(in_hand_ms: float, elapsed_ms: float) -> bool:
    """Whether work that was to take `in_hand_ms` is so late that nobody should wait for it."""
    return elapsed_ms > TIMES * in_hand_ms + LEAST_MS


def told_state(state: str, in_hand_ms: float, elapsed_ms: float) -> str:
    """What a worker in this state tells of itself while it has work in hand."""
    return HANGING if hangs(in_hand_ms, elapsed_ms) else state


def left_ms(in_hand_ms: float, elapsed_ms: float) -> float:
    """What it takes yet: what is late may be late by as much again, and is not done; what hangs begins anew."""
    return in_hand_ms if hangs(in_hand_ms, elapsed_ms) else abs(in_hand_ms - elapsed_ms)
