"""Calls in threads: of stores that may hang for ever, and of an engine that allows several at once."""

import contextlib
import contextvars
import heapq
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import Any, Generic, TypeVar

T = TypeVar("T")
A = TypeVar("A")


class BackgroundCalls:
    """Runs calls in a few threads. One that hangs keeps its thread, but neither its caller nor the process's end.

    Where all threads hang, calls wait; those that were cancelled meanwhile are never made.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._has_begun = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Make a call as soon as a thread is free. For use by one thread."""
        if not self._has_begun:
            self._has_begun = True
            for _ in range(self._threads):
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        future: Future[T] = Future()
        self._waiting.put((future, call))
        return future

    def close(self) -> None:
        """End the threads that do not hang, once what waits is done."""
        for _ in range(self._threads if self._has_begun else 0):
            self._waiting.put(None)

    def _run(self) -> None:
        while (entry := self._waiting.get()) is not None:
            future, call = entry
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # whatever a store and its libraries raise: the caller's to judge
                future.set_exception(error)


class OpenCalls(Generic[A]):
    """Calls and waits that run side by side, for one thread: it begins them, and takes their answers as they end."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = BackgroundCalls(threads, name)
        self._ended: queue.SimpleQueue[tuple[int, Callable[[int], A]]] = queue.SimpleQueue()
        self._open: dict[int, int] = {}  # number of a call -> most calls that ran side by side since it began
        self._waits: list[tuple[float, int, A]] = []  # (monotonic s of its end, number, answer): a heap
        self._numbers = count()
        self.are_abandoned = False  # nothing wants their answers any more; any thread may ask

    def begin(self, call: Callable[[], T], finish: Callable[[T, int], A]) -> None:
        """Make a call in a thread; `finish` makes its answer of what it returned, in the thread that takes it.

        It is also given how many calls ran side by side, this one included.
        """
        number, running = next(self._numbers), len(self._open) + 1
        self._open = {each: max(most, running) for each, most in {**self._open, number: running}.items()}
        context = contextvars.copy_context()
        self._threads.submit(lambda: self._ended.put((number, context.run(_outcome, call, finish))))

    def wait(self, seconds: float, answer: A) -> None:
        """Give this answer after a while."""
        heapq.heappush(self._waits, (time.monotonic() + seconds, next(self._numbers), answer))

    @property
    def are_open(self) -> bool:
        """Whether a call runs."""
        return bool(self._open)

    def take(
        self, waits: Callable[[], contextlib.AbstractContextManager[None]], most_s: float | None = None
    ) -> A | None:
        """Return the next answer, once there is one; None: nothing is open, or no call that runs ends in `most_s`.

        `waits` is around a wait beside which no call runs. Raises what a call raised.
        """
        if self._open:
            limits = [each for each in (most_s, self._left_s() if self._waits else None) if each is not None]
            try:
                number, ended = self._ended.get(timeout=min(limits, default=None))
            except queue.Empty:
                return heapq.heappop(self._waits)[2] if self._waits and not self._left_s() else None
            return ended(self._open.pop(number))
        if not self._waits:
            return None
        with waits():
            time.sleep(self._left_s())
        return heapq.heappop(self._waits)[2]

    def _left_s(self) -> float:
        return max(0.0, self._waits[0][0] - time.monotonic())

    def abandon(self) -> None:
        """Drop all that is open, once the calls that run have ended."""
        self.are_abandoned = True
        while self._open:
            del self._open[self._ended.get()[0]]
        self._waits.clear()
        self.are_abandoned = False

    def close(self) -> None:
        """End the threads."""
        self._threads.close()


def _outcome(call: Callable[[], T], finish: Callable[[T, int], A]) -> Callable[[int], A]:
    try:
        made = call()
    except BaseException as error:  # the taker's to know
        raised = error

        def fail(_side_by_side: int) -> A:
            raise raised

        return fail
    return lambda side_by_side: finish(made, side_by_side)
