"""Runs asyncio in virtual time: what waits is not waited for, and a run repeats exactly."""

import asyncio
import contextlib
import selectors
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from schemas.errors import PochadeError
from streams import clock

T = TypeVar("T")

BEGIN_MS: Final = 1_700_000_000_000  # epoch ms of a run's first moment
STEP_S: Final = 1e-9  # least step of the clock, so that no rounding keeps it from a timer


class Stalled(PochadeError):
    """Everything waits for something that will never come."""


class InlineExecutor(ThreadPoolExecutor):
    """Makes calls at once in the calling thread, so that their order never depends on threads."""

    def submit(self, call: Callable[..., T], /, *args: Any, **more: Any) -> "Future[T]":
        """Return the future of a call that is done."""
        future: Future[T] = Future()
        try:
            future.set_result(call(*args, **more))
        except BaseException as error:  # the caller's to judge
            future.set_exception(error)
        return future


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer as soon as nothing is ready."""

    def __init__(self) -> None:
        selector = selectors.DefaultSelector()
        self._now_s, look = 0.0, selector.select

        def select(timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is None:
                raise Stalled("every task waits, and no timer is set")
            self._now_s += max(STEP_S, timeout) if timeout > 0 else 0.0
            return look(0)

        selector.select = select  # type: ignore[method-assign]
        super().__init__(selector)
        self.set_default_executor(InlineExecutor(1))

    def time(self) -> float:
        """Return the virtual time since the run began, in seconds."""
        return self._now_s


@contextlib.contextmanager
def running_on(epoch_ms: Callable[[], int]) -> Iterator[None]:
    """Let another clock be the time of this process."""
    before, clock.source = clock.source, epoch_ms
    try:
        yield
    finally:
        clock.source = before


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time, in which `now_ms` is that time too.

    Raises:
        Stalled: it waits for what will never come.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        loop = runner.get_loop()
        with running_on(lambda: BEGIN_MS + int(1000 * loop.time())):
            return runner.run(main)
