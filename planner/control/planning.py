"""The planner's logic, run live and simulated: when a plan is due, which order is in force, what is published.

The order of the checks exists only here. The driver passes in the time, the heartbeats, the plans in force and the
observation, and writes the decisions.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

from planner.catalog.model import Catalog
from planner.control.plans import memory_of, publish
from planner.control.proposal import OURS, PlanProposal, Policy, PolicyTerms, terms_of
from planner.control.propose import Rules, must_pay, propose, with_forecast_of
from planner.control.renewal.carry_over import carry_on, fallback_plan
from planner.control.renewal.replan import (
    FIRST_PLAN,
    GROWTH_MS,
    HOLD_S,
    PERIOD_IS_OVER,
    Signals,
    change_of,
    is_quiet,
    only_moves,
    should_switch,
    signals_of,
    why_now,
)
from planner.control.renewal.same_plan import decide_alike, forgetting, memories_of, same_scale
from planner.control.renewal.steady import Solved, is_steady, solved_for
from planner.control.reservation import left_waiting, on_request_of
from planner.control.residency import with_residency
from planner.control.validity import CheckPlan, check_live
from planner.observation.observation import ANY_LEVEL, Observation
from planner.observation.workers import ReceivedHeartbeat, WorkerView, live_workers
from planner.scaling.fleet import FleetScaling, Staffing
from planner.serving.deadlines import MAX_STEP_BACK_MS, steady_ms
from schemas.errors import PochadeError
from schemas.messages import Expected, Pin, Plan, ScalePlan

# What a decision did without, as it is counted.
POLICY_FAILED, POLICY_LATE = "policy", "policy-late"
FALLBACK_PLAN = "kept-plan"  # the plan in force goes on with the workers that are left
NO_GAIN = "change-not-worth"
MEMORY_LOST = "memory"  # the policy could not go on from what the plan in force remembers
NO_OTHERS = Rules()

TICK_MS = 200  # between two looks whether a plan is due


class PolicyTimeout(PochadeError):
    """A policy has not made its plan within the limit."""


@dataclass(frozen=True, slots=True)
class Order:
    """The policy that shall plan, or, where `back_to` is given, the earlier plan to go back to."""

    policy: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    back_to: Plan | None = None


class PlansOfTopic(Protocol):
    """The plans and the order on the topic."""

    @property
    def plan(self) -> Plan | None:
        """The plan in force."""

    @property
    def pin(self) -> Pin | None:
        """The operator's order."""

    @property
    def newest(self) -> int:
        """The highest version there is, obeyed or not."""

    def find(self, version: int) -> Plan | None:
        """Return an earlier plan by its version."""


class PlansInForce(PlansOfTopic, Protocol):
    """The plans that a planner goes on from."""

    @property
    def is_ordered(self) -> bool:
        """Whether an operator's order came after the plan in force, which therefore does not answer it."""


class PlanRequest(NamedTuple):
    """A plan that is due: its time, order and reason."""

    why: str
    now_ms: int
    workers: tuple[WorkerView, ...]  # live ones, by id


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """The decision on a request for a plan: publish a new one, or keep the plan in force."""

    plan: Plan | None = None  # to be published; None: the plan in force stays
    fallbacks: tuple[str, ...] = ()  # what it did without, to be counted
    reason: str = ""  # why the plan in force stays or the policy's was not taken; "": there is nothing to say
    error: Exception | None = None  # of the policy
    carry_over_error: Exception | None = None  # why the plan in force cannot go on with the workers that are left
    expected: Expected | None = None  # of the policy's proposal at the demand now, also where the plan in force stays
    scale: ScalePlan | None = None  # of the proposal, also where the plan in force stays; None: the fleet stays
    remembered: Plan | None = None  # the plan that stays, with the memories and expectation of now; None: as it was


RunPolicy = Callable[[str, Callable[[], PlanProposal]], PlanProposal]
"""(policy's name, what makes its proposal) -> the proposal. Raises what that raises, or PolicyTimeout."""


def run_directly(_policy: str, propose: Callable[[], PlanProposal]) -> PlanProposal:
    """Run a policy without a limit."""
    return propose()


