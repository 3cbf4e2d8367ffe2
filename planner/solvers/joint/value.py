"""The value of a plan: the share of requests in time, the quality of the answers, and the cost of the change.

One model for all candidates of `joint`. Each variant's workers are a queue (`planner.solvers.joint.losses`) that
rejects jobs that would wait too long, as routers, workers and discriminators do: a job with a draft keeps it, others go
to a cheaper level, or are late if there is none. Demand is uncertain: its mean and deviation are spread over a few
nodes, the only margin for safety. Workers do not count until they serve, so a change has one price for all candidates.
Jobs that wait at the end must be served later, which costs.
"""

import itertools
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from planner.catalog.bands import (
    CascadeTable,
    band_shares,
    bounds_of,
    cascade_table,
    hardness_of,
    level_quality,
    shares_within,
)  # fmt: skip
from planner.catalog.entries import reuse_step, run_ms, variant_of
from planner.catalog.model import Catalog, Pair
from planner.catalog.quality import Judged
from planner.control.proposal import PlanProposal
from planner.control.renewal.replan import HOLD_S, LATE
from planner.observation.observation import Observation
from planner.observation.workers import SERVING, reserved_in
from planner.serving.dispatch.worker import drain_ms
from planner.solvers.joint.losses import AFTER_S, Queue, limits_of
from planner.solvers.joint.pooled import DIGITS, Mixture, Pool
from planner.solvers.joint.remembered import Memory, by_numbers, by_value
from planner.solvers.joint.taken import returns_worker
from schemas.messages import Cascade

NODES: Final = ((-2.857, 0.0113), (-1.356, 0.2221), (0.0, 0.5332), (1.356, 0.2221), (2.857, 0.0113))  # Gauss-Hermite
MOSTLY: Final = 0.5  # share of the requests in time, below which a fleet is overloaded
FEWEST: Final = 1e-6  # the least share in time that counts as above 0
EVERYTHING: Final = 0.9  # share of a level's images from which all but a few count as escalated
FORBIDDEN: Final = 1e6  # units of quality that a plan is worth less which `joint` must not choose
OTHERS: Final = frozenset({"random", "round-robin"})  # dispatch that does not look at queues


class Outlook(NamedTuple):
    """The demand until the plan is made again, in requests a second."""

    mean_rps: float
    deviation_rps: float = 0.0  # of the mean over that time: what is unknown, not the noise of arrivals
    jumps: tuple[tuple[float, float], ...] = ()  # demands that may come at once, and the share of time before a plan


class Prices(NamedTuple):
    """Costs, in units of quality a request."""

    unit: float  # of the catalog's quality: `planner.solvers.joint.program.problem.Problem.unit`
    late: float = LATE  # a request that is not answered in time
    busy: float = 1e-3  # all workers' time: between equals the cheaper
    debt: float = 2.0  # all workers' time that the next plan owes: above what work is worth, so that none is put off
    away: float = 1.0  # all workers' time that is spent on the way to other variants, beyond what is missed meanwhile
    hold_s: float = HOLD_S  # how long a plan holds: what the way there is spread over
    variability: float = 0.5  # half the sum of the squared coefficients of variation of arrivals and run times


class PlanValue(NamedTuple):
    """The value of a plan while it holds, with its terms; the way there is included."""

    late: float  # share of requests not answered in time
    quality: float  # of the answers while it holds, on the catalog's scale
    busy: float  # share of the workers' time
    utilization: float  # of the busiest variant, at the mean demand
    best_share: float  # of the answers, that the catalog's best level generates
    total: float  # of all terms: higher is better, in units of quality a request
    answers: Mixture | None = None  # how they come about; None: on a scale that is a mean, or there are none


class Flow:
    """The flow to a variant, in images a request."""

    __slots__ = (
        "again", "at_once", "before_s", "elsewhere", "first", "judging_s", "over", "sources", "work_again",
        "work_first",
    )  # fmt: skip

    def __init__(self) -> None:
        self.first = self.again = 0.0  # without a draft, and drafts generated again
        self.work_first = self.work_again = 0.0  # the same in images from noise that take as long
        self.judging_s = 0.0
        self.elsewhere = 0.0  # share of those without a draft who come before anybody serves it, and go elsewhere
        self.at_once = 0.0  # images from elsewhere that come now and not evenly while the plan holds
        self.before_s = 0.0  # until a draft comes, where it did not wait
        self.over: tuple[float, ...] = ()  # beside `first`, at each demand: turned away elsewhere; (): none
        self.sources: list[str] = []  # variants of the drafts


