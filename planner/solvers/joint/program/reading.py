"""A solution as a proposal of a plan: routes by hardness, cascades, workers and batches, and the reason in words."""

import itertools
from collections.abc import Sequence

import numpy as np

from planner.catalog.model import Catalog
from planner.control.allocation import assign
from planner.control.proposal import PlanProposal
from planner.control.wording.format import counted, rate
from planner.observation.observation import Observation
from planner.solvers.joint.one_level import throughput
from planner.solvers.joint.program.problem import Problem, Solution, score
from schemas.messages import Cascade, Expected, Route

ROUNDING = 1e-9
SLIGHT = 2e-3  # a share of a band below it is left to the others


def proposal_of(
    problem: Problem, found: Solution, bounds: Sequence[float], seen: Observation, catalog: Catalog
) -> PlanProposal:
    """Return the proposal. `bounds`: hardness of the problem's bands, rising from 0 to 1."""
    counts = with_spares(problem, found)
    cascades = tuple(_cascades(problem, found))
    worth = score(problem, found)
    planned = seen.planning_rps / problem.demand_rps if problem.demand_rps > 0 else 0.0
    return PlanProposal(
        routes=_routes(problem, found, bounds, catalog),
        cascades=cascades,
        allocation=assign({name: counts[v] for v, name in enumerate(problem.levels) if counts[v]}, seen.workers),
        batch={name: line.batch for name, line in zip(problem.levels, found.lines, strict=True) if line},
        expected=Expected(
            demand_rps=seen.planning_rps,
            utilization=planned * max(_utilizations(problem, found, counts), default=0.0),
            heavy_share=_answered_share(problem, found, catalog.best().name),
            quality=_quality(problem, found),
        ),
        reason="; ".join([*filter(None, [found.trouble]), *_troubles(problem, found, seen)]),
        weighs_moves=True,
        is_feasible=worth.shed <= ROUNDING and _slo_s(problem, seen) >= problem.slo_s,
    )


def with_spares(problem: Problem, found: Solution) -> tuple[int, ...]:
    """Workers per variant with all workers given out: who may stay stays, then where most is to be done each."""
    counts = list(found.counts)
    running = [v for v, count in enumerate(counts) if count]
    if not running:
        quickest = int(np.argmin(np.where(np.isfinite(problem.seconds), problem.seconds, 1e9)))
        return tuple(problem.workers if v == quickest else 0 for v in range(len(counts)))
    spare = problem.workers - sum(counts)
    for v in running:
        staying = min(spare, max(0, problem.before[v] - counts[v]))
        counts[v], spare = counts[v] + staying, spare - staying
    work = _work(problem, found)
    for _ in range(spare):
        counts[max(running, key=lambda v: work[v] / counts[v])] += 1
    return tuple(counts)


def _routes(problem: Problem, found: Solution, bounds: Sequence[float], catalog: Catalog) -> tuple[Route, ...]:
    """Per band what is served, by the probabilities of its options; cut where hard prompts go elsewhere."""
    pieces: list[Route] = []
    for c, (low, high) in enumerate(itertools.pairwise(bounds)):
        used = np.flatnonzero(found.given[c] > 0)
        inner = {problem.options[o].hardness for o in used if low < problem.options[o].hardness < high}
        for start, end in itertools.pairwise([low, *sorted(inner), high]):
            levels = _levels(problem, found, c, start) or _otherwise(problem, found, catalog)
            if pieces and pieces[-1].levels == levels:
                pieces[-1] = Route(levels=levels, hardness_from=pieces[-1].hardness_from, hardness_to=end)
            else:
                pieces.append(Route(levels=levels, hardness_from=start, hardness_to=end))
    return tuple(pieces)


