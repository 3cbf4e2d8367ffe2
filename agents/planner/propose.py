"""Runs the planner's logic live: its settings, a policy's thread with a time limit, counters and the log."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from agents.planner import ROLE
from planner.catalog.model import Catalog
from planner.control.planning import Order, PlanDecision, PlannerLogic, PlanRequest, PolicyTimeout
from planner.control.proposal import PlanProposal
from planner.control.propose import Rules
from planner.observation.forecast import horizon_of
from planner.policies import DEFAULT, named
from planner.scaling.saturation import desired_workers
from schemas.messages import ScalePlan
from streams import metrics
from streams.parsing.scale_rules import scale_rules_of
from streams.settings import Settings

log = logging.getLogger(__name__)


def rules_of(settings: Settings) -> Rules:
    """Return the rules that the settings set for every policy."""
    planner = settings.planner
    return Rules(
        sheds=planner.load_shedding,
        explore=planner.exploration_rate,
        forecast=planner.forecast,
        horizon_s=horizon_of(planner.period_ms),
        hysteresis=planner.hysteresis,
        quality_at_least=planner.quality_at_least,
        scale=scale_rules_of(settings),
    )


def logic_of(settings: Settings, catalog: Catalog) -> PlannerLogic:
    """The logic of a planner with these settings."""
    planner = settings.planner
    return PlannerLogic(
        catalog,
        named,
        Order(planner.policy or DEFAULT, planner.parameters),
        period_ms=planner.period_ms,
        silent_ms=planner.worker_timeout_ms,
        rules=rules_of(settings),
    )


LATE = "late"


class PolicyThread:
    """Runs a policy in a thread with a time limit. One policy at a time."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._running: Future[PlanProposal] | None = None

    def run(self, policy: str, propose: Callable[[], PlanProposal]) -> PlanProposal:
        """Run a policy in its thread, and return its proposal.

        A run beyond the limit cannot be ended: it goes on in its thread. Until it has ended no other begins, and its
        late proposal is dropped.

        Raises:
            PolicyTimeout: no proposal within the limit.
            Exception: the policy's own.
        """
        if self._running is not None and not self._running.done():
            raise PolicyTimeout(f"policy {policy} waits for one that runs longer than {self._limit_s:g} s")
        running: Future[PlanProposal] = Future()
        self._running = running
        threading.Thread(target=_finish, args=(running, propose), name="policy", daemon=True).start()
        try:
            return running.result(self._limit_s)
        except TimeoutError:
            if running.done():
                raise
            raise PolicyTimeout(f"policy {policy} made no plan within {self._limit_s:g} s") from None


def _finish(running: "Future[PlanProposal]", propose: Callable[[], PlanProposal]) -> None:
    try:
        running.set_result(propose())
    except BaseException as error:  # even SystemExit is the waiter's to know
        running.set_exception(error)


class DecisionReport:
    """Counts and logs decisions. A policy's failure is logged once, until it succeeds or fails otherwise."""

    def __init__(self) -> None:
        self._reported = ""
        self._shown: set[str] = set()  # variants whose number of workers was shown

    def on_decision(self, decision: PlanDecision) -> None:
        """Count what the decision lacked, and log what an operator should know."""
        for kind in decision.fallbacks:
            metrics.FALLBACKS.labels(ROLE, kind).inc()
        if decision.error is None:
            self._reported = ""
            if decision.reason:
                log.debug("%s", decision.reason)
        else:
            self._log_failure(decision.reason, decision.error)
        if decision.carry_over_error is not None:
            log.error(
                "the plan in force cannot go on without the workers that are gone", exc_info=decision.carry_over_error
            )

    def _log_failure(self, reason: str, error: Exception) -> None:
        is_late = isinstance(error, PolicyTimeout)
        reported = LATE if is_late else reason  # a policy that is late is first waited for, then in the next one's way
        if reported == self._reported:
            return
        self._reported = reported
        if is_late:
            log.warning(
                "%s; the plan in force stays; raise planner.solver_timeout_s, or give the planner a core", reason
            )
        else:
            log.error("%s; the plan in force stays", reason, exc_info=error)

    def on_expected(self, request: PlanRequest, decision: PlanDecision) -> None:
        """Show how many workers the demand needs now; unchanged if the policy made no proposal."""
        live = len(request.workers)
        if decision.expected is not None:
            metrics.LIVE_WORKERS.set(live)
            metrics.DESIRED_WORKERS.set(desired_workers(decision.expected, live))
        if decision.error is None or decision.scale is not None:
            self._show(decision.scale)

    def on_leadership_lost(self) -> None:
        """Report that this planner wants no workers: only the leader's count."""
        self._show(None)

    def _show(self, scale: ScalePlan | None) -> None:
        targets = scale.targets if scale else {}
        self._shown |= targets.keys()
        for variant in self._shown:  # what is wanted no more is 0: a scrape meanwhile must not miss the others
            metrics.WORKERS_WANTED.labels(variant).set(targets.get(variant, 0))
        metrics.WORKERS_WARM.set(scale.warm if scale else 0)
        if scale is not None:
            metrics.DESIRED_WORKERS.set(sum(scale.wanted.values()) + scale.warm)

    def on_published(self, decision: PlanDecision) -> None:
        """Log the plan that was written."""
        plan = decision.plan
        if plan is not None:
            log.info("plan %d by %s: %s", plan.version, plan.policy, plan.reason)
