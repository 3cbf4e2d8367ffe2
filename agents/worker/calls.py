"""Calls in threads that nobody waits for beyond a deadline: of stores that may hang for ever."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


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