class PlannerLogic:
    """The decisions of one planner. Times are in ms of one clock, with fractions."""

    def __init__(
        self,
        catalog: Catalog,
        policies: Callable[[str], Policy],
        configured: Order,
        *,
        period_ms: int,
        silent_ms: int,
        rules: Rules = NO_OTHERS,
        check: CheckPlan = check_live,
    ) -> None:
        """`policies`: the policy of a name; raises PochadeError. `silent_ms`: without heartbeats, a worker is lost.

        `check`: refuses what those who obey cannot do.
        """
        self._check = check
        self._catalog, self._policies, self._configured, self._rules = catalog, policies, configured, rules
        self._period_ms, self._silent_ms = period_ms, silent_ms
        self._scaling = FleetScaling(catalog, rules.scale)
        self._signals: Signals | None = None  # when it was planned last
        self._planned_ms = self._now_ms = -math.inf
        self._back_to: Plan | None = None
        self._has_planned = False  # memories are its own from then on
        self._heard, self._kept_quietly = 0, False  # when it was planned last
        self._why = ""  # the plan that is due now is
        self._decided: Plan | None = None  # as it was published
        self._solved: Solved | None = None  # what its last solution was made for; None: it must not be relied on
        self._reserved: dict[str, str] = {}  # worker -> variant, in the last plan that it decided on

    def begin(self) -> None:
        """Forget when it was planned last: a planner that begins to lead plans at once."""
        self._signals, self._reserved, self._has_planned, self._kept_quietly = None, {}, False, False
        self._solved = None
        self._scaling.forget()

    def end_period(self) -> None:
        """The period since the last plan is over, whatever its length."""
        self._planned_ms = -math.inf

    def may_be_due(self, now_ms: float, backlog_ms: float) -> bool:
        """Whether a plan may be due while workers and orders stay: a cheap question before `due`.

        `backlog_ms`: work waiting a live worker.
        """
        return now_ms - self._planned_ms >= self._period_ms or backlog_ms > GROWTH_MS

    def rests(self, heard: int) -> bool:
        """Whether nothing has changed since a look that saw nothing and left the plan in force.

        `heard`: number of requests and results heard of until now.
        """
        return self._kept_quietly and heard == self._heard

    def skip(self, ms: float) -> None:
        """Let a time pass in which it rests."""
        self._planned_ms += ms

    def due(
        self,
        now_ms: float,
        heartbeats: Mapping[str, ReceivedHeartbeat],
        plans: PlansInForce,
        asked: Collection[str] = (),
        heard: int = 0,
        needed: Collection[tuple[str, ...]] = (),
    ) -> PlanRequest | None:
        """The request for a plan where the period is over, or workers, an operator or the backlog call for one.

        `asked`: variants that requests in flight name, "" for any level; one without a worker calls for a plan, where
        the fleet is scaled. `heard`: number of requests and results heard of until now; without news a period ends
        without a plan. `needed`: variants one of which requests in flight need; without a worker of any, one is called
        for in any fleet.
        """
        now_ms = self._now_ms = steady_ms(now_ms, self._now_ms, MAX_STEP_BACK_MS)
        allocation = plans.plan.allocation if plans.plan else {}
        workers = live_workers(heartbeats, int(now_ms), self._silent_ms, allocation)
        unserved = self._scaling.unserved(asked, plans.plan) or self._unserved(asked, needed, plans.plan)
        idle = tuple(sorted(set(self._reserved.values()) - {name for variants in needed for name in variants}))
        signals, since_ms = signals_of(workers, _identity(plans.pin), unserved, idle), now_ms - self._planned_ms
        why = why_now(self._signals, signals, since_ms if since_ms >= 0 else self._period_ms, self._period_ms)
        if not why:
            return None
        self._planned_ms = now_ms
        if why == PERIOD_IS_OVER and self.rests(heard) and not asked and not signals.backlog_ms:
            return None
        self._signals, self._heard, self._why = signals, heard, why
        return PlanRequest(why, int(now_ms), workers)

    def _unserved(
        self, asked: Collection[str], needed: Collection[tuple[str, ...]], plan: Plan | None
    ) -> tuple[str, ...]:
        """Return the first variant of each need for which the plan has no worker, and ANY_LEVEL likewise.

        A fleet that is scaled knows its own.
        """
        if plan is None or plan.scale is not None:
            return ()
        served = set(plan.allocation.values())
        is_left_out = ANY_LEVEL in asked and bool(served) and served.isdisjoint(self._catalog.variants)
        waiting = {variants[0] for variants in needed if served.isdisjoint(variants)}
        return tuple(sorted(waiting | ({ANY_LEVEL} if is_left_out else set())))

    def decide(self, seen: Observation, plans: PlansInForce, run: RunPolicy = run_directly) -> PlanDecision:
        """The plan to publish after the one in force, or why that one stays.

        A policy that fails changes nothing, unless workers are gone: then the plan in force goes on with those left.
        Where a newer version is on the topic, others may obey what this planner refused (it has another catalog), and
        even the same decision is published above it. So is one that answers an order.

        The first decision goes on from memories that lay on the topic, and were maybe written by no planner: where it
        fails it is made again without them.

        A period that ends without a change of demand or fleet keeps the plan in force without asking a policy that
        plans on changes.
        """
        before = plans.plan
        if self._is_steady(seen, plans):
            self._kept_quietly = False
            return PlanDecision()
        decision = self._decide(seen, plans, before, run)
        if not self._has_planned and before is not None and _may_be_memory(decision.error):
            self._scaling.forget()
            plain = forgetting(before)
            again = self._decide(replace(seen, in_force=seen.in_force and plain), plans, plain, run)
            if again.error is None:
                decision = replace(again, fallbacks=(*again.fallbacks, MEMORY_LOST))
        self._has_planned = self._has_planned or decision.error is None
        is_kept = decision.plan is None and decision.error is None and decision.scale is None
        self._kept_quietly = is_kept and self._heard > 0 and is_quiet(seen)
        plan = decision.plan or before
        is_solved = plan is not None and decision.error is None and decision.scale is None
        self._solved = solved_for(seen, plan.version, decision.expected) if plan is not None and is_solved else None
        return decision

    def _is_steady(self, seen: Observation, plans: PlansInForce) -> bool:
        """Whether the plan in force is its own last answer, and nothing has changed since."""
        last, plan = self._solved, plans.plan
        if last is None or plan is None or plans.is_ordered or self._why != PERIOD_IS_OVER:
            return False
        is_own = last.version == plan.version == plans.newest
        return is_own and self._terms(self._order(plans)).on_change and is_steady(last, seen)

    def _decide(self, seen: Observation, plans: PlansInForce, before: Plan | None, run: RunPolicy) -> PlanDecision:
        newest, order = plans.newest, self._order(plans)
        seen = with_forecast_of(self._terms(order), seen, self._rules)
        staffing: Staffing | None = None
        try:
            staffing = self._staffing(order, seen, before)
            proposal = run(order.policy, partial(self._propose, order, seen, before, staffing))
        except Exception as error:  # whatever a policy or its solver raises
            return self._fall_back(order.policy, error, seen, before, newest, staffing)
        if before is not None and newest <= before.version and not plans.is_ordered:
            serving = seen if staffing is None else _of_workers(seen, proposal.allocation)
            unchanged = self._keep_current(proposal, order, serving, before)
            if unchanged is not None:
                return replace(unchanged, expected=proposal.expected, scale=proposal.scale)
        called_for = "" if self._why in (FIRST_PLAN, PERIOD_IS_OVER) else self._why
        plan = publish(proposal, self._as_decided(before), order.policy, seen.now_ms, newest, called_for)
        self._decided, self._reserved = plan, proposal.reserved
        return PlanDecision(plan, expected=plan.expected, scale=plan.scale)

    def _as_decided(self, before: Plan | None) -> Plan | None:
        """Return the plan in force with the expectation that it was decided on, where that is known."""
        decided = self._decided
        return decided if decided is not None and before is not None and decided.version == before.version else before

    def _order(self, plans: PlansInForce) -> Order:
        """The operator's, else the configured one."""
        pin = plans.pin
        if pin is None or not pin.plan_version:
            self._back_to = None
        elif self._back_to is None or self._back_to.version != pin.plan_version:
            self._back_to = plans.find(pin.plan_version)
        if self._back_to is not None:
            return Order(self._back_to.policy, back_to=self._back_to)
        if pin is not None and pin.policy:
            return Order(pin.policy, pin.parameters)
        return self._configured

    def _terms(self, order: Order) -> PolicyTerms:
        """Return the terms of the policy that plans; the default ones if there is none, or it cannot be loaded.

        The error is reported when the policy is run.
        """
        try:
            return OURS if order.back_to is not None else terms_of(self._policies(order.policy))
        except PochadeError:
            return OURS

    def _staffing(self, order: Order, seen: Observation, before: Plan | None) -> Staffing | None:
        """Return which workers serve which variant in a fleet that is scaled; None if the order does not scale."""
        terms, back_to = self._terms(order), order.back_to
        if back_to is not None:
            terms = terms._replace(scales=back_to.scale is not None)
        return self._scaling.decide(seen, before) if self._rules.scale.hold_for(lambda: terms) else None

    def _propose(
        self, order: Order, seen: Observation, before: Plan | None, staffing: Staffing | None
    ) -> PlanProposal:  # fmt: skip
        """Return the order's proposal under the rules, after checking its plan."""
        if order.back_to is not None:
            reason = f"an operator's order brought plan {order.back_to.version} back"
            proposal = carry_on(order.back_to, reason, seen, self._catalog, self._rules, staffing)
            proposal = with_residency(proposal, seen, self._catalog)
        else:
            memory = memory_of(before, order.policy)
            policy = self._policies(order.policy)
            proposal = propose(policy, seen, self._catalog, memory, order.parameters, self._rules, staffing)
        self._check(publish(proposal, before, order.policy, seen.now_ms), self._catalog)
        return proposal

    def _keep_current(
        self, proposal: PlanProposal, order: Order, seen: Observation, before: Plan
    ) -> PlanDecision | None:
        """Return the decision to keep the plan in force, if nothing changes or a move does not pay; else None."""
        drafted = replace(publish(proposal, None, order.policy, before.created_ms), version=before.version)
        if decide_alike(drafted, before):
            noted = replace(drafted, reason=before.reason)  # of the decision
            return PlanDecision(remembered=None if memories_of(drafted) == memories_of(before) else noted)
        if self._must_change(proposal, order, seen, before) or self._should_switch(proposal, seen, before):
            return None
        return PlanDecision(fallbacks=(NO_GAIN,), reason=f"a change is not worth its cost: {proposal.reason}")

    def _must_change(self, proposal: PlanProposal, order: Order, seen: Observation, before: Plan) -> bool:
        """Whether the cost of the change does not count: it was ordered, it moves no worker, or it is forced.

        It is forced by requests that wait for a variant to which only the proposal gives a worker. Nor does the cost
        count if the policy has weighed it, or if its paper has no rule for it.
        """
        is_ordered = order.back_to is not None or order.policy != before.policy
        is_free = proposal.weighs_moves or not must_pay(self._terms(order), self._rules)
        is_free = is_free or not same_scale(proposal.scale, before.scale)
        held = on_request_of(before.allocation, self._catalog) | self._reserved
        waits, waited = (left_waiting(seen, plan.allocation) for plan in (proposal, before))
        is_forced = proposal.reserved != held or waits < waited
        return is_ordered or is_free or is_forced or not only_moves(proposal, seen, before)

    def _should_switch(self, proposal: PlanProposal, seen: Observation, before: Plan) -> bool:
        return should_switch(change_of(before, proposal, seen, self._catalog, HOLD_S))

    def _fall_back(
        self,
        policy: str,
        error: Exception,
        seen: Observation,
        before: Plan | None,
        newest: int,
        staffing: Staffing | None,
    ) -> PlanDecision:
        why = f"policy {policy} made no plan: {type(error).__name__}: {error}"
        failed = POLICY_LATE if isinstance(error, PolicyTimeout) else POLICY_FAILED
        if before is None:
            return PlanDecision(None, (failed,), why, error)
        try:
            plan = fallback_plan(before, why, seen, self._catalog, self._rules, newest, staffing)
        except Exception as unfit:  # a plan of a catalog that is no more
            return PlanDecision(None, (failed,), why, error, unfit)
        fallbacks = (failed,) if plan is None else (failed, FALLBACK_PLAN)
        return PlanDecision(plan, fallbacks, why, error, scale=before.scale if plan is None else plan.scale)


def _may_be_memory(error: Exception | None) -> bool:
    """Whether what a policy remembers may have made it fail."""
    return error is not None and not isinstance(error, PolicyTimeout)


def _of_workers(seen: Observation, workers: Collection[str]) -> Observation:
    """Return the observation with only these workers: workers in the pool are in no plan."""
    return replace(seen, workers=tuple(worker for worker in seen.workers if worker.worker_id in workers))


def _identity(pin: Pin | None) -> tuple[str, ...]:
    """Return what identifies an order; an equal order given again is a new one."""
    return (pin.policy, str(pin.parameters), str(pin.plan_version), str(pin.created_ms)) if pin else ()
