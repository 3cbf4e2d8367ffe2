"""`joint`: the best of what every paper's rule, one optimisation of everything, and small changes to either would plan.

Ours. Who goes where first, what is generated again from which step, workers and batches. Candidates are the plan in
force, the optimum of one program (SOURCES.md 7), its optimum without the step that this refines from, and the plans of
the papers' rules for this very observation. All are valued by one model of queues, quality and moves
(`planner.solvers.joint.value`), the best few are improved in it, and the best is taken. So by that model `joint` is
never worse than a rule that it contains. In a moment like that none is searched for (`planner.solvers.joint.searched`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from planner.catalog.bands import bounds_of
from planner.catalog.entries import variant_of
from planner.catalog.model import Catalog
from planner.catalog.quality import ranked
from planner.control.proposal import OURS, Parameter, PlanProposal, Policy, on_terms, validate_parameters
from planner.control.renewal.replan import HOLD_S, LATE
from planner.control.wording.format import counted
from planner.observation.observation import Observation
from planner.observation.run_times import as_served
from planner.observation.workers import reserved_in
from planner.policies import argus, clipper_heavy, clipper_light, diffserve, hadis, pac, proteus
from planner.reuse.planning import TRIED
from planner.solvers.joint import pooled, searched, taken
from planner.solvers.joint.demand import outlook_of
from planner.solvers.joint.holding import holding
from planner.solvers.joint.improve import Valued, improved
from planner.solvers.joint.loading import with_cold_loads
from planner.solvers.joint.pooled import Pool
from planner.solvers.joint.program.build import problem_of
from planner.solvers.joint.program.problem import Problem
from planner.solvers.joint.program.reading import proposal_of
from planner.solvers.joint.program.reuse import ReuseChoice, reuse_of, routes_with
from planner.solvers.joint.reserve import Bet, jumps_of, memory_of, rise_in, share_of, updated
from planner.solvers.joint.searched import SEARCHED, Searched
from planner.solvers.joint.solve import solve
from planner.solvers.joint.value import Model, Outlook, Prices
from schemas.errors import PochadeError
from schemas.messages import Expected, ReusePlan

PARAMETERS = {
    "overprovision": Parameter(1.0, 0.01, 100),  # of the demand: its uncertainty is in the model, so none is needed
    # Of requests without a draft, whose wait must fit the SLO in the program; the model of value has no such number.
    "percentile": Parameter(0.9, 0, 0.999),
    "variability": Parameter(0.6, 0, 100),  # of arrivals and run times, in Allen-Cunneen: 1 is M/M/k, .5 M/D/k
    "hold_s": Parameter(HOLD_S, 0.1, 1e6),  # how long a plan is expected to hold: what a move must pay in
    "away": Parameter(1.0, 0, 1e6),  # all workers' time on their way to other variants, in units of quality
    "backlog_s": Parameter(48, 0.1, 1e6),  # the longest wait that routers let requests in to
    "remember_s": Parameter(3600, 0, 1e6),  # what demand has jumped to, to be ready for it while it pays; 0: it is not
    "together_s": Parameter(100, 0, 1e6),  # on a scale of FID: how long ago answers count a third with those to come
    "stake": Parameter(1.0, 1e-3, 50),  # weight of being ready after a jump, against 1 of not being ready
    "stake_rate": Parameter(8.0, 0.1, 1e3),  # at which that weight learns whether being ready pays
    "late": Parameter(LATE, 0, 1e6),  # what a request costs that is not in time, in units of quality
    "busy": Parameter(1e-3, 0, 1e6),  # all workers' time while they generate, in units of quality
    "debt": Parameter(2.0, 0, 1e6),  # all workers' time that is owed to queues in the end, in units of quality
    "reuse": Parameter(1, 0, 1, is_whole=True),  # from stored latents: 0 never, 1 where the profile shows gain
    "learns": Parameter(1, 0, 1, is_whole=True),  # deferral as served; 0: as profiled
    "profiles": Parameter(1, 0, 1, is_whole=True),  # run times as served; 0: as profiled
    "rules": Parameter(1, 0, 1, is_whole=True),  # whether the papers' plans are candidates
    "improve": Parameter(3, 0, 100, is_whole=True),  # candidates that are improved
}

RULES: Final[dict[str, Policy]] = {
    "clipper-light": clipper_light.plan,
    "clipper-heavy": clipper_heavy.plan,
    "proteus": proteus.plan,
    "diffserve": diffserve.plan,
    "hadis": hadis.plan,
    "pac": pac.plan,
    "argus": argus.plan,
}
NEEDS_CASCADE: Final = frozenset({"diffserve", "hadis"})
BLIND: Final = frozenset({"proteus", "pac"})  # send each worker as much as any other, whatever it can carry
FEW_REQUESTS: Final = 100  # while a plan holds, of which no share is stated
MAX_LATE_SHARE: Final = 0.01  # of the requests late: with more a plan is not feasible
Candidates = Sequence[PlanProposal]


@on_terms(OURS._replace(learns=True, on_change=True, holds=True))
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Return the best plan found. Parameters: PARAMETERS."""
    settings = validate_parameters(parameters, PARAMETERS)
    run_times = observation.run_times if settings["profiles"] else ()
    catalog = as_served(ranked(catalog), run_times)
    catalog = with_cold_loads(catalog, observation.components, observation.now_ms, settings["hold_s"])
    observation = replace(
        observation, run_times=(), deferral=observation.deferral if settings["learns"] else ()
    )  # the catalog has the run times now
    reuse = reuse_of(observation, catalog, memory) if settings["reuse"] else ReuseChoice()
    outlook = outlook_of(observation, settings["overprovision"])
    terms = [dict(parameters), [level.name for level in reuse.levels], reserved_in(observation.workers)]
    last = searched.recalled(memory, terms)
    if last is not None and last.is_near(outlook.mean_rps, observation.now_ms):
        moment = _Moment(observation, catalog, settings, outlook, memory, last)
        if (force := _in_force(moment.model, reuse.plan)) and (best := last.stays(moment.model, force)):
            notes = moment.notes(best, last.plans(observation, force), 0) | {SEARCHED: memory[SEARCHED]}
            return _proposal(moment.model, best, notes, reuse)
    problem = problem_of(observation, catalog, settings, reuse.levels)
    now = Searched(
        observation.now_ms // 1000, outlook.mean_rps, problem.unit, problem.slo_s, min(problem.switch_s, default=0.0)
    )
    moment = _Moment(observation, catalog, settings, outlook, memory, now)
    found = solve(problem)
    own = replace(proposal_of(problem, found, bounds_of(catalog), observation, catalog), reuse=reuse.plan)
    if not observation.workers or not problem.options:
        notes = memory_of(moment.reserve) | dict(reuse.memory)
        proposal = replace(own, memory=notes, reason=own.reason + _describe_reuse(reuse, own))
        return with_components(proposal, catalog)
    programs = [own, *_other_refining(problem, own, observation, catalog)]
    candidates, most = list(_candidates(moment.model, programs, bool(settings["rules"]))), int(settings["improve"])
    candidates.extend(list(holding(moment.model.held, candidates, observation, catalog)) if moment.model.held else ())
    best, valued = _best(moment.model, candidates, most)
    notes = moment.notes(best, candidates, min(1, most))
    notes |= searched.memory_of(now, best, valued, terms)
    return _proposal(moment.model, best, notes, reuse, found.trouble)


