"""Which worker of a variant gets the next job."""

from collections.abc import Callable, Sequence

from planner.serving.worker import ahead_ms
from planner.serving.worker_loads import Load, LoadView, Sent
from schemas.errors import Unknown
from schemas.ids import draw

__all__ = ["KINDS", "Load", "LoadView", "Sent", "choose", "pick"]

SALT = "dispatch"


def choose(
    kind: str, loads: Sequence[Load], request_id: str, sent_before: int, run_ms: float, batch: int = 1
) -> Load | None:
    """The worker for a job, or None: there is none, or (pull) the job waits until one can take it.

    `sent_before` counts the sender's jobs to this variant; `run_ms` is what the job will take, the same on all workers
    of a variant for now, `batch` how many of them share a call. Source of least-work: ARGUS 4.4, Eq. 3, with running
    work counted; peers 0.10 measured it. Raises Unknown for a kind that is not in KINDS.
    """
    at = pick(kind, [load.remaining_ms for load in loads], 0.0, request_id, sent_before, ahead_ms(run_ms, batch))
    return None if at is None else loads[at]


def pick(
    kind: str, free_at_ms: Sequence[float], now_ms: float, request_id: str, sent_before: int, most_ahead_ms: float = 0.0
) -> int | None:
    """The same of the times at which the workers are free, on the clock of `now_ms`: which of them, by its place.

    `most_ahead_ms`: work that may wait before a worker whose jobs are pulled, `planner.serving.worker.ahead_ms`.
    """
    if kind not in KINDS:
        raise Unknown("dispatch", kind, KINDS)
    return KINDS[kind](free_at_ms, now_ms, request_id, sent_before, most_ahead_ms) if free_at_ms else None


def _least_work(
    free_at_ms: Sequence[float], now_ms: float, request_id: str, sent_before: int, most_ahead_ms: float
) -> int | None:
    del sent_before, most_ahead_ms
    first = max(now_ms, min(free_at_ms))
    return _any_of([at for at, free_ms in enumerate(free_at_ms) if free_ms <= first], request_id)


def _round_robin(
    free_at_ms: Sequence[float], now_ms: float, request_id: str, sent_before: int, most_ahead_ms: float
) -> int | None:
    del now_ms, request_id, most_ahead_ms
    return sent_before % len(free_at_ms)


def _random(
    free_at_ms: Sequence[float], now_ms: float, request_id: str, sent_before: int, most_ahead_ms: float
) -> int | None:
    del now_ms, sent_before, most_ahead_ms
    return _any_of(range(len(free_at_ms)), request_id)


def _pull(
    free_at_ms: Sequence[float], now_ms: float, request_id: str, sent_before: int, most_ahead_ms: float
) -> int | None:
    """An idle worker, else the first to be idle of those whose next call is not full."""
    del sent_before
    idle = [at for at, free_ms in enumerate(free_at_ms) if free_ms <= now_ms]
    if idle:
        return _any_of(idle, request_id)
    first = min(free_at_ms)
    if first - now_ms >= most_ahead_ms:
        return None
    return _any_of([at for at, free_ms in enumerate(free_at_ms) if free_ms <= first], request_id)


def _any_of(places: Sequence[int], request_id: str) -> int | None:
    """One by the request's dice, so that ties spread and a repeated decision comes out the same."""
    if len(places) <= 1:
        return places[0] if places else None
    return places[int(draw(request_id, SALT) * len(places))]


KINDS: dict[str, Callable[[Sequence[float], float, str, int, float], int | None]] = {
    "least-work": _least_work,
    "pull": _pull,
    "random": _random,
    "round-robin": _round_robin,
}
