"""From what is seen and what the catalog measured to the joint problem."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from planner.catalog.bands import band_shares
from planner.catalog.entries import Variant, run_ms
from planner.catalog.model import Catalog
from planner.catalog.quality import Level
from planner.observation.observation import Observation
from planner.solvers.joint.demand import outlook_of
from planner.solvers.joint.program.capacity import Room, draft_modes, modes
from planner.solvers.joint.program.offers import Offers, offers_of
from planner.solvers.joint.program.problem import Mode, Problem
from planner.solvers.queueing import WaitTable, wait_table

SPLITS = (0.05, 0.1, 0.2, 0.35, 0.5)  # of the time a request may take, what a cascade's first level may have of it
SLO_RUNS = 3  # times the slowest level's run time, where no SLO is given. Source: ARGUS 5.1


def problem_of(
    seen: Observation,
    catalog: Catalog,
    settings: Mapping[str, float],
    reuse: Sequence[Level] = (),
) -> Problem:
    """The problem at the mean demand. `settings`: parameters of `joint`; `reuse`: reuse levels to serve with too."""
    found = offers_of(catalog, seen, (seen.hop_ms or 0.0) / 1000, reuse)
    variants = list(catalog.variants.values())
    slo_s, workers = _slo_s(seen, variants), len(seen.workers)
    times = [{b: run_ms(v, b) / 1000 for b in v.latency_ms} for v in variants]
    firsts, seconds = _latency_targets(found, slo_s)
    waits = settings["percentile"], settings["variability"]
    homes = [worker.home for worker in seen.workers]
    drain_s = float(np.mean([run_ms(catalog.variants[h], 1) for h in homes if h in catalog.variants] or [0.0])) / 1000
    shares = np.array(band_shares(catalog, seen))
    return Problem(
        levels=found.levels,
        shares=shares,
        shed_weights=np.ones(len(shares)),
        gates=tuple(found.gates),
        options=tuple(offer.option for offer in found.offers),
        load=_load(found, len(shares)),
        quality=np.array([offer.quality for offer in found.offers]).reshape(-1, len(shares)),
        modes=tuple(
            _modes(tuple(run_s.items()), tuple(first_s), tuple(second_s), workers, *waits)
            for run_s, first_s, second_s in zip(times, firsts, seconds, strict=True)
        ),
        demand_rps=outlook_of(seen, settings["overprovision"]).mean_rps,
        slo_s=slo_s,
        workers=workers,
        before=tuple(homes.count(name) for name in found.levels),
        switch_s=tuple(v.load_ms / 1000 + drain_s for v in variants),
        hold_s=settings["hold_s"],
    )


@lru_cache(maxsize=1024)
def _modes(
    run_s: tuple[tuple[int, float], ...],
    firsts_s: tuple[float, ...],
    seconds_s: tuple[float, ...],
    workers: int,
    percentile: float,
    variability: float,
) -> tuple[Mode, ...]:
    """The modes of a variant's workers, as the first level or the only one and as the second: ever the same."""
    room = _room(wait_table(max(workers, 1), percentile, variability))
    return *modes(dict(run_s), firsts_s, workers, room), *draft_modes(dict(run_s), seconds_s, workers)


def _slo_s(seen: Observation, variants: Sequence[Variant]) -> float:
    """The SLO; one that no level meets on empty queues is doubled until one does, so that something is served."""
    slowest, quickest = (f(run_ms(v, 1) for v in variants) / 1000 for f in (max, min))
    slo_s = seen.slo_ms / 1000 or SLO_RUNS * slowest
    while slo_s <= quickest:
        slo_s *= 2
    return slo_s


def _latency_targets(found: Offers, slo_s: float) -> tuple[list[list[float]], list[list[float]]]:
    """Return latency targets in s per level, the longest first: as the first level or the only one, and as the second.

    A level alone may take all the time that there is, one in a cascade a part that leaves the other one some.
    """
    firsts: list[set[float]] = [set() for _ in found.levels]
    seconds: list[set[float]] = [set() for _ in found.levels]
    for gate in {gate._replace(threshold=0.0, refine_from_step=0) for gate in found.gates}:
        left_s = slo_s - gate.extra_s
        if gate.next_level < 0:
            firsts[gate.level].add(left_s)
        for split in SPLITS if gate.next_level >= 0 else ():
            firsts[gate.level].add(split * left_s)
            firsts[gate.next_level].add((1 - split) * left_s)
            seconds[gate.next_level].add((1 - split) * left_s)
    return [sorted(times, reverse=True) for times in firsts], [sorted(times, reverse=True) for times in seconds]


def _load(found: Offers, bands: int) -> np.ndarray:
    load = np.zeros((len(found.offers), bands, len(found.levels)))
    for o, offer in enumerate(found.offers):
        for v, images in offer.images.items():
            load[o, :, v] = images
    return load


def _room(table: WaitTable) -> Room:
    """Room for queueing by the table: the utilisations at which waits fit budgets in run times."""

    def room(servers: int, budgets: np.ndarray) -> np.ndarray:
        row = table.waits[np.searchsorted(table.servers, servers, side="right") - 1]
        return np.where(budgets >= 0, np.interp(budgets, row, table.utilization), 0.0)

    return room