class _Moment:
    """The moment of a plan: how far to be ready for a jump of demand, and the model that plans are valued by."""

    def __init__(
        self, seen: Observation, catalog: Catalog, settings: Mapping[str, float], outlook: Outlook,
        memory: Mapping[str, Any], measured: Searched,
    ) -> None:  # fmt: skip
        self._memory, now_ms = memory, seen.now_ms
        bet = Bet(settings["stake_rate"], settings["stake"])
        rise = rise_in(seen.counts, now_ms, measured.away_s, measured.slo_s)
        self.reserve = updated(memory, bet, settings["remember_s"], rise, now_ms, settings["late"])
        self._share = share_of(self.reserve.weight(bet))
        jumps = jumps_of(self.reserve, self._share, outlook.mean_rps, measured.away_s, settings["hold_s"], now_ms)
        self._pool = pooled.pool_of(memory, catalog, seen.demand_rps, settings["together_s"], now_ms)
        barred = taken.barred_levels(memory, now_ms)
        self.model = model_of(seen, catalog, settings, outlook._replace(jumps=jumps), measured, self._pool, barred)
        self._calm = model_of(seen, catalog, settings, outlook, measured, self._pool, barred) if jumps else None

    def notes(self, best: Valued, candidates: Candidates, most: int) -> dict[str, Any]:
        """Return what is to be remembered with a plan; `candidates`, `most`: see `_best`."""
        reserve, now_ms = self.reserve, self.model.seen.now_ms
        if self._calm is not None:
            cost = _cost(self._calm, best.plan, candidates, most) / self._share
            reserve = reserve._replace(cost=float(f"{cost:.3g}"), at_s=now_ms // 1000)
        notes = memory_of(reserve) | pooled.memory_of(self._pool, best.value.answers, now_ms)
        return notes | taken.memory_of(self._memory, best.plan, self.model.seen, self.model.catalog)


def _proposal(
    model: Model, best: Valued, notes: dict[str, Any], reuse: ReuseChoice, trouble: str = ""
) -> PlanProposal:  # fmt: skip
    """Return the best plan as a proposal that remembers this."""
    seen = model.seen
    served = set(best.plan.allocation.values())
    cascades = tuple(each for each in best.plan.cascades if each.threshold > 0 and each.next_level in served)
    best_plan = replace(
        best.plan, routes=routes_with(reuse, best.plan.routes, cascades), cascades=cascades,
        memory=notes | dict(reuse.memory), weighs_moves=True,
        holds=0 < seen.tiers.get("interactive", 0) < 1,  # else no job overtakes another
    )  # fmt: skip
    chosen = with_components(best_plan, model.catalog)
    return replace(
        chosen,
        expected=_expected(model, best),
        reason="; ".join(_describe_late(model, best) + _troubles(trouble, model.slo_s, seen))
        + _describe_reuse(reuse, chosen),
        is_feasible=best.value.late < MAX_LATE_SHARE and seen.slo_ms / 1000 in (0.0, model.slo_s),
    )


def with_components(proposal: PlanProposal, catalog: Catalog) -> PlanProposal:
    """Return a proposal whose plan places components, so that idle workers load ahead what it wants of them, and by
    which a load counts in the choice of a worker; as it is where no variant lists bases."""
    if not any(variant.bases for variant in catalog.served.values()):
        return proposal
    return replace(proposal, dispatch="least-cost", places_components=True)


def model_of(
    seen: Observation,
    catalog: Catalog,
    settings: Mapping[str, float],
    outlook: Outlook,
    problem: Problem | Searched,
    pool: Pool | None = None,
    barred: frozenset[str] = frozenset(),
) -> Model:
    """The model that all candidates are valued by. `settings`: PARAMETERS by name; `catalog`, `pool`: see `Model`.

    `problem`: the scale of quality and the SLO.
    """
    prices = Prices(
        problem.unit,
        late=settings["late"],
        busy=settings["busy"],
        debt=settings["debt"],
        away=settings["away"],
        hold_s=settings["hold_s"],
        variability=settings["variability"],
    )
    hop_s = (seen.hop_ms or 0.0) / 1000
    return Model(catalog, seen, outlook, prices, problem.slo_s, hop_s, settings["backlog_s"], pool, barred)


def _cost(calm: Model, ready: PlanProposal, candidates: Candidates, most: int) -> float:
    """Return the cost of being ready for a jump until one comes, in units of quality a second."""
    plain, _ = _best(calm, candidates, most)
    return max(0.0, plain.value.total - calm.evaluate(ready).total) * calm.outlook.mean_rps


def _best(model: Model, candidates: Candidates, most: int) -> tuple[Valued, list[Valued]]:
    """The best candidate, improved, and all that were valued; `most`: how many are improved."""
    ranked = sorted((Valued(plan, model.evaluate(plan)) for plan in candidates), key=lambda each: -each.value.total)
    apart = {_decided(each.plan): each for each in reversed(ranked)}  # of equal plans the first
    tried = [each for each in ranked if apart[_decided(each.plan)] is each][:most]
    every = [*ranked, *(improved(model, each) for each in tried)]
    return max(every, key=lambda each: each.value.total), every


def _other_refining(problem: Problem, own: PlanProposal, seen: Observation, catalog: Catalog) -> Iterator[PlanProposal]:
    """The program's plan without each step that its own plan refines from.

    No small change leads from one step to another: the time that it saves must go to other prompts in the same change.
    """
    for step in sorted({cascade.refine_from_step for cascade in own.cascades}):
        if len({gate.refine_from_step for gate in problem.gates if gate.next_level >= 0}) > 1:
            other = problem.without_refining(step)
            plan = proposal_of(other, solve(other), bounds_of(catalog), seen, catalog)
            yield replace(plan, reuse=own.reuse)


def _candidates(model: Model, programs: Sequence[PlanProposal], uses_rules: bool) -> Iterator[PlanProposal]:
    seen, catalog, own = model.seen, model.catalog, programs[0]
    if force := _in_force(model, own.reuse):
        yield force
    yield from programs
    has_classes = bool(seen.classes.get("models")) and bool(catalog.classes("models"))
    for name, rule in RULES.items() if uses_rules else ():
        if (name in NEEDS_CASCADE and not catalog.cascades) or (name == "argus" and not has_classes):
            continue  # without classes argus is pac
        try:
            plan = rule(seen, catalog, {}, {})
        except PochadeError:  # a rule that this catalog has nothing for
            continue
        if plan.strategy == "models" and _is_served(plan):
            yield replace(plan, reuse=own.reuse)
            if name in BLIND:
                carried = proteus.by_capacity(plan, catalog, model.outlook.mean_rps)
                yield replace(carried, reuse=own.reuse)


def _in_force(model: Model, reuse: ReusePlan | None) -> PlanProposal | None:
    """Return the plan in force as a candidate; None if its workers or variants are others."""
    force = model.seen.in_force
    here = {worker.worker_id: worker.home for worker in model.seen.workers}
    if force is None or force.allocation != here or not force.batch.keys() <= model.catalog.variants.keys():
        return None
    return PlanProposal(
        strategy=force.strategy, routes=force.routes, cascades=force.cascades, allocation=force.allocation,
        batch=force.batch, dispatch=force.dispatch, reuse=reuse or force.reuse, reason=force.reason,
    )  # fmt: skip


def _decided(plan: PlanProposal) -> str:
    """Return a plan's decisions as a key, so that equal plans are recognised."""
    counts = sorted(Counter(plan.allocation.values()).items())
    return repr((plan.routes, plan.cascades, counts, sorted((v, plan.batch.get(v, 1)) for v, _ in counts)))


def _is_served(plan: PlanProposal) -> bool:
    """Whether all levels that a plan sends requests to have a worker."""
    used = {level for route in plan.routes for level, share in route.levels.items() if share > 0}
    used |= {cascade.next_level for cascade in plan.cascades if cascade.threshold > 0}
    return {variant_of(level) for level in used} <= set(plan.allocation.values())


def _expected(model: Model, best: Valued) -> Expected:
    value = best.value
    return Expected(
        demand_rps=model.outlook.mean_rps,
        utilization=value.utilization,
        heavy_share=value.best_share,
        quality=value.quality,
    )


def _describe_late(model: Model, best: Valued) -> list[str]:
    """Say what share of the requests ends late, of few requests the number; [] of hardly any."""
    late, requests = best.value.late, max(1.0, model.outlook.mean_rps * model.prices.hold_s)
    few = round(late * requests)
    if requests < FEW_REQUESTS:
        return [f"{counted(few, 'request')} {'is' if few == 1 else 'are'} expected to end late"] if few else []
    return [f"{late:.1%} of the requests are expected to end late"] if late >= MAX_LATE_SHARE / 10 else []


def _troubles(trouble: str, slo_s: float, seen: Observation) -> list[str]:
    """Say what the program lacked, and which part of the SLO no plan can meet."""
    troubles = [trouble] if trouble else []
    if 0 < seen.slo_ms / 1000 < slo_s:
        limit = f"the SLO of {seen.slo_ms / 1000:g} s"
        troubles.append(f"no level generates an image within {limit}, so this is planned for {slo_s:g} s")
    return troubles


def _describe_reuse(reuse: ReuseChoice, plan: PlanProposal) -> str:
    """Say which levels begin from stored latents, or why none does; "" where the catalog has no profile of reuse."""
    used = {level for route in plan.routes for level, share in route.levels.items() if share > 0}
    begun = sorted(used & {level.name for level in reuse.levels})
    if begun:
        return f"; images of {', '.join(begun)} begin from similar stored ones where there are any"
    why_not = reuse.why_not or ("it would not save time" if reuse.levels else "")
    if used & set(reuse.plan.hits if reuse.plan else ()):
        tried = f"{TRIED:.0%} of the requests are looked up, to see whether prompts repeat again"
        return f"; few images begin from stored ones: {why_not}, and {tried}"
    return f"; no image begins from a stored one: {why_not}" if why_not else ""
