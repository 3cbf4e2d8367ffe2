"""From what is seen to the plan to publish, if any: the policy's, an earlier one's, or the last one on who is left."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from agents.planner import ROLE
from planner.catalog.parse import Catalog
from planner.control.carry_over import kept, survived
from planner.control.plans import check, memory_of, publish, same_decision
from planner.control.proposal import Draft
from planner.control.propose import Rules, let_in, made
from planner.control.replan import stays
from planner.observation.observation import Observation
from schemas.errors import PochadeError
from schemas.messages import Plan
from streams import metrics
from streams.settings import Settings

log = logging.getLogger(__name__)

NO_OTHERS = Rules()


def rules_of(settings: Settings) -> Rules:
    """What the settings ask of every policy."""
    return Rules(sheds=settings.planner.sheds, explore=settings.planner.explore)


@dataclass(frozen=True, slots=True)
class Order:
    """Whose decision is wanted: a policy's, or, where `back_to` is given, that of an earlier plan."""

    policy: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    back_to: Plan | None = None


class NotInTime(PochadeError):
    """A policy that has not made its plan within the limit."""


class Solving:
    """Runs a policy so that nothing it does stops the planner: neither an exception nor a time without end.

    One policy at a time. What fails is counted each time and logged once, until it succeeds or fails otherwise.
    """

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


class Choice:
    """Makes plans; pure but for the policy's thread, the log and the counters."""

    def __init__(self, catalog: Catalog, solving: Solving, rules: Rules = NO_OTHERS) -> None:
        self._catalog = catalog
        self._solving = solving
        self._rules = rules

    def plan(self, order: Order, seen: Observation, before: Plan | None, newest: int = 0) -> Plan | None:
        """The plan to publish after `before`; None: what is in force stays.

        A policy that fails changes nothing, unless workers are gone: then the plan in force goes on with those left.
        `newest`: the highest version on the topic. Where it is not `before`'s, others may obey what this planner
        refused (it has another catalog), and even the same decision is published above it.
        """
        policy = order.back_to.policy if order.back_to else order.policy
        found = self._solving.solve(policy, partial(self._checked, order, policy, seen, before))
        if isinstance(found, str):
            return self._without_the_gone(found, seen, before, newest)
        if before is not None and newest <= before.version and self._stays(found, order, policy, seen, before):
            return None
        return publish(found, before, policy, seen.now_ms, newest)

    def _checked(self, order: Order, policy: str, seen: Observation, before: Plan | None) -> Draft:
        if order.back_to is not None:
            reason = f"back to plan {order.back_to.version}: {order.back_to.reason}"
            draft = let_in(kept(order.back_to, seen.workers, self._catalog, reason), seen, self._catalog, self._rules)
        else:
            draft = made(policy, seen, self._catalog, memory_of(before, policy), order.parameters, self._rules)
        check(publish(draft, before, policy, seen.now_ms), self._catalog)
        return draft

    def _without_the_gone(self, why: str, seen: Observation, before: Plan | None, newest: int) -> Plan | None:
        if before is None:
            return None
        try:
            plan = survived(before, why, seen, self._catalog, self._rules, newest)
        except Exception:  # a plan of a catalog that is no more
            log.exception("plan %d cannot go on without the workers that are gone", before.version)
            return None
        if plan is not None:
            metrics.FALLBACKS.labels(ROLE, "kept-plan").inc()
        return plan

    def _stays(self, draft: Draft, order: Order, policy: str, seen: Observation, before: Plan) -> bool:
        if same_decision(draft, before, policy):
            return True
        if order.back_to is not None or not stays(draft, policy, seen, before, self._catalog):
            return False
        metrics.FALLBACKS.labels(ROLE, "change-not-worth").inc()
        log.debug("a change is not worth its cost: %s", draft.reason)
        return True
