"""The cases of `bench planner`: policies, sizes of fleets, and the baselines that plans are compared with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planner import policies as every
from planner.catalog.model import Catalog
from planner.control.proposal import validate_parameters
from planner.observation.observation import Observation
from planner.policies import (
    PlanProposal,
    Policy,
    argus,
    diffserve,
    hadis,
    joint,
    lru_round_robin,
    mlora,
    nirvana,
    octoai,
    pac,
    proteus,
    push_round_robin,
    sommelier,
)
from planner.solvers.joint.program.build import problem_of as joint_problem
from planner.solvers.joint.program.problem import score
from planner.solvers.joint.solve import solve as solve_joint
from planner.solvers.levels.drafting import PARAMETERS as MIXES
from planner.solvers.levels.level_mix import mean_quality
from planner.solvers.levels.level_mix import offers_of as levels_of
from planner.solvers.two_stage.problem import threshold_rows
from planner.solvers.two_stage.solve import Offer, Setup, problem_of
from replay.bench.baselines import planner_baselines as plain
from replay.bench.baselines.planner_baselines import Found
from replay.bench.environment.planner_instance import catalog as made_up
from replay.bench.environment.planner_instance import observations

LEVELS, CLASSES = 8, 6
ROUNDING = 1e-6  # of an objective
JOINT_LOSES = 0.01  # of the span of quality: what a search may miss of what the whole program finds


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A policy at a size. Objectives: higher is better, None where no plan meets the demand and the SLO."""

    policy: Policy
    catalog: Catalog
    workers: int
    observations: Sequence[Observation]
    wanted_ms: float | None = None  # a plan should take less
    objective: Callable[[Observation, PlanProposal], float | None] | None = None
    baseline: Callable[[Observation, float], Found] | None = None  # (what is seen, seconds) -> its answer
    tolerance: float = ROUNDING  # an objective less by no more is no worse

    @property
    def name(self) -> str:
        """Name of the case in reports."""
        policy = next(name for name, plan in every.POLICIES.items() if plan is self.policy)
        return f"{policy}: {self.workers} workers, {self.catalog.name}"


class Size(NamedTuple):
    """A policy, the shipped catalog it plans for ("": a made-up one) and the workers."""

    policy: Policy
    catalog: str = "diffserve-sdturbo"
    workers: int = 16
    wanted_ms: float | None = None


SIZES = (
    Size(diffserve.plan, wanted_ms=10),
    Size(hadis.plan, "hadis-l40s", 16, 10),
    Size(argus.plan, "argus-a100", 64, 50),
    Size(joint.plan, "", 64, 100),
    Size(joint.plan, "", 1000, 2000),
    Size(joint.plan, "hadis-l40s", 16),
    *(
        Size(one.plan, "argus-a100", 64)
        for one in (pac, proteus, sommelier, nirvana, mlora, lru_round_robin, octoai, push_round_robin)
    ),
)


def sizes() -> list[Size]:
    """Return the sizes named above, and one by default for each other policy of the table."""
    named = {size.policy for size in SIZES}
    return [*SIZES, *(Size(policy) for policy in every.POLICIES.values() if policy not in named)]


def cases(load: Callable[[str], Catalog], count: int, seed: int, policies: Sequence[str] = ()) -> list[Case]:
    """Return all cases, or those of some policies, with `count` observations each. `load` loads a shipped catalog.

    Raises Unknown for a unknown policy.
    """
    asked = [every.named(policy) for policy in policies]
    return [
        a_case(
            size.policy,
            load(size.catalog) if size.catalog else made_up(LEVELS, CLASSES, seed),
            size.workers, count, seed, size.wanted_ms,
        )
        for size in sizes()
        if size.policy in asked or not asked
    ]  # fmt: skip


def a_case(
    policy: Policy, chosen: Catalog, workers: int, count: int, seed: int, wanted_ms: float | None = None
) -> Case:
    """A policy on a catalog; with a baseline where it has one."""
    objective, baseline = _SIDES.get(policy, (None, None))
    return Case(
        policy=policy,
        catalog=chosen,
        workers=workers,
        observations=observations(chosen, workers, count, seed, chosen.slo_s),
        wanted_ms=wanted_ms,
        objective=objective and (lambda seen, draft: objective(seen, draft, chosen)),
        baseline=baseline and (lambda seen, limit_s: baseline(seen, chosen, limit_s)),
        tolerance=JOINT_LOSES if policy is joint.plan else ROUNDING,
    )


def _threshold(seen: Observation, draft: PlanProposal, chosen: Catalog) -> float | None:
    del seen, chosen
    return draft.cascades[0].threshold if draft.is_feasible else None


def _diffserve(seen: Observation, chosen: Catalog, limit_s: float) -> Found:
    settings, pair = validate_parameters({}, diffserve.PARAMETERS), chosen.pair()
    rows, setup = threshold_rows(chosen, pair, seen), Setup(settings["overprovision"])
    return plain.two_stage([Offer(pair, problem_of(pair, rows, seen, chosen, setup))], limit_s)


def _quality(seen: Observation, draft: PlanProposal, chosen: Catalog) -> float | None:
    del seen, chosen
    return draft.expected.quality if draft.is_feasible and draft.expected else None


def _hadis(seen: Observation, chosen: Catalog, limit_s: float) -> Found:
    return plain.two_stage(hadis.offers_of(seen, chosen, validate_parameters({}, hadis.PARAMETERS)), limit_s)


def _mix(seen: Observation, draft: PlanProposal, chosen: Catalog) -> float | None:
    """Return Eq. 1's objective: the route of requests without a class has the shares F."""
    del seen
    return mean_quality(draft.routes[-1].levels, levels_of(chosen, {}))


def _argus(seen: Observation, chosen: Catalog, limit_s: float) -> Found:
    demand_rps = validate_parameters({}, MIXES)["overprovision"] * seen.planning_rps
    return plain.equation_1(levels_of(chosen, {}), len(seen.workers), demand_rps, limit_s)


def _joint_score(seen: Observation, draft: PlanProposal, chosen: Catalog) -> float | None:
    del draft  # has no expected quality
    settings = validate_parameters({}, joint.PARAMETERS)
    problem = joint_problem(seen, chosen, settings)
    return score(problem, solve_joint(problem)).value


def _joint(seen: Observation, chosen: Catalog, limit_s: float) -> Found:
    return plain.joint(joint_problem(seen, chosen, validate_parameters({}, joint.PARAMETERS)), limit_s)


_SIDES: dict[
    Policy,
    tuple[Callable[[Observation, PlanProposal, Catalog], float | None], Callable[[Observation, Catalog, float], Found]],
] = {
    diffserve.plan: (_threshold, _diffserve),
    hadis.plan: (_quality, _hadis),
    argus.plan: (_mix, _argus),
    joint.plan: (_joint_score, _joint),
}