def _levels(problem: Problem, found: Solution, band: int, hardness: float) -> dict[str, float]:
    """level -> probability for a band's prompts from a hardness on; {} where nothing serves them."""
    shares = dict.fromkeys(problem.levels, 0.0)
    for o in np.flatnonzero(found.given[band] > 0):
        option = problem.options[o]
        straight = option.straight_to >= 0 and hardness >= option.hardness
        level = option.straight_to if straight else problem.gates[option.gate].level
        name = problem.levels[level]
        if option.reuse_step and not straight:
            name = f"{name}~k{option.reuse_step}"
        shares[name] = shares.get(name, 0.0) + float(found.given[band, o])
    least = SLIGHT * sum(shares.values())
    total = sum(share for share in shares.values() if share > least)
    return {level: share / total for level, share in shares.items() if share > least}


def _otherwise(problem: Problem, found: Solution, catalog: Catalog) -> dict[str, float]:
    """Return the route of a band without shares: to the quickest level with workers."""
    running = [level for level, count in zip(problem.levels, found.counts, strict=True) if count]
    cheapest = [variant.name for variant in (catalog.cheapest(), *catalog.cheaper_than(catalog.best().name)[::-1])]
    return {next((name for name in [*cheapest, *running] if name in running), cheapest[0]): 1.0}


def _cascades(problem: Problem, found: Solution) -> list[Cascade]:
    gates = [problem.gates[g] for g in found.gates]
    return [
        Cascade(
            level=problem.levels[gate.level],
            next_level=problem.levels[gate.next_level],
            discriminator=gate.discriminator,
            threshold=gate.threshold,
            refine_from_step=gate.refine_from_step,
        )
        for gate in gates
        if gate.next_level >= 0
    ]


def _work(problem: Problem, found: Solution) -> np.ndarray:
    """Return [V] the images a second to generate, in always busy workers."""
    images = problem.demand_rps * np.einsum("c,co,ocv->v", problem.shares, found.given, problem.load)
    runs = zip(found.lines, found.counts, strict=True)
    return np.asarray(images / [throughput(line, count) / count if line and count else 1.0 for line, count in runs])


def _utilizations(problem: Problem, found: Solution, counts: Sequence[int]) -> list[float]:
    """Busy share of each variant's workers, by run time alone."""
    images = problem.demand_rps * np.einsum("c,co,ocv->v", problem.shares, found.given, problem.load)
    return [float(p * s / n) for p, s, n in zip(images, problem.seconds, counts, strict=True) if n and p > 0]


def _answered_share(problem: Problem, found: Solution, level: str) -> float:
    """Share of the requests served that a level answers: straight or last."""
    at = problem.levels.index(level)
    answered = 0.0
    for o, option in enumerate(problem.options):
        gate = problem.gates[option.gate]
        if at in (gate.level if gate.next_level < 0 else gate.next_level, option.straight_to):
            answers = np.minimum(1.0, problem.load[o, :, at]) if not option.reuse_step else 1.0
            answered += float(problem.shares @ (found.given[:, o] * answers))
    return answered / max(_served(problem, found), ROUNDING)


def _quality(problem: Problem, found: Solution) -> float | None:
    """Mean of what is served, on the catalog's scale; None where nothing is."""
    served = _served(problem, found)
    return float(problem.shares @ (found.given * problem.quality.T).sum(axis=1)) / served if served > ROUNDING else None


def _served(problem: Problem, found: Solution) -> float:
    return float(problem.shares @ found.given.sum(axis=1))


def _troubles(problem: Problem, found: Solution, seen: Observation) -> list[str]:
    """Say which part of the demand or of the SLO the plan cannot meet."""
    troubles, shed = [], float(problem.shares @ found.shed)
    if _slo_s(problem, seen) < problem.slo_s:
        limit = f"the SLO of {seen.slo_ms / 1000:g} s"
        troubles.append(f"no level generates an image within {limit}, so this is planned for {problem.slo_s:g} s")
    if shed > ROUNDING and problem.workers:
        most = f"more than {counted(problem.workers, 'worker')} can serve in time"
        troubles.append(f"{shed:.1%} of {rate(problem.demand_rps, 'requests')} is {most}")
    return troubles


def _slo_s(problem: Problem, seen: Observation) -> float:
    return seen.slo_ms / 1000 if seen.slo_ms > 0 else problem.slo_s