NO_FLOW: Final = Flow()


class Demand(NamedTuple):
    """A demand that may be, with its share of the time."""

    rps: float
    weight: float
    times_s: tuple[float, ...]  # of its beginning, at which queues are looked at
    jumps: bool = False  # it comes at any time while the plan holds, and finds the queues of the mean demand


class Stage(NamedTuple):
    """The outcome of a variant's flow, as means over the demand and the time that the plan holds."""

    lost_first: float  # share of the images without a draft that are turned away
    over: tuple[float, ...]  # the same in images a request, at each demand
    lost_again: float  # share of the drafts that stay drafts
    late: float  # share of the others whose full call ends too late
    busy: float  # workers
    load: float  # at the mean demand
    debt: float  # workers that what waits in the end would have needed


class VariantWorkers(NamedTuple):
    """The number of a variant's workers before, during and after the change to a plan."""

    now: int  # workers that are there and stay
    then: int
    comes_s: float  # until those who are sent there serve
    before: int = 0  # workers that are there, whether they stay or not

    def end_s(self, work_s: float) -> float:
        """Return the seconds until `work_s` worker-seconds of work are done; the last worker stays until then."""
        now = max(self.now, int(self.then == 0))
        if work_s <= now * self.comes_s or not self.then:
            return work_s / max(1, now)
        return self.comes_s + (work_s - now * self.comes_s) / self.then


NO_WORKERS = VariantWorkers(0, 0, 0.0)


class Courses(NamedTuple):
    """The first levels of requests, and the outcomes."""

    masses: Mapping[str, np.ndarray]  # level -> [C] share of all requests that go there first
    cascades: Mapping[str, Cascade]  # by their level
    deferred: Mapping[str, np.ndarray]  # level -> [C] share of its images that are to be generated again
    lost: Mapping[str, float]  # variant -> share of its drafts that stay drafts
    moved: Mapping[str, tuple[float, str]]  # variant -> share of its requests that go to another one, and to which


class AnswerQuality(NamedTuple):
    """The quality of a plan's answers on the catalog's scale, before what routes by class add to it."""

    answers: Mixture | None  # how they come about; None: on a scale that is a mean, or there are none
    quality: float  # judged with one another alone
    together: float  # beyond that, judged with those before the plan


