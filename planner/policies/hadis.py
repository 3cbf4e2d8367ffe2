"""`hadis`: hard prompts straight to heavy, doubtful drafts again, on the pair and thresholds of the best quality.

Source: HADIS 3.2-3.4, Eqs. 1-5: one row of the offline table, workers and batches that minimise FID. We differ: light
is charged for what reaches it (the published code charges it for all, SOURCES.md 3.11); latency is that of the
longest path a request can take under the row, where Eq. 3 sums both levels even if none takes both; a row's share of
hard prompts is that of recent traffic; where nothing fits, all workers generate on the lightest pair's light level.

Plans may be kept for the range of demand that they were made for, in place of solving anew. Source: HADIS 4.5, its
baselines: Cache-D looks a plan up by the range of demand, Cache-D+Q by that and the range of what waits; a hit is
applied, a miss solves and is kept. The paper gives no ranges: here each is a fifth wider than the one before, and twice
as long.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog, Pair
from planner.catalog.quality import fid_of, random_quality
from planner.control.proposal import AS_PUBLISHED, Parameter, PlanProposal, on_terms, validate_parameters
from planner.observation.observation import Observation
from planner.solvers.two_stage.candidates import Candidate, pruned
from planner.solvers.two_stage.explain import reason
from planner.solvers.two_stage.problem import Answer, Row, by_step, latencies, rows_of
from planner.solvers.two_stage.solve import Offer, PairPlan, Setup, draft, planned, problem_of

HYBRID, ROUTER_ONLY, DISCRIMINATOR_ONLY, RANDOM = range(4)  # the variants of HADIS 4.4
SOLVED, BY_DEMAND, BY_DEMAND_AND_QUEUE = range(3)  # those of 4.5: solved anew, Cache-D, Cache-D+Q

PARAMETERS = {
    "overprovision": Parameter(1.05, 0.01, 100),  # as its published code; the paper gives none
    "queue_safety": Parameter(1.2, 0, 100),  # alpha of 3.4, without a number there; as its published code
    "signals": Parameter(HYBRID, HYBRID, RANDOM, is_whole=True),  # which of router and discriminator decide
    "cache": Parameter(SOLVED, SOLVED, BY_DEMAND_AND_QUEUE, is_whole=True),
    "batch": Parameter(0, 0, 1024, is_whole=True),  # 0: optimised; else this one on all levels
    "learns": Parameter(0, 0, 1, is_whole=True),  # 1: deferral as served; HADIS 3.2: its table is "the sole input"
}

DEMAND_STEP = 1.2  # a range of demand is this much wider than the one before
MAX_REMEMBERED = 256  # plans kept; one more and all are forgotten

RememberedRows = dict[str, list[Any]]  # key -> light, heavy, step, row, its threshold and hardness, workers, batches


@on_terms(AS_PUBLISHED)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """The best row of all pairs that the catalog offers. Parameters: PARAMETERS."""
    catalog.pair()  # raises where there is none
    settings = validate_parameters(parameters, PARAMETERS)
    observation = observation if settings["learns"] else replace(observation, deferral=())
    return _drafted(offers_of(observation, catalog, settings), observation, catalog, memory, settings)


def offers_of(seen: Observation, catalog: Catalog, settings: Mapping[str, float]) -> list[Offer]:
    """The pairs to choose from, each as a problem of its own. `settings`: PARAMETERS by name."""
    batches = dict.fromkeys(catalog.variants, int(settings["batch"])) if settings["batch"] else None
    setup = Setup(settings["overprovision"], queue_safety=settings["queue_safety"], batches=batches)
    offers = []
    for pair in pairs(catalog):
        rows = _left(rows_of(catalog, pair, seen), int(settings["signals"]), catalog, pair)
        offers.append(Offer(pair, problem_of(pair, rows, seen, catalog, setup)))
    return offers


def _drafted(
    offers: Sequence[Offer],
    seen: Observation,
    catalog: Catalog,
    memory: Mapping[str, Any],
    settings: Mapping[str, float],
) -> PlanProposal:
    """The best plan of all, or with a cache the one that was best in the same range."""

    def describe(pair: Pair, row: Row) -> str:
        return _describe_row(row, pair, catalog)

    is_random = settings["signals"] == RANDOM
    if not settings["cache"]:
        best = planned(offers, seen)
        return draft(best, seen, reason(best, offers, seen.planning_rps, describe), is_random=is_random)
    kept, key = memory.get("kept", {}), key_of(seen, with_queues=settings["cache"] == BY_DEMAND_AND_QUEUE)
    hit = recalled(offers, kept, key)
    if hit:
        return draft(hit, seen, f"reused from an earlier plan for {key}", {"kept": dict(kept)}, is_random)
    best = planned(offers, seen)
    why = reason(best, offers, seen.planning_rps, describe)
    return draft(best, seen, why, {"kept": with_plan(kept, key, best)}, is_random)


def key_of(seen: Observation, with_queues: bool) -> str:
    """Return the ranges that an observation lies in, and the number of workers, for which a remembered plan holds."""
    demand = math.floor(math.log(seen.planning_rps, DEMAND_STEP)) if seen.planning_rps > 0 else "none"
    waiting = math.floor(math.log2(1 + sum(queue.waiting for queue in seen.queues)))
    return f"{len(seen.workers)} workers, demand {demand}" + (f", queue {waiting}" if with_queues else "")


def recalled(offers: Sequence[Offer], kept: Mapping[str, Any], key: str) -> PairPlan | None:
    """The plan kept under a key, fit or not for the demand of today; None where the catalog no longer has it."""
    if key not in kept:
        return None
    *way, at, threshold, hardness, x1, x2, b1, b2 = kept[key]
    offer = next((offer for offer in offers if _way(offer.pair) == way), None)
    if offer is None or at >= len(offer.problem.rows):
        return None
    problem, row = offer.problem, offer.problem.rows[at]
    sizes = [b for b, _ in problem.light.run_ms], [b for b, _ in problem.heavy.run_ms]
    if (row.threshold, row.hardness) != (threshold, hardness) or b1 not in sizes[0] or b2 not in sizes[1]:
        return None
    light_load = problem.demand_rps * row.light / problem.light.throughput_rps(b1) / max(1, x1)
    heavy_load = problem.demand_rps * problem.work(row) / problem.heavy.throughput_rps(b2) / max(1, x2)
    latency_ms = float(latencies(problem)[at, sizes[0].index(b1), sizes[1].index(b2)])
    is_feasible = max(light_load, heavy_load) <= 1 and latency_ms <= problem.slo_ms
    return PairPlan(*offer, Answer(row, (x1, x2), (b1, b2), (light_load, heavy_load), latency_ms), is_feasible)


def with_plan(kept: Mapping[str, Any], key: str, plan: PairPlan) -> RememberedRows:
    """Return the remembered plans with this one added, unless it was made because none fits."""
    if not plan.is_feasible:
        return dict(kept)
    row, answer = plan.answer.row, plan.answer
    made = [*_way(plan.pair), plan.problem.rows.index(row), row.threshold, row.hardness]
    return (dict(kept) if len(kept) < MAX_REMEMBERED else {}) | {key: [*made, *answer.workers, *answer.batches]}


def _way(pair: Pair) -> list[Any]:
    return [pair.light, pair.heavy, pair.refine_from_step]


def pairs(catalog: Catalog) -> list[Pair]:
    """The pairs offered whose levels are worth it, in the catalog's order; the first where none is.

    A level of unknown quality cannot be compared and stays. Where the catalog holds rows of some pairs, the others are
    those whose rows were all beaten; a pair comes once for each step that its rows refine from. Source: HADIS 3.2,
    candidate selection and table pruning; steps are ours.
    """
    levels = {level for pair in catalog.cascades for level in (pair.light, pair.heavy)}
    pool = [
        Candidate(level, run_ms(catalog.level(level), 1), quality)
        for level in sorted(levels)
        if (quality := catalog.level(level).quality) is not None
    ]
    dropped = pruned(pool)
    kept = [pair for pair in catalog.cascades if pair.light not in dropped and pair.heavy not in dropped]
    ways = [pair._replace(refine_from_step=step) for pair in kept for step in by_step(catalog, pair)]
    return ways or kept or [catalog.pair()]


def _left(rows: Sequence[Row], signals: int, catalog: Catalog, pair: Pair) -> list[Row]:
    """Return the rows of an ablation: without escalation, without routing hard prompts to heavy, or split by chance."""
    if signals == ROUTER_ONLY:
        return [row for row in rows if row.deferred == 0]
    if signals == DISCRIMINATOR_ONLY:
        return [row for row in rows if row.straight == 0]
    return [_random_split(row, catalog, pair) for row in rows] if signals == RANDOM else list(rows)


def _random_split(row: Row, catalog: Catalog, pair: Pair) -> Row:
    """Return the row with its share on heavy drawn before generation: its quality is that of a random split."""
    quality = random_quality(catalog, {pair.light: 1 - row.heavy, pair.heavy: row.heavy})
    score = row.heavy if quality is None else quality
    return replace(row, score=score, straight=row.heavy, deferred=0.0, threshold=0.0, quality=quality)


def _describe_row(row: Row, pair: Pair, catalog: Catalog) -> str:
    levels = f"{pair.light} then {pair.heavy}"
    fid = fid_of(catalog, row.quality)
    worth = f"FID {fid:.4g}" if fid is not None else f"quality {row.quality:.4g}" if row.quality is not None else ""
    direct = (
        f"prompts from hardness {row.hardness:.3g} on go straight to {pair.heavy}"
        if row.straight
        else f"no prompt goes straight to {pair.heavy}"
    )
    return ", ".join(part for part in (levels, direct, f"a threshold of {row.threshold:.3g}", worth) if part)
