"""`joint`: who goes where first, what is generated again from which step, workers and batches: one optimisation. Ours.

Every policy of the papers is this with something fixed (SOURCES.md 7). Fewest requests unserved, then measured
quality, then worker-seconds, then moves, as one weighted sum (`planner.solvers.joint.problem.Score`). Then the
cheapest that is good enough: among plans whose quality is within the catalog's `indifference` of that one, one with
less work. Workers stand by for what demand has jumped to of late, quality is planned for the demand of now
(`planner.solvers.joint.standby`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.catalog.bands import bounds_of
from planner.catalog.model import Catalog
from planner.control.proposal import Parameter, PlanProposal, validate_parameters
from planner.control.replan import HOLD_S
from planner.observation.observation import Observation
from planner.solvers.joint.build import problem_of
from planner.solvers.joint.reading import draft_of
from planner.solvers.joint.reuse import ReuseChoice, reuse_of
from planner.solvers.joint.rises import memory_of, remembered, rise_in
from planner.solvers.joint.solve import solve
from planner.solvers.joint.standby import standbys, with_standby, without_standby
from schemas.messages import Route

PARAMETERS = {
    # Of the demand planned for. Above 1.05, DiffServe's (3.3), of first images alone; below 1 nobody stands by.
    "overprovision": Parameter(1.05, 0.01, 100),
    # Of requests without a draft, whose wait must fit the SLO at the demand planned for: a forecast's .9 quantile times
    # 1.05. At the mean demand, about .84 of that, 2 to 7 % wait longer (Erlang C, 2 to 8 servers); 10 to 30 % at .5.
    "percentile": Parameter(0.9, 0, 0.999),
    "variability": Parameter(0.7, 0, 100),  # of arrivals and run times, in Allen-Cunneen: 1 is M/M/k, .5 M/D/k
    "hop_ms": Parameter(0, 0, 1e6),  # between two stages: topics and stores
    "hold_s": Parameter(HOLD_S, 0.1, 1e6),  # how long a plan is expected to hold: what a move must pay in
    "remember_s": Parameter(600, 0, 1e6),  # what demand has jumped to, to stand ready for it; 0: it is not
    "recover_s": Parameter(30, 0.1, 1e6),  # in which the jobs waiting now should be worked off
    "indifference": Parameter(-1, -1, 1e6),  # quality that less work may cost; below 0: the catalog's
    "reuse": Parameter(1, 0, 1, is_whole=True),  # from stored latents: 0 never, 1 where the profile shows gain
    "time_limit_s": Parameter(1, 0.01, 600),  # of each of at most two programs of a small problem
}


def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Return the best plan found. Parameters: PARAMETERS."""
    settings = validate_parameters(parameters, PARAMETERS)
    reuse = reuse_of(observation, catalog, memory) if settings["reuse"] else ReuseChoice()
    problem, now_ms = problem_of(observation, catalog, settings, reuse.levels), observation.now_ms
    rise = rise_in(observation.counts, now_ms, min(problem.switch_s, default=0.0), problem.slo_s)
    rises = remembered(memory, settings["remember_s"], rise, now_ms)
    wider = with_standby(problem, standbys(problem, rises, observation, settings))
    found = without_standby(solve(wider, settings["time_limit_s"]), problem)
    draft = draft_of(problem, found, bounds_of(catalog), observation, catalog)
    return replace(  # the plan in force is in the workers' homes
        draft,
        memory=memory_of(rises) | dict(reuse.memory),
        reuse=reuse.plan,
        reason=draft.reason + _describe(reuse, draft.routes),
    )


def _describe(reuse: ReuseChoice, routes: Sequence[Route]) -> str:
    """Say which levels begin from stored latents, or why none does; "" where the catalog has no profile of reuse."""
    used = {level for route in routes for level, share in route.levels.items() if share > 0}
    begun = sorted(used & {level.name for level in reuse.levels})
    if begun:
        return f", from stored latents where they are near: {', '.join(begun)}"
    why_not = reuse.why_not or ("it would not pay" if reuse.levels else "")
    return f", nothing is reused: {why_not}" if why_not else ""
