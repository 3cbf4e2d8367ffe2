"""Runs a policy so that nothing it does stops the planner: neither an exception nor a time without end."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from agents.planner import ROLE
from planner.control.proposal import Draft
from schemas.errors import PochadeError
from streams import metrics

log = logging.getLogger(__name__)


class NotInTime(PochadeError):
    """A policy that has not made its plan within the limit."""


class Solving:
    """One policy at a time. What fails is counted each time and logged once, until it succeeds or fails otherwise."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._running: Future[Draft] | None = None
        self._told = ""

    def solve(self, policy: str, run: Callable[[], Draft]) -> Draft | str:
        """The draft, or why there is none.

        A run beyond the limit goes on in its thread, where nobody can end it; until it has ended no other begins, and
        its draft, made for a moment long past, is dropped.
        """
        try:
            draft = self._within_limit(policy, run)
        except Exception as error:  # whatever a policy or its solver raises
            return self._failed(policy, error)
        self._told = ""
        return draft

    def _within_limit(self, policy: str, run: Callable[[], Draft]) -> Draft:
        if self._running is not None and not self._running.done():
            raise NotInTime(f"policy {policy} waits for one that runs longer than {self._limit_s:g} s")
        running: Future[Draft] = Future()
        self._running = running
        threading.Thread(target=_finish, args=(running, run), name="policy", daemon=True).start()
        try:
            return running.result(self._limit_s)
        except TimeoutError:
            if running.done():
                raise
            raise NotInTime(f"policy {policy} made no plan within {self._limit_s:g} s") from None

    def _failed(self, policy: str, error: Exception) -> str:
        why = f"policy {policy} made no plan: {type(error).__name__}: {error}"
        metrics.FALLBACKS.labels(ROLE, "policy-late" if isinstance(error, NotInTime) else "policy").inc()
        if why != self._told:
            self._told = why
            log.error("%s; the plan in force stays", why, exc_info=error)
        return why


def _finish(running: "Future[Draft]", run: Callable[[], Draft]) -> None:
    try:
        running.set_result(run())
    except BaseException as error:  # even SystemExit is the waiter's to know
        running.set_exception(error)
