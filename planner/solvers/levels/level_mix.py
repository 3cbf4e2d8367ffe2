"""How many workers paint on which level, and what share of the demand each level takes: ARGUS's Eq. 1.

    offers   (level, variant, rps, quality)      demand W (1/s)      n workers
    Mix      counts: level -> workers            shares F: level -> share of what is painted, sums to 1

Source: ARGUS 4.2, Eq. 1, there with a worker's level x and load y, whose product is not linear. Identical workers are
counts here, F is a share of the demand, and what cannot be carried is left over instead of making it infeasible
(facts/mission-table.md A.4). No queue is modelled: over-provisioning is the caller's.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pulp

from planner.solvers.milp import solve

CLOSE = 1e-6  # shares nearer than the solver's own tolerance are the same


class Offer(NamedTuple):
    """A level as Eq. 1 sees it."""

    level: str
    variant: str  # that paints it
    rps: float  # P_th, pictures a second of one busy worker, > 0
    quality: float  # Q_v, any one scale, higher is better


class Mix(NamedTuple):
    """An answer to Eq. 1."""

    counts: dict[str, int]  # variant -> workers
    shares: dict[str, float]  # F: level -> share, only positive ones, the slowest first
    carried: float  # share of the demand that the workers can paint; 1: all
    trouble: str = ""  # why this may not be the optimum; "": it is


def most_quality(offers: Sequence[Offer], n_workers: int, demand_rps: float) -> Mix:
    """Eq. 1 where every worker serves one level: an integer program.

    `offers`: one a variant, the slowest first. What exceeds all workers on the fastest level is not carried.
    """
    best, fastest = max(offers, key=lambda o: (o.quality, o.rps)), offers[-1]
    if n_workers * best.rps >= demand_rps:
        return fill({best.variant: n_workers}, offers, demand_rps)
    if n_workers * fastest.rps <= demand_rps * (1 + CLOSE):
        return fill({fastest.variant: n_workers}, offers, demand_rps)
    counts, trouble = _program(offers, n_workers, demand_rps)
    counts = counts or _best_pair(offers, n_workers, demand_rps)
    idle = n_workers - sum(counts.values())  # only of an answer that is no optimum: on the best level they better it
    counts[best.variant] = counts.get(best.variant, 0) + idle
    return fill(counts, offers, demand_rps)._replace(trouble=trouble)


def most_quality_shared(offers: Sequence[Offer], n_workers: int, demand_rps: float) -> Mix:
    """Eq. 1 where every worker paints every level, the slowest first: reuse levels of one variant.

    A linear program of two constraints, sum F = 1 and the workers' time, so that some pair of levels is optimal.
    """
    counts, fastest = {offers[0].variant: n_workers}, offers[-1]
    work = [demand_rps / offer.rps for offer in offers]  # workers that all of the demand would keep busy
    if work[-1] > n_workers or n_workers == 0:
        return Mix(counts, {fastest.level: 1.0}, min(1.0, n_workers / work[-1]) if work[-1] > 0 else 1.0)
    pairs = (
        (slow, fast, 1.0 if work[slow] <= n_workers else (n_workers - work[fast]) / (work[slow] - work[fast]))
        for fast in range(len(offers))
        for slow in range(fast + 1)
        if work[fast] <= n_workers
    )
    slow, fast, share = max(pairs, key=lambda p: p[2] * offers[p[0]].quality + (1 - p[2]) * offers[p[1]].quality)
    return Mix(counts, _positive({offers[fast].level: 1 - share} | {offers[slow].level: share}, offers), 1.0)


def fill(counts: Mapping[str, int], offers: Sequence[Offer], demand_rps: float) -> Mix:
    """F of given workers per variant, one level each: the best level is used to its capacity, then the next."""
    left, flow = 1.0, {}
    for offer in sorted(offers, key=lambda o: (-o.quality, o.rps)):
        most = counts.get(offer.variant, 0) * offer.rps
        flow[offer.level] = min(left, most / demand_rps if demand_rps > 0 else float(most > 0))
        left -= flow[offer.level]
    carried = math.fsum(flow.values())
    if carried <= 0:  # nobody serves anything yet: the fastest level will be there first
        return Mix(dict(counts), {offers[-1].level: 1.0}, 0.0 if demand_rps > 0 else 1.0)
    shares = {level: share / carried for level, share in flow.items()}
    return Mix(dict(counts), _positive(shares, offers), 1.0 if left <= CLOSE else carried)


def held(mix: Mix, counts: Mapping[str, int], offers: Sequence[Offer], demand_rps: float, hold: float) -> Mix:
    """`counts`, the workers as they are, where these carry as much and lose `hold` of quality at most; else the mix."""
    present = fill(counts, offers, demand_rps)
    is_whole = sum(counts.get(offer.variant, 0) for offer in offers) == sum(mix.counts.values())
    enough = mean_quality(mix.shares, offers) - hold - CLOSE
    is_enough = present.carried >= mix.carried and mean_quality(present.shares, offers) >= enough
    return present if is_whole and is_enough else mix


def mean_quality(shares: Mapping[str, float], offers: Sequence[Offer]) -> float:
    """Q of Eq. 1 for one picture: the shares' mean of the levels' qualities."""
    return math.fsum(shares.get(offer.level, 0.0) * offer.quality for offer in offers)


def _program(offers: Sequence[Offer], n_workers: int, demand_rps: float) -> tuple[dict[str, int], str]:
    """Workers per variant by PuLP, {} where it finds none; and what went wrong."""
    worst = min(o.quality for o in offers)
    span = max(o.quality for o in offers) - worst or 1.0
    problem = pulp.LpProblem("eq1", pulp.LpMaximize)
    workers = [problem.add_variable(f"n{i}", 0, n_workers, pulp.LpInteger) for i in range(len(offers))]
    shares = [problem.add_variable(f"f{i}", 0, 1) for i in range(len(offers))]
    problem += pulp.lpSum((o.quality - worst) / span * f for o, f in zip(offers, shares, strict=True))
    problem += pulp.lpSum(workers) <= n_workers
    problem += pulp.lpSum(shares) == 1
    for offer, n, share in zip(offers, workers, shares, strict=True):
        problem += share <= n * min(1.0, offer.rps / demand_rps)
    done = solve(problem)
    if not done.is_found:
        return {}, done.trouble
    return {offer.variant: round(n.value()) for offer, n in zip(offers, workers, strict=True)}, done.trouble


def _best_pair(offers: Sequence[Offer], n_workers: int, demand_rps: float) -> dict[str, int]:
    """The best workers on two levels at most that carry the demand: what is left when the solver is out."""
    mixes = [fill({offers[-1].variant: n_workers}, offers, demand_rps)]
    for slow, fast in itertools.combinations(offers, 2):
        if n_workers * fast.rps >= demand_rps and fast.rps > slow.rps:
            most = min(n_workers, int((n_workers * fast.rps - demand_rps) / (fast.rps - slow.rps)))
            mixes.append(fill({slow.variant: most, fast.variant: n_workers - most}, offers, demand_rps))
    return max(mixes, key=lambda mix: (mix.carried, mean_quality(mix.shares, offers))).counts


def _positive(shares: Mapping[str, float], offers: Sequence[Offer]) -> dict[str, float]:
    kept = {o.level: shares[o.level] for o in offers if shares.get(o.level, 0.0) > CLOSE}
    total = math.fsum(kept.values())
    return {level: share / total for level, share in kept.items()}
