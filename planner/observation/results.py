"""Recent results: the share in time, and the confidences on their paths."""

from array import array
from collections import defaultdict, deque
from collections.abc import Sequence

import numpy as np

from planner.catalog.model import Catalog
from planner.observation.deferral import ObservedDeferral, observed_deferral
from planner.observation.observation import SCORES, SERVED_MS, Served
from planner.serving.deadlines import MAX_STEP_BACK_MS
from planner.serving.decisions import INVALID, LACKED_CAPACITY
from schemas.messages import Plan, Status

MAX_RESULTS = 200_000  # that count


def says_nothing_of_the_service(status: Status, code: str) -> bool:
    """Whether a request ended so by what it is, or by its client: cancelled, or for a fault of its own."""
    if status is Status.REJECTED:
        return code not in LACKED_CAPACITY
    return status is Status.CANCELLED or (status is Status.FAILED and code == INVALID)


class Results:
    """The ends of requests and the confidences of their images, which become known with the end, not before."""

    def __init__(self, slo_ms: float) -> None:
        """`slo_ms`: latency beyond which an answer is late; 0: none is."""
        self._slo_ms = slo_ms
        self._ended = array("d")  # 2 * when + whether in time, of each; one thread may add while another reads
        self._scores: defaultdict[tuple[str, str], deque[tuple[float, float]]] = defaultdict(
            lambda: deque(maxlen=SCORES)
        )

    def clear(self) -> None:
        """A reader begins again with the window."""
        del self._ended[:]
        self._scores.clear()

    def add(self, status: Status, ended_ms: int, latency_ms: float, code: str = "") -> None:
        """Add an end, unless a client cancelled the request or asked wrongly. `code`: why it was REJECTED or FAILED."""
        if says_nothing_of_the_service(status, code):
            return
        is_late = latency_ms > self._slo_ms > 0
        self._ended.append(2 * ended_ms + (status is Status.COMPLETED and not is_late))
        if len(self._ended) > 2 * MAX_RESULTS:
            del self._ended[:MAX_RESULTS]

    def add_score(self, level: str, discriminator: str, hardness: float, confidence: float) -> None:
        """A discriminator's confidence in a level's image, whose request has ended."""
        self._scores[level, discriminator].append((hardness, confidence))

    def served(self, now_ms: int) -> Served:
        """Return the figures of requests that ended in the last minute; the quality of their images is unknown."""
        since_ms = now_ms - SERVED_MS
        at_ms, is_in_time = np.divmod(np.frombuffer(self._ended.tobytes()), 2)
        young = np.flatnonzero(at_ms > since_ms - MAX_STEP_BACK_MS)
        del self._ended[: young[0] if len(young) else len(at_ms)]
        of_late = is_in_time[(at_ms > since_ms) & (at_ms <= now_ms)][-MAX_RESULTS:]
        return Served(len(of_late), float(of_late.mean())) if len(of_late) else Served()

    def deferral(self, plan: Plan | None, catalog: Catalog, bounds: Sequence[float]) -> tuple[ObservedDeferral, ...]:
        """The curves of the levels that were scored, by the discriminator that the plan or the catalog has for them."""
        judges = {pair.light: pair.discriminator for pair in reversed(catalog.cascades)}
        judges |= {cascade.level: cascade.discriminator for cascade in (plan.cascades if plan else ())}
        return tuple(
            observed_deferral(*key, list(self._scores[key]), bounds)
            for key in sorted(self._scores.keys() & judges.items())
        )
