"""Computes the number of workers on each level, and the share of the demand of each level: ARGUS's Eq. 1.

    offers   (level, variant, rps, quality)      demand W (1/s)      n workers
    Mix      counts: level -> workers            shares F: level -> share of what is generated, sums to 1

Source: ARGUS 4.2, Eq. 1, there with a worker's level x and load y, whose product is not linear. Identical workers are
counts here, F is a share of the demand, and what cannot be carried is left over instead of making it infeasible
(planner/policies/SOURCES.md 6.4). No queue is modelled: over-provisioning is the caller's.

A catalog's levels become offers by `offers_of`, `reuse_offers` and `mixed_offers`; `routes_of`, `expected_of` and
`describe_mix` make the parts of a plan from a mix.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import pulp

from planner.catalog.entries import run_ms, throughput_rps
from planner.catalog.model import Catalog
from planner.catalog.quality import Level, degradations, levels_of, random_quality
from planner.control.allocation import busiest
from planner.control.wording.format import counted, rate
from planner.solvers.levels.pasm import BY_LP, BY_ODA, predicted, shift_map
from planner.solvers.milp import solve
from schemas.messages import Expected, Route

CLOSE = 1e-6  # shares nearer than the solver's own tolerance are the same
UNKNOWN: Final[Mapping[str, float]] = {}
EVERY_TIME: Final[Mapping[str, float]] = {}  # hits of levels that are always what they are named for


class Offer(NamedTuple):
    """A level as a term of Eq. 1."""

    level: str
    variant: str  # that generates it
    rps: float  # P_th, images a second of one busy worker, > 0
    quality: float  # Q_v, any one scale, higher is better


class Mix(NamedTuple):
    """A solution of Eq. 1."""

    counts: dict[str, int]  # variant -> workers
    shares: dict[str, float]  # F: level -> share, only positive ones, the slowest first
    carried: float  # share of the demand that the workers can generate; 1: all
    trouble: str = ""  # why this may not be the optimum; "": it is


def maximize_quality(offers: Sequence[Offer], n_workers: int, demand_rps: float) -> Mix:
    """Solve Eq. 1 where every worker serves one level: an integer program, which two levels need no solver for.

    `offers`: one a variant, the slowest first. What exceeds all workers on the fastest level is not carried.
    """
    best, fastest = max(offers, key=lambda o: (o.quality, o.rps)), offers[-1]
    if n_workers * best.rps >= demand_rps:
        return fill({best.variant: n_workers}, offers, demand_rps)
    if n_workers * fastest.rps <= demand_rps * (1 + CLOSE):
        return fill({fastest.variant: n_workers}, offers, demand_rps)
    counts, trouble = _program(offers, n_workers, demand_rps) if len(offers) > 2 else ({}, "")
    counts = counts or _best_pair(offers, n_workers, demand_rps)
    idle = n_workers - sum(counts.values())  # only of an answer that is no optimum: on the best level they better it
    counts[best.variant] = counts.get(best.variant, 0) + idle
    return fill(counts, offers, demand_rps)._replace(trouble=trouble)


def fill(counts: Mapping[str, int], offers: Sequence[Offer], demand_rps: float) -> Mix:
    """F of given workers per variant: all that they can carry, at the best quality.

    The best level is used to its capacity, then the next. Where a variant has several levels, as an image in full and
    reuse levels, its workers share their time between two of them (`_steps_of`).
    """
    left, flow = 1.0, dict.fromkeys((offer.level for offer in offers), 0.0)
    steps = [step for variant in counts for step in _steps_of([o for o in offers if o.variant == variant])]
    for step in sorted(steps, key=lambda step: (-step.quality, step.after.rps)):
        more_rps = step.after.rps - step.before_rps
        most = counts[step.after.variant] * more_rps
        added = min(left, most / demand_rps if demand_rps > 0 else float(most > 0))
        flow[step.after.level] += added * step.after.rps / more_rps
        if step.before:
            flow[step.before.level] -= added * step.before_rps / more_rps
        left -= added
    carried = math.fsum(flow.values())
    if carried <= 0:  # no worker serves yet: the fastest level will be ready first
        return Mix(dict(counts), {offers[-1].level: 1.0}, 0.0 if demand_rps > 0 else 1.0)
    shares = {level: share / carried for level, share in flow.items()}
    return Mix(dict(counts), _positive(shares, offers), 1.0 if left <= CLOSE else carried)


class _Step(NamedTuple):
    """Workers of one variant go over from one of its levels to a faster one."""

    before: Offer | None  # None: they were idle
    after: Offer
    quality: float  # of what they carry more by it; never above that of the step before

    @property
    def before_rps(self) -> float:
        """Images a second of one worker before the step."""
        return self.before.rps if self.before else 0.0


def _steps_of(offers: Sequence[Offer]) -> list[_Step]:
    """Return the steps from idle workers to the level that carries the most, of one variant's levels.

    quality x rps
        |          k4
        |       .           the concave hull of what a worker brings a second; k2 lies below the line from
        |    .   k2         full to k4 and is skipped: a mixture of the two carries as much at a better quality
        |  full
        | .
        +-------------- rps
    """
    steps, before, limit, left = list[_Step](), None, math.inf, list(offers)
    while left:
        added, _, after = max((_added_quality(before, offer), offer.rps, offer) for offer in left)
        limit = min(limit, added)  # rounding lets no later step come first
        steps.append(_Step(before, after, limit))
        before, left = after, [offer for offer in left if offer.rps > after.rps]
    return steps


def _added_quality(before: Offer | None, after: Offer) -> float:
    """Return the mean quality of the images that a worker generates more on a faster level."""
    if before is None:
        return after.quality
    return (after.quality * after.rps - before.quality * before.rps) / (after.rps - before.rps)


def evenly(counts: Mapping[str, int], offers: Sequence[Offer]) -> Mix:
    """F where each worker gets an equal share of requests, whatever it can carry; without workers the fastest is all.

    `offers`: one a variant. Source: HADIS 4.1 and ARGUS 5.1 of Proteus, "routed to each worker with equal probability".
    """
    n_workers = sum(counts.values())
    if n_workers == 0:
        return Mix({}, {offers[-1].level: 1.0}, 1.0)
    shares = {offer.level: counts[offer.variant] / n_workers for offer in offers if counts.get(offer.variant)}
    return Mix(dict(counts), shares, 1.0)


def keep_current(mix: Mix, counts: Mapping[str, int], offers: Sequence[Offer], demand_rps: float, hold: float) -> Mix:
    """`counts`, the workers as they are, where these carry as much and lose `hold` of quality at most; else the mix."""
    present = fill(counts, offers, demand_rps)
    is_whole = sum(counts.get(offer.variant, 0) for offer in offers) == sum(mix.counts.values())
    enough = mean_quality(mix.shares, offers) - hold - CLOSE
    is_enough = present.carried >= mix.carried and mean_quality(present.shares, offers) >= enough
    return present if is_whole and is_enough else mix


def mean_quality(shares: Mapping[str, float], offers: Sequence[Offer]) -> float:
    """Return Q of Eq. 1 for one image: the mean of the levels' qualities by share."""
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
    """The best workers on two levels at most that carry the demand: of more levels, when the solver is out."""
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


