"""`hadis`: hard prompts straight to heavy, doubtful drafts again, on the pair and thresholds of the best quality.

Source: HADIS 3.2-3.4, Eqs. 1-5: one row of the offline table, workers and batches that minimise FID. We differ: light
is charged for what reaches it (the published code charges it for all, facts/peers.md 0.11); latency is that of the
longest path a request can take under the row, where Eq. 3 sums both levels even if none takes both; a row's share of
hard prompts is that of the traffic of late; where nothing fits, all workers paint on the lightest pair's light level.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.catalog.parse import Catalog, Pair, run_ms
from planner.catalog.quality import fid_of, random_quality
from planner.control.proposal import Draft, Parameter, settle
from planner.observation.observation import Observation
from planner.solvers.two_stage.cache import key_of, recalled, with_plan
from planner.solvers.two_stage.candidates import Candidate, pruned
from planner.solvers.two_stage.explain import reason, summary
from planner.solvers.two_stage.one_pair import draft
from planner.solvers.two_stage.problem import Row
from planner.solvers.two_stage.rows import by_step, rows_of
from planner.solvers.two_stage.solve import Offer, Setup, planned, problem_of

HYBRID, ROUTER_ONLY, DISCRIMINATOR_ONLY, RANDOM = range(4)  # the variants of HADIS 4.4
SOLVED, BY_DEMAND, BY_DEMAND_AND_QUEUE = range(3)  # those of 4.5: solved anew, Cache-D, Cache-D+Q

PARAMETERS = {
    "overprovision": Parameter(1.05, 0.01, 100),  # as its published code; the paper gives none
    "queue_safety": Parameter(1.2, 0, 100),  # alpha of 3.4, without a number there; as its published code
    "signals": Parameter(HYBRID, HYBRID, RANDOM, is_whole=True),  # which of router and discriminator decide
    "cache": Parameter(SOLVED, SOLVED, BY_DEMAND_AND_QUEUE, is_whole=True),
    "batch": Parameter(0, 0, 1024, is_whole=True),  # 0: optimised; else this one on all levels
    "hop_ms": Parameter(0, 0, 1e6),  # from light's picture to heavy's job, beside the discriminator
}


def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> Draft:
    """The best row of all pairs that the catalog offers. Parameters: PARAMETERS."""
    catalog.pair()  # raises where there is none
    settings = settle(parameters, PARAMETERS)
    return _drafted(offers_of(observation, catalog, settings), observation, catalog, memory, settings)


def offers_of(seen: Observation, catalog: Catalog, settings: Mapping[str, float]) -> list[Offer]:
    """The pairs to choose from, each as a problem of its own. `settings`: PARAMETERS by name."""
    batches = dict.fromkeys(catalog.variants, int(settings["batch"])) if settings["batch"] else None
    setup = Setup(settings["overprovision"], settings["hop_ms"], queue_safety=settings["queue_safety"], batches=batches)
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
) -> Draft:
    """The best plan of all, or with a cache the one that was best in the same range."""

    def told(pair: Pair, row: Row) -> str:
        return _told(row, pair, catalog)

    is_random = settings["signals"] == RANDOM
    if not settings["cache"]:
        best = planned(offers, seen)
        return draft(best, seen, reason(best, offers, seen.planning_rps, told), is_random=is_random)
    kept, key = memory.get("kept", {}), key_of(seen, with_queues=settings["cache"] == BY_DEMAND_AND_QUEUE)
    hit = recalled(offers, kept, key)
    if hit:
        why = f"{summary(hit, seen.planning_rps, told)}: as kept for {key}"
        return draft(hit, seen, why, {"kept": dict(kept)}, is_random)
    best = planned(offers, seen)
    why = reason(best, offers, seen.planning_rps, told)
    return draft(best, seen, why, {"kept": with_plan(kept, key, best)}, is_random)


def pairs(catalog: Catalog) -> list[Pair]:
    """The pairs offered whose levels are worth it, in the catalog's order; the first where none is.

    A level of unknown quality cannot be compared and stays. Where the catalog holds rows of some pairs, the others are
    those whose rows were all beaten; a pair comes once for each step that its rows paint over from. Source: HADIS 3.2,
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
    ways = [pair._replace(paint_over_step=step) for pair in kept for step in by_step(catalog, pair)]
    return ways or kept or [catalog.pair()]


def _left(rows: Sequence[Row], signals: int, catalog: Catalog, pair: Pair) -> list[Row]:
    """The rows of an ablation: without drafts painted again, without hard prompts apart, or drawn by chance."""
    if signals == ROUTER_ONLY:
        return [row for row in rows if row.deferred == 0]
    if signals == DISCRIMINATOR_ONLY:
        return [row for row in rows if row.straight == 0]
    return [_drawn(row, catalog, pair) for row in rows] if signals == RANDOM else list(rows)


def _drawn(row: Row, catalog: Catalog, pair: Pair) -> Row:
    """The same share on heavy, drawn before anything is painted: its quality is that of a random split."""
    quality = random_quality(catalog, {pair.light: 1 - row.heavy, pair.heavy: row.heavy})
    score = row.heavy if quality is None else quality
    return replace(row, score=score, straight=row.heavy, deferred=0.0, threshold=0.0, quality=quality)


def _told(row: Row, pair: Pair, catalog: Catalog) -> str:
    levels = f"{pair.light} then {pair.heavy}"
    fid = fid_of(catalog, row.quality)
    worth = f"FID {fid:.4g}" if fid is not None else f"quality {row.quality:.4g}" if row.quality is not None else ""
    direct = f"from hardness {row.hardness:.3g} straight to {pair.heavy}" if row.straight else "none straight to heavy"
    return ", ".join(part for part in (levels, direct, f"threshold {row.threshold:.3g}", worth) if part)
