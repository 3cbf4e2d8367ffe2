"""Made-up catalogs and observations of any size, to plan for: the same numbers from the same seed."""

import itertools

import numpy as np

from planner.catalog.entries import DeferralPoint, Discriminator, Variant, run_ms
from planner.catalog.measured import CascadeBands, Measured
from planner.catalog.model import Catalog, Pair
from planner.observation.observation import BINS, Observation, Queue
from planner.observation.workers import WorkerView

BATCHES = (1, 2, 4, 8)
QUICKEST_MS, SLOWEST_MS = 100.0, 10_000.0  # run times of the first and the last level
SLO_RUNS = 3  # times the slowest level's run time. Source: ARGUS 5.1
THRESHOLDS = tuple(at / 20 for at in range(21))
AHEAD = 1  # places from a level to the level that its drafts escalate to
STEPS, BEGUN_AT = 20, 8  # of every level; the step from which a draft is refined
DEMANDS = (0.5, 0.9)  # of what the best level, and what the quickest, can generate one by one with all workers
QUEUED = 0.3  # share of the observations in which something waits


def catalog(levels: int, bands: int, seed: int) -> Catalog:
    """`levels` variants, slower ones better on average, with cascades measured in `bands` equal bands of hardness."""
    rng = np.random.default_rng(seed)
    times = np.geomspace(QUICKEST_MS, SLOWEST_MS, levels) * rng.uniform(0.85, 1.15, levels)
    ease = np.linspace(1, 0, bands)
    mean = np.linspace(0.6, 1.0, levels)[:, None] + rng.normal(0, 0.02, (levels, 1))
    quality = np.clip(mean + 0.3 * (1 - mean) * ease + rng.normal(0, 0.01, (levels, bands)), 0, 1)
    names = [f"level-{at}" for at in range(levels)]
    ways = [(at, at + AHEAD) for at in range(levels - AHEAD)]
    pairs = tuple(Pair(names[light], names[heavy], "judge") for light, heavy in ways)
    return Catalog(
        name=f"{levels} levels, {bands} bands",
        variants={name: _variant(name, ms, q.mean()) for name, ms, q in zip(names, times, quality, strict=True)},
        discriminators={
            "judge": Discriminator(
                name="judge",
                engine="profile",
                threshold=0.5,
                deferral=tuple(DeferralPoint(t, t) for t in THRESHOLDS),
                latency_ms={1: 5.0},
            )
        },
        cascades=pairs,
        class_cuts={},
        measured=Measured(
            bounds=tuple(np.linspace(0, 1, bands + 1).tolist()),
            quality={name: tuple(q.tolist()) for name, q in zip(names, quality, strict=True)},
            cascades={
                pair.key: _cascade(quality[light], quality[heavy], rng)
                for pair, (light, heavy) in zip(pairs, ways, strict=True)
            },
        ),
    )


def observations(planned: Catalog, workers: int, count: int, seed: int, slo_s: float = 0.0) -> list[Observation]:
    """Draw observations: any demand that the workers can carry in part, any mix, workers on any level, some queues.

    Without an SLO it is `SLO_RUNS` times the slowest level's run time.
    """
    rng = np.random.default_rng(seed)
    times = {name: run_ms(variant, 1) for name, variant in planned.variants.items()}
    best, quickest = times[planned.best().name], times[planned.cheapest().name]
    low, high = (share * 1000 * workers / ms for share, ms in zip(DEMANDS, (best, quickest), strict=True))
    slo_ms = 1000 * slo_s or SLO_RUNS * max(times.values())
    return [_observation(planned, workers, float(rng.uniform(low, high)), slo_ms, rng) for _ in range(count)]


def _variant(name: str, ms: float, quality: float) -> Variant:
    return Variant(
        name=name, engine="profile", model="", scheduler="", steps=STEPS, guidance=1.0, width=512, height=512,
        latency_ms={b: float(ms * (0.3 + 0.7 * b)) for b in BATCHES}, load_ms=10_000.0, quality=float(quality),
    )  # fmt: skip


def _cascade(light: np.ndarray, heavy: np.ndarray, rng: np.random.Generator) -> CascadeBands:
    """A cascade that defers more of harder bands; kept images are better than light's mean, others a bit worse."""
    t, hard = np.array(THRESHOLDS), np.linspace(0, 1, len(light))[:, None]
    deferred = t ** (1.6 - hard + rng.uniform(-0.2, 0.2))
    kept = np.minimum(1, light[:, None] + (1 - light[:, None]) * 0.6 * t)
    again = np.broadcast_to(heavy[:, None] - 0.005, kept.shape)
    refined = again - 0.004
    return CascadeBands(
        thresholds=THRESHOLDS,
        deferred=tuple(map(tuple, deferred.tolist())),
        kept=tuple(map(tuple, kept.tolist())),
        again={0: tuple(map(tuple, again.tolist())), BEGUN_AT: tuple(map(tuple, refined.tolist()))},
    )


def _observation(
    planned: Catalog, workers: int, demand_rps: float, slo_ms: float, rng: np.random.Generator
) -> Observation:
    names, classes = list(planned.variants), sorted(planned.classes("models"))
    homes = itertools.chain.from_iterable(
        [name] * int(count)
        for name, count in zip(names, rng.multinomial(workers, rng.dirichlet(np.ones(len(names)))), strict=True)
    )
    waits = rng.random() < QUEUED
    arriving = demand_rps / len(names)
    queues = [Queue(name, float(rng.uniform(0, 0.2 * slo_ms / 1000 * arriving)), arriving) for name in names]
    return Observation(
        now_ms=0,
        demand_rps=demand_rps,
        hardness=_shares(rng, BINS),
        classes={"models": dict(zip(classes, _shares(rng, len(classes)), strict=True))} if classes else {},
        workers=tuple(WorkerView(f"worker-{at}", home, "ready", 0, 0.0) for at, home in enumerate(homes)),
        slo_ms=slo_ms,
        queues=tuple(queues) if waits else (),
    )


def _shares(rng: np.random.Generator, count: int) -> tuple[float, ...]:
    return tuple(rng.dirichlet(np.full(count, 5.0)).tolist()) if count else ()
