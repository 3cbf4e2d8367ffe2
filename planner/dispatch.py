"""Which worker of a variant gets the next job."""

from collections.abc import Callable, Sequence

from planner.loads import Load, LoadView, Sent
from schemas.errors import Unknown
from schemas.ids import draw

__all__ = ["KINDS", "Load", "LoadView", "Sent", "choose"]

SALT = "dispatch"


def choose(kind: str, loads: Sequence[Load], request_id: str, sent_before: int, run_ms: float) -> Load | None:
    """The worker for a job, or None: there is none, or (pull) the job waits until one is free.

    `sent_before` counts the sender's jobs to this variant; `run_ms` is what the job will take, the same on all workers
    of a variant for now. Source of least-work: ARGUS 4.4, Eq. 3, with running work counted; peers 0.10 measured it.
    Raises Unknown for a kind that is not in KINDS.
    """
    del run_ms  # adds the same to every worker's finish until workers differ (resident components)
    if kind not in KINDS:
        raise Unknown("dispatch", kind, KINDS)
    return KINDS[kind](loads, request_id, sent_before) if loads else None


def _least_work(loads: Sequence[Load], request_id: str, sent_before: int) -> Load | None:
    del sent_before
    least = min(load.remaining_ms for load in loads)
    return _any_of([load for load in loads if load.remaining_ms == least], request_id)


def _round_robin(loads: Sequence[Load], request_id: str, sent_before: int) -> Load | None:
    del request_id
    return loads[sent_before % len(loads)]


def _random(loads: Sequence[Load], request_id: str, sent_before: int) -> Load | None:
    del sent_before
    return _any_of(loads, request_id)


def _pull(loads: Sequence[Load], request_id: str, sent_before: int) -> Load | None:
    del sent_before
    return _any_of([load for load in loads if load.remaining_ms <= 0], request_id)


def _any_of(loads: Sequence[Load], request_id: str) -> Load | None:
    """One by the request's dice, so that ties spread and a repeated decision comes out the same."""
    return loads[int(draw(request_id, SALT) * len(loads))] if loads else None


KINDS: dict[str, Callable[[Sequence[Load], str, int], Load | None]] = {
    "least-work": _least_work,
    "pull": _pull,
    "random": _random,
    "round-robin": _round_robin,
}