def offers_of(catalog: Catalog, batches: Mapping[str, int]) -> tuple[Offer, ...]:
    """Return every variant at its batch size of `batches`, 1 where it names none."""
    return _offers(levels_of(catalog, "models"), catalog, batches)


def reuse_offers(
    catalog: Catalog, batch: int, hits: Mapping[str, float], losses: Mapping[str, float] = UNKNOWN
) -> tuple[Offer, ...]:
    """A variant and its reuse levels, each as a mean over hits and misses; () where the catalog has no reuse level.

    `hits`: level -> share of hits; a miss is generated in full, so that a level is worth and costs
    h x what it is from step K on + (1 - h) x what it is in full. A hit that saves less than K is taken for a part of
    one, which overrates what it loses where quality falls ever faster with K. `losses`: level -> what a hit within
    floors and guard loses, where that was measured; else what any neighbour's loses.
    """
    levels = expected_levels(catalog, hits, losses)
    return _offers(levels, catalog, {levels[0].variant: batch}) if len(levels) > 1 else ()


def mixed_offers(
    catalog: Catalog, batch: int, hits: Mapping[str, float], losses: Mapping[str, float] = UNKNOWN
) -> tuple[Offer, ...]:
    """Return every variant, and the reuse levels of the one that is reused, each as `reuse_offers` has it."""
    reused = expected_levels(catalog, hits, losses)
    others = [level for level in levels_of(catalog, "models") if level.variant != reused[0].variant]
    levels = sorted((*reused, *others), key=lambda level: -level.run_ms)
    return _offers(levels, catalog, dict.fromkeys(catalog.variants, batch))


def expected_levels(catalog: Catalog, hits: Mapping[str, float], losses: Mapping[str, float]) -> tuple[Level, ...]:
    """Return the variant that is reused, in full, and its reuse levels as means over hits and misses.

    Of the reuse levels those that `hits` names: a plan with floors offers no other (`planner.reuse.planning.level_of`).
    """
    levels = levels_of(catalog, "reuse")
    full = next(level for level in levels if not level.reuse_step)
    later = [_with_loss(full, level, losses) for level in levels if level.name in hits]
    return full, *(_expected(full, level, hits[level.name]) for level in later)