class Model:
    """Values plans for one moment: by what is seen, what the catalog measured, and what is to come."""

    def __init__(
        self, catalog: Catalog, seen: Observation, outlook: Outlook, prices: Prices, slo_s: float, hop_s: float = 0.0,
        backlog_s: float = math.inf, pool: Pool | None = None, barred: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """`backlog_s`: the longest wait that the router lets requests in to. `catalog`: with run times as served.
        `pool`: answers before the plan that are judged with its own, on a scale that is no mean. `barred`: levels that
        no worker may return to yet."""
        self.catalog, self.seen, self.outlook, self.prices = catalog, seen, outlook, prices
        self.slo_s, self._hop_s, self._backlog_s, self._pool = slo_s, hop_s, backlog_s, pool
        self._barred = barred
        self.held = reserved_in(seen.workers)
        self._before = pool.answers.quality(catalog) if pool else None
        self._hardness, self._bounds = hardness_of(catalog, seen), bounds_of(catalog)
        self._bands = band_shares(catalog, seen)
        waiting = {queue.variant: queue.waiting for queue in seen.queues} | seen.unserved
        self._waiting = {name: jobs for name, jobs in waiting.items() if name in catalog.variants}
        self._slow_first = sorted(catalog.variants, key=lambda name: (-run_ms(catalog.variants[name], 1), name))
        self.remembered: Memory = {}
        deviation = outlook.deviation_rps
        nodes = NODES if deviation > 0 else ((0.0, 1.0),)
        usual = max(0.0, 1 - math.fsum(weight for _, weight in outlook.jumps))
        self._demands = [
            *(Demand(max(0.0, outlook.mean_rps + z * deviation), usual * weight, AFTER_S) for z, weight in nodes),
            *(Demand(rps, weight, AFTER_S[:1], jumps=True) for rps, weight in outlook.jumps),
        ]
        self._nothing = (0.0,) * len(self._demands)

    def evaluate(self, plan: PlanProposal) -> PlanValue:
        """Return the value of the plan; its expectation and its reason do not count."""
        masses = self._masses(plan)
        cascades = {c.level: c for c in plan.cascades if c.threshold > 0 and c.level in masses}
        deferred = {level: self._deferred(cascade) for level, cascade in cascades.items()}
        flows, fleet = self._flows(plan, masses, cascades, deferred), self._fleet(plan)
        lost, moved = dict[str, float](), dict[str, tuple[float, str]]()
        there = [name for name in self._slow_first if fleet.get(name, NO_WORKERS).now]
        self._detour(flows, fleet, moved, there)
        late = busy = debt = utilization = 0.0
        served = [name for name in self._slow_first if fleet.get(name, NO_WORKERS).then]
        for name in self._slow_first:
            if name not in flows:
                continue
            flow = flows[name]
            waits_s = max((self._wait_s(source, flows, fleet, plan) for source in flow.sources), default=0.0)
            stage = self._stage(name, flow, fleet.get(name, NO_WORKERS), plan, waits_s)
            lost[name], busy, debt = stage.lost_again, busy + stage.busy, debt + stage.debt
            utilization = max(utilization, stage.load)
            came, gone = flow.first + self._mean(flow.over), self._mean(stage.over)
            kept = came - flow.first * flow.elsewhere - gone + flow.again * (1 - stage.lost_again)
            late += stage.late * kept
            if gone <= 0:
                continue
            other = self._otherwise(name, self._soon(served, fleet) if flow.at_once else served)
            if not other:
                late += gone
                continue
            moved.setdefault(name, (stage.lost_first, other))
            then = flows.setdefault(other, Flow())
            then.over = tuple(map(sum, zip(then.over, stage.over, strict=True))) if then.over else stage.over
        behind, owed, given_up = self._left_behind(flows, fleet, plan, served)
        staff, late_cost = max(1, len(self.seen.workers)), self.prices.late * (late + behind) + self._overload(late)
        late = min(1.0, late + behind)
        busy, debt = busy / staff, (debt + owed) / staff
        away_s = sum(workers.comes_s * (workers.then - workers.now) for workers in fleet.values())
        prices, away = self.prices, away_s / staff / self.prices.hold_s
        answers, quality, together = self._quality(Courses(masses, cascades, deferred, lost, moved))
        quality += self._by_class(plan) - given_up
        total = (
            (quality + together) / prices.unit
            - late_cost
            - prices.busy * busy
            - prices.debt * debt
            - prices.away * away
            - FORBIDDEN * self._is_forbidden(plan, masses, deferred, utilization)
        )
        best_share = self._best_share(flows, lost, moved, cascades)
        return PlanValue(late, quality, busy, utilization, best_share, total, answers)

    def _is_forbidden(
        self,
        plan: PlanProposal,
        masses: Mapping[str, np.ndarray],
        deferred: Mapping[str, np.ndarray],
        utilization: float,
    ) -> bool:
        """Whether it moves a reserved worker, returns one too soon, or escalates all of a level while one is overfull.

        Of an overfull level time chooses which drafts are kept, where a lower threshold would choose the best.
        """
        if any(plan.allocation.get(worker_id) != level for worker_id, level in self.held.items()):
            return True
        if self._barred and returns_worker(plan, self.seen, self._barred):
            return True
        return utilization > 1 and any(
            float(masses[level] @ share) >= EVERYTHING * float(masses[level].sum()) for level, share in deferred.items()
        )

    def _overload(self, late: float) -> float:
        """Return what it costs that hardly any request is in time: as much more each time that their share is halved.

        Without it quality and debt decide between plans that are all late, and the plan that generates best and least
        wins.
        """
        return self.prices.late * max(0.0, math.log(MOSTLY / max(FEWEST, 1 - late)))

    def _mean(self, of_demands: Sequence[float]) -> float:
        """The mean over the demands; 0 of none."""
        return math.fsum(weight * each for (_, weight, *_), each in zip(self._demands, of_demands, strict=False))

    def _detour(
        self,
        flows: dict[str, Flow],
        fleet: Mapping[str, VariantWorkers],
        moved: dict[str, tuple[float, str]],
        there: Sequence[str],
    ) -> None:
        """Send who comes before anybody serves its level where the router does: a cheaper level, else a dearer one."""
        for name in [name for name, flow in flows.items() if flow.first > 0]:
            workers, at = fleet.get(name, NO_WORKERS), self._slow_first.index(name)
            dearer = [other for other in there if self._slow_first.index(other) < at]
            other = self._otherwise(name, there) or (dearer[-1] if dearer else "")
            if workers.now or not workers.then or not other:
                continue
            share = min(1.0, workers.comes_s / self.prices.hold_s)
            flow, then = flows[name], flows.setdefault(other, Flow())
            moved[name], flow.elsewhere = (share, other), share
            then.first, then.work_first = then.first + share * flow.first, then.work_first + share * flow.first
            then.at_once += share * (1 - share) * flow.first

    def _soon(self, served: Sequence[str], fleet: Mapping[str, VariantWorkers]) -> list[str]:
        """Return the levels that have a worker, or whose first one comes in time for who waits for it now."""
        left_s = self.slo_s - self._hop_s
        return [
            name
            for name in served
            if fleet[name].now > 0 or fleet[name].comes_s + run_ms(self.catalog.variants[name], 1) / 1000 < left_s
        ]

    def _left_behind(
        self, flows: Mapping[str, Flow], fleet: Mapping[str, VariantWorkers], plan: PlanProposal, served: Sequence[str]
    ) -> tuple[float, float, float]:
        """Return what becomes of the jobs that wait already, in three figures.

        They are the share of requests that the plan makes late; the workers needed where it sends none; and the mean
        quality that requests lose, as those who are late for their level alone go on to the cheapest.
        How it is reckoned: README, Jobs that wait already.
        """
        late = owed = given_up = 0.0
        for name, jobs in self._waiting.items():
            if jobs <= 0:
                continue
            workers, flow = fleet.get(name, NO_WORKERS), flows.get(name, NO_FLOW)
            queue = self._queue(name, flow, plan, 0.0)
            limit_s, work_s = max(0.0, queue.first.turned_s), jobs * queue.image_s
            share = flow.first / (flow.first + flow.again) if flow.again > 0 else 1.0  # the others have drafts
            waited_s, end_s = min(work_s / max(1, workers.before), limit_s), workers.end_s(work_s)
            if not workers.before:  # they have gathered since its workers left; the first waits on until others come
                jobs, age_s = self._fresh(jobs)
                waited_s = min(age_s, limit_s) + workers.comes_s
            behind = jobs * _above(limit_s, waited_s, end_s)
            if workers.now:
                come, leave = max(0, workers.then - workers.now), max(0, workers.before - workers.now)
                for moves, longer_s in ((come, queue.call_s), (leave, max(waited_s, queue.call_s))):
                    more = _above(limit_s, waited_s, waited_s + longer_s) - _above(limit_s, waited_s, end_s)
                    behind += jobs * min(1.0, 2 * moves / max(1, workers.before)) * max(0.0, more)
                behind = min(behind, jobs)
            refuge = served[-1] if served else name
            if self._slow_first.index(refuge) > self._slow_first.index(name):
                # its worker looks at a job between two calls: too late for this level, and in time for the cheapest
                spare_s = max(0.0, queue.one_s - 2 * run_ms(self.catalog.variants[refuge], 1) / 1000)
                saved = behind * min(1.0, spare_s / queue.call_s)
                given_up += share * saved * self._worse(name, refuge)
                behind -= saved
            late += share * behind
            if name not in flows:
                owed += work_s / AFTER_S[-1]
        requests = max(1.0, self.outlook.mean_rps * self.prices.hold_s)
        return late / requests, owed, given_up / requests

    def _fresh(self, jobs: float) -> tuple[float, float]:
        """Return how many of the newest jobs came within the SLO, and the age of the oldest of them in s.

        The others, such as requests that waited while a deployment was down, are late under any plan.
        """
        if not self.seen.counts:
            return jobs, jobs / self.outlook.mean_rps
        seconds = math.ceil(min(self.slo_s, len(self.seen.counts)))
        came = list(itertools.accumulate(self.seen.counts[: -1 - seconds : -1]))
        fresh = min(jobs, came[-1])
        return fresh, next((at for at, count in enumerate(came) if count >= fresh), 0) + 0.5

    def _worse(self, name: str, other: str) -> float:
        """By how much another level's images are worse than a level's, on the catalog's scale."""
        return max(0.0, float(np.array(self._bands) @ (self._of_level(name) - self._of_level(other))))

    def _best_share(
        self,
        flows: Mapping[str, Flow],
        lost: Mapping[str, float],
        moved: Mapping[str, tuple[float, str]],
        cascades: Mapping[str, Cascade],
    ) -> float:
        name = self.catalog.best().name
        flow = flows.get(name)
        if flow is None or name in cascades:
            return 0.0
        stay = 1 - moved.get(name, (0.0, ""))[0]
        return min(1.0, flow.first * stay + flow.again * (1 - lost.get(name, 0.0)))

    def _wait_s(
        self, name: str, flows: Mapping[str, Flow], fleet: Mapping[str, VariantWorkers], plan: PlanProposal
    ) -> float:
        """Return how long a variant's drafts wait before they are generated, at the mean demand."""
        workers, queue = fleet.get(name, NO_WORKERS), self._queue(name, flows[name], plan, 0.0)
        start_s = queue.image_s * self._waiting.get(name, 0.0) / max(1, workers.then)
        return queue.wait_s(self.outlook.mean_rps, workers.then, start_s)

    def _otherwise(self, name: str, served: Sequence[str]) -> str:
        """Return the level that gets another's late requests: the next cheaper one with workers; "" if none."""
        at = self._slow_first.index(name)
        return next((other for other in served if self._slow_first.index(other) > at), "")

    def _masses(self, plan: PlanProposal) -> dict[str, np.ndarray]:
        """level -> [C] share of all requests that go there first; a class counts as spread over all bands."""
        masses: dict[str, np.ndarray] = {}
        classes = self.seen.classes.get(plan.strategy, {})
        labels = [classes.get(route.label, 0.0) for route in plan.routes if route.label]
        total, any_plain = math.fsum(labels), len(labels) < len(plan.routes)
        for route in plan.routes:
            if route.label:
                own = classes.get(route.label, 0.0)
                if not any_plain:  # who has no class goes as the classes do
                    own = own / total if total > 0 else 1 / len(labels)
                mass = own * np.array(self._bands)
            else:
                mass = (1 - total) * self._inside(route.hardness_from, route.hardness_to)
            for level, share in route.levels.items():
                if share > 0:
                    masses[level] = masses.get(level, 0.0) + share * mass
        return masses

    def _inside(self, low: float, high: float) -> np.ndarray:
        """[C] share of requests of a band within a hardness interval."""
        return np.array(shares_within(self._hardness, self._bounds, low, high))

    def _table(self, cascade: Cascade) -> CascadeTable:
        pair = Pair(cascade.level, cascade.next_level, cascade.discriminator, cascade.refine_from_step)
        return cascade_table(self.catalog, pair, self.seen)

    @by_value
    def _deferred(self, cascade: Cascade) -> np.ndarray:
        """[C] share of a level's images that are generated again."""
        if cascade.threshold >= 1:
            return np.ones(len(self._bands))
        table = self._table(cascade)
        return np.array([_between(cascade.threshold, table.thresholds, row) for row in table.deferred])

    @by_value
    def _judged(self, cascade: Cascade) -> np.ndarray:
        """[C] quality of the answers of a level and of the next one together."""
        table = self._table(cascade)
        return np.array([_between(cascade.threshold, table.thresholds, _known(row)) for row in table.quality])

    def _flows(
        self,
        plan: PlanProposal,
        masses: Mapping[str, np.ndarray],
        cascades: Mapping[str, Cascade],
        deferred: Mapping[str, np.ndarray],
    ) -> dict[str, Flow]:
        flows: dict[str, Flow] = {}
        for level, mass in masses.items():
            name, total = variant_of(level), float(mass.sum())
            flow = flows.setdefault(name, Flow())
            flow.first += total
            flow.work_first += total * self._reuse_share(level, plan)
            cascade = cascades.get(level)
            if cascade is None:
                continue
            flow.judging_s = max(flow.judging_s, self._judging_s(cascade))
            heavy, again = self.catalog.level(cascade.next_level), float(mass @ deferred[level])
            then = flows.setdefault(heavy.name, Flow())
            then.again += again
            then.work_again += again * (heavy.steps - cascade.refine_from_step) / heavy.steps
            light_s = run_ms(self.catalog.level(name), 1) / 1000
            then.before_s = max(then.before_s, light_s + self._judging_s(cascade))
            then.sources.append(name)
        return flows

    def _judging_s(self, cascade: Cascade) -> float:
        return self.catalog.discriminator(cascade.discriminator).judging_ms / 1000 + self._hop_s

    def _reuse_share(self, level: str, plan: PlanProposal) -> float:
        """Mean time of a reuse level's images as a share of one in full: misses run in full."""
        step = reuse_step(level)
        if not step:
            return 1.0
        starts = {start.k: start.cost_share for start in self.catalog.reuse.get(variant_of(level), ())}
        hit_rate = plan.reuse.hits.get(level, 0.0) if plan.reuse else 0.0
        return 1.0 - hit_rate * (1.0 - starts.get(step, 1.0))

    def _fleet(self, plan: PlanProposal) -> dict[str, VariantWorkers]:
        """variant -> who serves it now, and under the plan.

        A worker is where it serves or loads, wherever the plan in force wants it: until it has ended its call, or the
        load that it has begun, it does not go on, and one that has not left yet has no way back. The last of a variant,
        once it is ordered away, drains the topic first, for `drain_ms` at most.
        """
        now, then, comes_s, before = dict[str, int](), dict[str, int](), dict[str, float](), dict[str, int]()
        kept = {w.variant for w in self.seen.workers if w.state in SERVING and w.home == w.variant}
        for worker in self.seen.workers:
            here = worker.variant or worker.home
            loads = worker.state in ("loading", "starting") and bool(here)
            before[here] = before.get(here, 0) + (not loads)
            name = plan.allocation.get(worker.worker_id, worker.home)
            if name not in self.catalog.variants:
                continue
            left = self.catalog.variants.get(here)  # None: nothing yet, or of an earlier catalog
            if not loads:
                rest_s = run_ms(left, plan.batch.get(here, 1)) / 2000 if left else 0.0
                if left and worker.home != here and here not in kept:
                    rest_s = max(rest_s, min(worker.remaining_ms, drain_ms(left)) / 1000)
            else:
                rest_s = left.load_ms / 2000 if left else 0.0
            then[name] = then.get(name, 0) + 1
            if here == name or not here:
                now[name] = now.get(name, 0) + (not loads)
                away_s = rest_s if loads else 0.0
            else:
                away_s = self.catalog.variants[name].load_ms / 1000 + rest_s
            comes_s[name] = max(comes_s.get(name, 0.0), away_s)
        fleet = {
            name: VariantWorkers(now.get(name, 0), count, comes_s[name], before.get(name, 0))
            for name, count in then.items()
        }
        return fleet | {name: VariantWorkers(0, 0, 0.0, count) for name, count in before.items() if name not in then}

    @by_numbers(Flow, "sources")
    def _stage(self, name: str, flow: Flow, workers: VariantWorkers, plan: PlanProposal, waits_s: float) -> Stage:
        """Return the outcome of a variant's flow; `waits_s`: how long its drafts have waited before."""
        if not workers.then:
            none = tuple(flow.first + more for more in flow.over or self._nothing)
            return Stage(1.0, none, 1.0, 0.0, 0.0, math.inf if flow.first > 0 else 0.0, 0.0)  # drafts stay
        queue = self._queue(name, flow, plan, waits_s)
        waiting_s, hold_s = queue.image_s * self._waiting.get(name, 0.0), self.prices.hold_s
        comes_s = min(workers.comes_s, hold_s) if workers.now < workers.then else 0.0
        of_hold, busy, debt = comes_s / hold_s, 0.0, 0.0
        again = late = 0.0
        over, known = list[float](), queue
        for (rps, weight, times_s, jumps), more in zip(self._demands, flow.over or self._nothing, strict=True):
            queue = known.with_more(more)
            earlier, came = (self.outlook.mean_rps, known.work) if jumps else (rps, queue.work)
            at_once_s = earlier * flow.at_once * hold_s * queue.image_s
            start_s, before = (waiting_s + at_once_s) / max(1, workers.now), (0.0, 0.0, 0.0)
            if comes_s > 0 and workers.now:
                [before] = queue.lost(rps, workers.now, start_s, (min(comes_s, times_s[0]) if jumps else comes_s,))
                grown_s = start_s + (earlier * came / workers.now - 1) * comes_s
                start_s = min(max(0.0, grown_s) * workers.now / workers.then, queue.first.turned_s)
            elif comes_s > 0 and flow.elsewhere:
                before, start_s = (0.0, 1.0, 0.0), waiting_s / workers.then
            elif comes_s > 0:
                before_s, start_s = waiting_s / workers.then, (waiting_s + earlier * came * comes_s) / workers.then
                begin_s = comes_s + before_s
                before = (
                    _above(queue.first.turned_s, begin_s, start_s), _above(queue.again.turned_s, begin_s, start_s), 0.0
                )  # fmt: skip
                start_s = min(start_s, queue.first.turned_s)
            rest = (1 - of_hold) / len(times_s)
            then = zip(*queue.lost(rps, workers.then, start_s, times_s), strict=True)
            no_first, no_again, too_late = (
                of_hold * share + rest * sum(shares) for share, shares in zip(before, then, strict=True)
            )
            again, late = again + weight * no_again, late + weight * too_late
            over.append(no_first * (flow.first + more))
            used = rps * (queue.first_work * (1 - no_first) + (queue.work - queue.first_work) * (1 - no_again))
            busy += weight * min(used, float(workers.then))
            debt += weight * max(0.0, start_s * workers.then / AFTER_S[-1] + used - workers.then)
        gone, all_first = self._mean(over), flow.first + self._mean(flow.over)
        load = self.outlook.mean_rps * (known.work + self._mean(flow.over) * known.whole_s) / workers.then
        return Stage(gone / all_first if all_first > 0 else 0.0, tuple(over), again, late, busy, load, debt)

    @by_numbers(Flow, "sources", "over")
    def _queue(self, name: str, flow: Flow, plan: PlanProposal, waits_s: float) -> Queue:
        variant, most, left_s = self.catalog.variants[name], plan.batch.get(name, 1), self.slo_s - self._hop_s

        asked = flow.first + flow.again
        share = (flow.work_first + flow.work_again) / asked if asked > 0 else 1.0  # drafts begin at a later step

        def call_s(images: int) -> float:
            return share * run_ms(variant, images) / 1000

        first = limits_of(min(left_s - flow.judging_s, self._backlog_s + call_s(1)), call_s, most)
        again = limits_of(left_s - flow.before_s - waits_s, call_s, most)
        busy = again if flow.again > 0 else first
        whole_s = busy.image_s / share
        return Queue(
            work=whole_s * (flow.work_first + flow.work_again),
            first_work=whole_s * flow.work_first,
            image_s=busy.image_s,
            call_s=busy.call_s,
            whole_s=whole_s,
            one_s=call_s(1),
            first=first,
            again=again,
            variability=self.prices.variability,
            is_one=plan.dispatch not in OTHERS,
        )

    def _quality(self, courses: Courses) -> AnswerQuality:
        """Return the quality of the answers, and what they add when judged together with those before the plan."""
        if self.catalog.scale != "fid":
            return AnswerQuality(None, self._mean_quality(courses), 0.0)
        answers = self._mixture(courses)
        if answers is None:
            return AnswerQuality(None, self._worst, 0.0)
        return AnswerQuality(answers, self._of_mixture(answers), self._added_together(answers))

    def _mean_quality(self, courses: Courses) -> float:
        total = 0.0
        for level, mass in courses.masses.items():
            stayed, others = _ends(variant_of(level), courses.moved)
            own, cascade = self._of_level(level), courses.cascades.get(level)
            if cascade is not None:
                stays, judged = courses.lost.get(cascade.next_level, 0.0), self._judged(cascade)
                own = (1 - stays) * judged + stays * own if stays else judged
            total += float(mass @ sum((share * self._of_level(other) for other, share in others.items()), stayed * own))
        return total

    def _by_class(self, plan: PlanProposal) -> float:
        """Return the gain of routes by class over the levels' means over all prompts, if measured."""
        known = self.catalog.measured.classes.get(plan.strategy, {}) if self.catalog.measured else {}
        if not known or self.catalog.scale == "fid":
            return 0.0
        classes, gained = self.seen.classes.get(plan.strategy, {}), 0.0
        for route in plan.routes:
            own = known.get(route.label, {}) if route.label else {}
            for level, share in route.levels.items():
                if level in own:
                    mean = float(np.array(self._bands) @ self._of_level(level))
                    gained += classes.get(route.label, 0.0) * share * (own[level] - mean)
        return gained

    @by_value
    def _of_level(self, level: str) -> np.ndarray:
        """[C] quality of a level's images; the worst known where its own is not."""
        known = [level_quality(self.catalog, level, band) for band in range(len(self._bands))]
        return np.array([self._worst if q is None else q for q in known])

    @property
    def _worst(self) -> float:
        return min((v.quality for v in self.catalog.variants.values() if v.quality is not None), default=0.0)

    def _mixture(self, courses: Courses) -> Mixture | None:
        """How the answers come about, drafts that had to stay as drawn by chance; None: the plan serves none."""
        by_chance, judged = dict[str, float](), list[Judged]()
        for level, mass in courses.masses.items():
            share = float(mass.sum())
            stayed, others = _ends(variant_of(level), courses.moved)
            for other, of_level in others.items():
                by_chance[other] = by_chance.get(other, 0.0) + of_level * share
            rest, cascade = stayed * share, courses.cascades.get(level)
            if cascade is None:
                by_chance[level] = by_chance.get(level, 0.0) + rest
                continue
            stays = courses.lost.get(cascade.next_level, 0.0)
            phi = float(mass @ courses.deferred[level]) / share if share > 0 else 0.0
            pair = Pair(level, cascade.next_level, cascade.discriminator)
            if stays > 0:
                by_chance[level] = by_chance.get(level, 0.0) + stays * rest
            if stays < 1 and rest > 0:
                judged.append(Judged(pair, (1 - stays) * rest * (1 - phi), (1 - stays) * rest * phi))
        total = math.fsum(by_chance.values()) + math.fsum(part.share for part in judged)
        if total <= 0:
            return None
        # rounded, so that it is the same for plans that differ in nothing that is seen
        shares = ((name, round(share / total, DIGITS)) for name, share in sorted(by_chance.items()))
        parts = (Judged(j.pair, round(j.kept / total, DIGITS), round(j.again / total, DIGITS)) for j in judged)
        return Mixture(tuple(each for each in shares if each[1] > 0), tuple(part for part in parts if part.share > 0))

    @by_value
    def _of_mixture(self, answers: Mixture) -> float:
        """Quality of all answers together; the worst known where a level's is not known."""
        found = answers.quality(self.catalog)
        return self._worst if found is None else found

    @by_value
    def _added_together(self, answers: Mixture) -> float:
        """By how much more the answers are worth than alone, judged with those before the plan."""
        if self._pool is None or self._before is None:
            return 0.0
        requests = self.outlook.mean_rps * self.prices.hold_s
        found = self._pool.value_of(answers, requests, self.catalog, self._before)
        return 0.0 if found is None else found - self._of_mixture(answers)


class Ends(NamedTuple):
    """Return the variants that generate the images sent to one."""

    stayed: float  # share that the variant itself generates
    others: dict[str, float]  # shares of those that requests went on to


def _ends(name: str, moved: Mapping[str, tuple[float, str]]) -> Ends:
    """Return who generates what is sent to a variant: a request that goes on may go on from there, but not back."""
    ends, share, at = dict[str, float](), 1.0, name
    while True:
        gone, other = moved.get(at, (0.0, ""))
        if gone <= 0 or other in ends:
            ends[at] = share
            return Ends(ends.pop(name), ends)
        ends[at] = (1 - gone) * share
        at, share = other, gone * share


def _above(limit: float, begin: float, end: float) -> float:
    """Share of a straight line from `begin` to `end` that is above a limit."""
    low, high = min(begin, end), max(begin, end)
    if limit >= high:
        return 0.0
    return 1.0 if limit <= low else (high - limit) / (high - low)


def _between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    right = bisect_right(xs, x)
    if right == 0 or right == len(xs):
        return ys[0] if right == 0 else ys[-1]
    left_x, left_y = xs[right - 1], ys[right - 1]
    return left_y + (ys[right] - left_y) * (x - left_x) / (xs[right] - left_x)


def _known(row: Sequence[float | None]) -> Sequence[float]:
    return [0.0 if q is None else q for q in row]
