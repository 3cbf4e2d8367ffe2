"""The live driver: publishes prompts at a trace's pace, and knows of each request whether and how often it ended."""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from replay.traces.trace import Overrides, Row, request_of
from replay.verify.audit.ends import Ends
from schemas.ids import draw
from schemas.messages import GenerateRequest, Result
from schemas.record import Delivered

STUCK_MS = 120_000  # without a submission or a result for so long, nothing more will come
TICK_S = 0.05  # most that passes between two looks at results and roles
DELIVERY_S = 60.0  # for the broker to take the last submissions

AS_IT_IS = Overrides()  # nothing is asked for beside the prompt

Submit = Callable[[GenerateRequest], Future[Delivered]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """One request, and the time at which to publish it."""

    offset_ms: float  # since the start of the run
    request_id: str
    row: Row  # of the trace: what is asked for


def schedule(
    name: str, prompts: Sequence[str], arrivals_ms: Sequence[float], seed: int, wish: Overrides = AS_IT_IS
) -> list[Due]:
    """Make one request per arrival, prompts in turn, each with `wish`. Ids and seeds follow from `name` and `seed`."""
    assert prompts, "a run needs a prompt"
    ids = [f"{name}-{seed}-{number:04d}" for number in range(len(arrivals_ms))]
    return [
        Due(
            offset_ms=at,
            request_id=i,
            row=Row(at, prompts[n % len(prompts)], wish=wish, seed=int(draw(i, "noise") * 2**31)),
        )
        for n, (at, i) in enumerate(zip(arrivals_ms, ids, strict=True))
    ]


class Driver:
    """Publishes the requests of a run. `publish_due` is called by one thread, `on_result` by another.

    `before`: ids that an earlier run published, which are waited for and never published again.
    """

    def __init__(
        self, due: Sequence[Due], submit: Submit, clock_ms: Callable[[], float], before: Collection[str] = ()
    ) -> None:
        self._due, self._submit, self._clock_ms, self._before = due, submit, clock_ms, frozenset(before)
        self._lock = threading.Lock()
        self._sent: dict[str, Future[Delivered]] = {}
        self._ended: dict[str, Result] = {}
        self._newest: list[Result] = []
        self._start_ms = self._progress_ms = 0.0
        self._is_started = False
        self.lateness_ms: list[float] = []  # of each submission against its trace
        self.first_completed_ms: float | None = None  # epoch, when its result was seen

    def publish_due(self) -> float | None:
        """Publish what is due by now; ms until the next one, None when there is none. The first call starts time."""
        now_ms = self._clock_ms()
        if not self._is_started:
            self._start_ms = self._progress_ms = now_ms
            self._is_started = True
        while (number := len(self._sent)) < len(self._due):
            wait_ms = self._start_ms + self._due[number].offset_ms - now_ms
            if wait_ms > 0:
                return wait_ms
            self._publish(self._due[number], now_ms)
            self.lateness_ms.append(-wait_ms)
            now_ms = self._clock_ms()
        return None

    def _publish(self, due: Due, now_ms: float) -> None:
        self._sent[due.request_id] = self._submit(request_of(due.row, due.request_id, int(now_ms)))
        self._progress_ms = now_ms

    def on_result(self, result: Result) -> None:
        """Take a result as it is read; results of requests that are not the run's do not count."""
        with self._lock:
            name = result.request_id
            if name in self._ended or not (name in self._sent or name in self._before):
                return  # a second one is counted by `audit`, which reads everything again
            self._ended[name] = result
            self._newest = [*self._newest[-9:], result]
            self._progress_ms = self._clock_ms()
            if self.first_completed_ms is None and result.image_uri is not None:
                self.first_completed_ms = self._progress_ms

    def is_finished(self) -> bool:
        """Whether everything was published and has ended."""
        return len(self._ended) == self.total

    def is_stuck(self) -> bool:
        """Whether nothing has moved for so long that waiting is in vain; pauses of the trace do not count."""
        is_published = len(self._sent) == len(self._due)
        return is_published and not self.is_finished() and self._clock_ms() - self._progress_ms > STUCK_MS

    @property
    def total(self) -> int:
        """Number of requests of the run."""
        return len(self._due) + len(self._before)

    def counts(self) -> tuple[int, int, list[Result]]:
        """Published, ended, and up to ten newest results, oldest first."""
        with self._lock:
            return len(self._before) + len(self._sent), len(self._ended), list(self._newest)

    def accepted(self) -> list[str]:
        """Ids of the requests that the broker took: those that must end. Waits up to `DELIVERY_S` for its answers."""
        wait(self._sent.values(), DELIVERY_S)
        return [name for name, future in self._sent.items() if future.done() and future.exception() is None]


def drive(driver: Driver, on_tick: Callable[[], None], sleep_s: Callable[[float], None]) -> bool:
    """Run a driver to its end; False when it got stuck. `on_tick` is called between all waits."""
    while not driver.is_finished():
        wait_ms = driver.publish_due()
        on_tick()
        if driver.is_stuck():
            return False
        sleep_s(TICK_S if wait_ms is None else min(TICK_S, wait_ms / 1000))
    return True


@dataclass(frozen=True, slots=True)
class Audit:
    """Audits the accepted requests by reading `results` a second time, from its beginning."""

    results: tuple[Result, ...]  # the first one of each, in the order of submission
    lost: tuple[str, ...]  # accepted and without a result
    duplicates: int = field(default=0)  # results beyond the first of a request


def audit(accepted: Sequence[str], results: Iterable[Result]) -> Audit:
    """Hold the accepted requests against all results that a read_committed reader sees."""
    ends = Ends(results)
    return Audit(
        results=tuple(ends.first[name] for name in accepted if name in ends.first),
        lost=ends.open(accepted),
        duplicates=sum(ends.doubled(accepted).values()),
    )