def _with_loss(full: Level, level: Level, losses: Mapping[str, float]) -> Level:
    loss = losses.get(level.name)
    return level if loss is None or full.quality is None else replace(level, quality=full.quality - loss)


def _expected(full: Level, level: Level, hit_rate: float) -> Level:
    run_ms = hit_rate * level.run_ms + (1 - hit_rate) * full.run_ms
    if full.quality is None or level.quality is None:
        return replace(level, run_ms=run_ms, quality=None)
    return replace(level, run_ms=run_ms, quality=hit_rate * level.quality + (1 - hit_rate) * full.quality)


def is_judged(catalog: Catalog) -> bool:
    """Whether every variant's quality is known; `offers_of` takes the slower for the better where not."""
    return all(variant.quality is not None for variant in catalog.variants.values())


def _offers(levels: Sequence[Level], catalog: Catalog, batches: Mapping[str, int]) -> tuple[Offer, ...]:
    qualities = [level.quality for level in levels]
    by_rank = [float(-rank) for rank in range(len(levels))]
    known = [q for q in qualities if q is not None]
    offers = (
        Offer(level.name, level.variant, _rps(level, catalog, batches.get(level.variant, 1)), quality)
        for level, quality in zip(levels, known if len(known) == len(levels) else by_rank, strict=True)
    )
    return tuple(sorted(offers, key=lambda offer: (offer.rps, -offer.quality)))


def _rps(level: Level, catalog: Catalog, batch: int) -> float:
    """P_th: a reuse level saves the same share of a batch's time as of one image's."""
    variant = catalog.level(level.variant)
    return throughput_rps(variant, batch) * run_ms(variant, 1) / level.run_ms


def routes_of(
    mix: Mix,
    offers: Sequence[Offer],
    catalog: Catalog,
    strategy: str,
    classes: Mapping[str, float] | None,
    hits: Mapping[str, float] = EVERY_TIME,
) -> tuple[tuple[Route, ...], str]:
    """The shift map's rows from what was seen of the classes, with the mix for requests of none; and what failed.

    `classes` None, or a catalog without any under this strategy: the mix for all, whatever the prompt. `hits`: reuse
    level -> how often it is what it is named for; other levels always are.
    """
    blind = Route(levels=mix.shares)
    levels = [offer.level for offer in offers]
    named = catalog.classes(strategy)
    known = [level for level in levels if level in named]
    if classes is None or not known:
        return (blind,), ""
    wanted = predicted(classes, known)
    pasm = shift_map(levels, wanted, mix.shares, _lost(degradations(catalog, strategy), offers, hits))
    rows = tuple(Route(label=label, levels=pasm.rows.get(label, mix.shares)) for label in sorted(named))
    is_whole = pasm.how in (BY_ODA, BY_LP)
    return (*rows, blind), "" if is_whole else f"levels may not suit the classes as well as they could: by {pasm.how}"


def _lost(
    degradation: Mapping[str, Mapping[str, float]], offers: Sequence[Offer], hits: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Return D by class and level. Levels of the other strategy lose the difference of the means, misses included."""
    means = {offer.level: offer.quality for offer in offers}
    return {
        own: {to: lost * hits.get(to, 1.0) for to, lost in row.items()}
        | {to: max(0.0, means[own] - mean) for to, mean in means.items() if own in means and to not in row}
        for own, row in degradation.items()
    }


def expected_of(mix: Mix, offers: Sequence[Offer], catalog: Catalog, demand_rps: float) -> Expected:
    """Return the expectation of a plan. Quality is that of a random split: classes should beat it."""
    busy = {offer.variant: 0.0 for offer in offers}
    for offer in offers:
        busy[offer.variant] += mix.shares.get(offer.level, 0.0) * demand_rps / offer.rps
    return Expected(
        demand_rps=demand_rps,
        utilization=busiest(busy, mix.counts),
        heavy_share=mix.shares.get(catalog.best().name, 0.0),
        quality=_quality(mix.shares, offers, catalog),
    )


def _quality(shares: Mapping[str, float], offers: Sequence[Offer], catalog: Catalog) -> float | None:
    if shares.keys() <= catalog.variants.keys():
        return random_quality(catalog, shares)
    return mean_quality(shares, offers) if is_judged(catalog) else None


def describe_mix(mix: Mix, offers: Sequence[Offer], demand_rps: float) -> str:
    """Say what a mix cannot carry, and why it may not be the best; "" if there is nothing to say."""
    words = [mix.trouble] if mix.trouble else []
    if mix.carried < 1 and any(mix.counts.values()):
        needed = math.ceil(demand_rps / max(offer.rps for offer in offers))
        served = f"the workers serve {mix.carried:.0%} of {rate(demand_rps, 'requests')}"
        words.insert(0, f"{served}, {counted(needed, 'worker')} would serve all")
    return "; ".join(words)
