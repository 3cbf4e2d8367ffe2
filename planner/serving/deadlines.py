"""When a deadline is over, when the ledger acts on it, whether work would be done by it; clocks that are put back."""

MAX_STEP_BACK_MS = 60_000  # by which a clock may jump back and be waited for; beyond it time begins anew


def has_passed(deadline_ms: float | None, now_ms: float) -> bool:
    """Whether a deadline is over; work on its request is not begun any more."""
    return deadline_ms is not None and deadline_ms <= now_ms


def is_overdue(deadline_ms: float | None, now_ms: float, grace_ms: float) -> bool:
    """Whether the ledger itself ends a request that is open after its deadline plus a grace."""
    return deadline_ms is not None and now_ms > deadline_ms + grace_ms


def predicted_finish_ms(now_ms: float, wait_ms: float, run_ms: float) -> float:
    """Return when a job that is sent now has its images (epoch ms); infinity if `wait_ms` is (no worker serves it)."""
    return now_ms + wait_ms + run_ms


def can_meet(deadline_ms: float | None, finish_ms: float) -> bool:
    """Whether the finish is in time; without a deadline any finish is."""
    return deadline_ms is None or finish_ms <= deadline_ms


def steady_ms(now_ms: float, before_ms: float, most_ms: float) -> float:
    """The time to reckon with, when it was `before_ms` the last time: it stands still while a clock makes up for a
    jump back of at most `most_ms`. After a longer one time begins anew, and what lies in its future is not counted."""
    return before_ms if 0 < before_ms - now_ms <= most_ms else now_ms
