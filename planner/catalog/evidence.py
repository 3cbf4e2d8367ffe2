"""Joins a catalog with its profile: quality by hardness band and class, of kept images and of escalated ones.

A mean over few prompts is drawn towards the mean of its band by the weight of `PRIOR` prompts, so that no threshold
looks good for the sake of two lucky images.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from planner.catalog.caching import reuse_profile_of
from planner.catalog.curves import PairRow
from planner.catalog.entries import fastest_good, shares_below, variant_of
from planner.catalog.measured import CascadeBands, CascadeKey, Measured, Shares, Start
from planner.catalog.model import Catalog
from planner.catalog.options import fault
from planner.catalog.profile import CascadeProfile, LevelProfile, Profile
from planner.catalog.prompt_table import PromptTable
from planner.catalog.quality import STRATEGIES
from planner.catalog.reuse import ReuseProfile
from planner.catalog.validate import require

PRIOR = 10  # prompts
QUARTILES = 1.349  # standard deviations between the quartiles of a normal distribution
GRID = tuple(at / 100 for at in range(101))  # thresholds at which a cascade is tabulated


def with_profile(catalog: Catalog, profile: Profile, prompts: PromptTable | None = None) -> Catalog:
    """The catalog with its profile; `prompts` add what is known of kept and rejected images, and by class.

    Figures that the catalog states itself, such as run times, stay. Levels and cascades that it does not have count for
    nothing. Raises InvalidCatalog as `check_compiled`.
    """
    check_compiled(catalog, profile)
    offered = {pair.key for pair in catalog.cascades}
    keyed = {CascadeKey(c.light, c.heavy, c.discriminator): c for c in profile.cascades if c.deferral_by_band}
    measured = Measured(
        bounds=profile.bands,
        quality=_qualities(profile),
        cascades={key: _bands(profile, cascade, prompts) for key, cascade in keyed.items() if key in offered},
        classes={s: _by_class(catalog, s, prompts) for s in STRATEGIES} if prompts else {},
        run_cv={name: _run_cv(level) for name, level in profile.levels.items() if level.spread_ms},
        predicted={s: _predicted(prompts, s, profile.bands) for s in prompts.strategies} if prompts else {},
    )
    reuse = {name: starts for name, starts in profile.reuse.items() if name in catalog.variants}
    return replace(
        catalog,
        measured=measured,
        reuse=catalog.reuse or reuse,
        pair_rows=catalog.pair_rows or _swept(catalog, profile),
        reuse_profile=catalog.reuse_profile or _reuse_profile(catalog, profile, reuse),
    )


def check_compiled(catalog: Catalog, profile: Profile | None) -> None:
    """Raise InvalidCatalog for a variant that was not measured as it runs: compiled, or eagerly after it was compiled.

    Compiled code takes another time than eager code and rounds otherwise: neither is planned by the figures
    of the other.
    """
    for name, variant in catalog.served.items():
        level = profile.levels.get(name) if profile else None
        is_compiled = variant.loading.compile
        measured = "not measured" if level is None else "compiled" if level.compiled else "eager"
        fits = level.compiled == is_compiled if level is not None else not is_compiled
        wanted = "compiled" if is_compiled else "eager"
        where = f"catalog {catalog.name!r}: profile of variant {name!r}"
        require(fits, where, measured, wanted, f"measure it with `pochade profile --catalog {catalog.name}`")


def _run_cv(level: LevelProfile) -> dict[int, float]:
    return {
        size: ms / QUARTILES / level.latency_ms[size]
        for size, ms in level.spread_ms.items()
        if size in level.latency_ms
    }


def _reuse_profile(catalog: Catalog, profile: Profile, reuse: Mapping[str, tuple[Start, ...]]) -> ReuseProfile | None:
    """Caching as it was measured of the variant whose images are kept; None: it was not, or at other steps."""
    base = next(iter(catalog.reuse or reuse), catalog.best().name)
    measured = profile.caching.get(base)
    return reuse_profile_of(base, measured) if measured and measured.steps == catalog.level(base).steps else None


def _swept(catalog: Catalog, profile: Profile) -> tuple[PairRow, ...]:
    """The rows of the cascades that the catalog offers, from a step that its levels have."""
    offered = {(pair.light, pair.heavy) for pair in catalog.cascades}
    rows = [swept.row for swept in profile.settings.rows] if profile.settings else []
    mine = [row for row in rows if (row.light, row.heavy) in offered]
    return tuple(
        row for row in mine if not fault(row.refine_from_step or 0, catalog.level(row.light), catalog.level(row.heavy))
    )


def _qualities(profile: Profile) -> dict[str, Shares]:
    own = {name: level.quality_by_band for name, level in profile.levels.items()}
    reused = {f"{name}~k{s.k}": s.quality_by_band for name, starts in profile.reuse.items() for s in starts}
    return {name: shares for name, shares in (own | reused).items() if shares}


def _bands(profile: Profile, cascade: CascadeProfile, prompts: PromptTable | None) -> CascadeBands:
    deferred = tuple(shares_below(curve, GRID) for curve in cascade.deferral_by_band)
    changes = {start.k: _change(start.quality_by_band, profile, cascade) for start in cascade.paint_over}
    judged = f"{cascade.discriminator}: {cascade.light} > {cascade.heavy}"
    if prompts is None or judged not in prompts.judged:
        return CascadeBands(GRID, deferred, refined=changes)
    confidence = prompts.confidence[:, prompts.judged.index(judged)]
    light, heavy = prompts.of(cascade.light), prompts.of(cascade.heavy)
    known = ~(np.isnan(confidence) | np.isnan(light) | np.isnan(heavy))
    bands = [known & (_band_of(prompts.hardness, profile.bands) == c) for c in range(len(profile.bands) - 1)]
    return CascadeBands(
        thresholds=GRID,
        deferred=deferred,
        kept=tuple(_means(light[band], confidence[band], is_kept=True) for band in bands),
        again=tuple(_means(heavy[band], confidence[band], is_kept=False) for band in bands),
        refined=changes | _paired(cascade, prompts, profile.bands),
    )


def _change(by_band: Shares, profile: Profile, cascade: CascadeProfile) -> Shares:
    whole = profile.levels[cascade.heavy].quality_by_band
    if not by_band or not whole:
        return (None,) * (len(profile.bands) - 1)
    return tuple(None if a is None or b is None else a - b for a, b in zip(by_band, whole, strict=True))


def _paired(cascade: CascadeProfile, prompts: PromptTable, bounds: Sequence[float]) -> dict[int, Shares]:
    """Return the change in quality of each step, in pairs by prompt, which differ far less than means do."""
    first = prompts.judged[0] == f"{cascade.discriminator}: {cascade.light} > {cascade.heavy}"
    if not first or not len(prompts.over_rows):
        return {}
    changes = prompts.over_quality - prompts.of(cascade.heavy)[prompts.over_rows][:, None]
    band_of = _band_of(prompts.hardness[prompts.over_rows], bounds)
    return {
        int(k): tuple(_shrunk(changes[band_of == c, at], 0.0) for c in range(len(bounds) - 1))
        for at, k in enumerate(prompts.over_k)
    }


def _means(quality: np.ndarray, confidence: np.ndarray, *, is_kept: bool) -> Shares:
    """Quality of the images at or above each threshold, or below it; None in a band of no prompt."""
    if not len(quality):
        return (None,) * len(GRID)
    whole = float(quality.mean())
    chosen = [confidence >= t if is_kept else confidence < t for t in GRID[:-1]]
    last = np.zeros(len(confidence), bool) if is_kept else np.ones(len(confidence), bool)  # 1 keeps nothing
    return tuple(_shrunk(quality[mask], whole) for mask in [*chosen, last])


def _shrunk(values: np.ndarray, towards: float) -> float:
    known = values[~np.isnan(values)]
    return float((known.sum() + PRIOR * towards) / (len(known) + PRIOR))


def _band_of(hardness: np.ndarray, bounds: Sequence[float]) -> np.ndarray:
    """Return the band of each hardness, as `Profile.band`: a bound belongs to the band above it, 1 to the last."""
    found: np.ndarray = np.minimum(np.searchsorted(bounds, hardness, side="right"), len(bounds) - 1) - 1
    return found


def _by_class(catalog: Catalog, strategy: str, prompts: PromptTable) -> dict[str, dict[str, float]]:
    """class -> level -> mean quality of the prompts of that class, which is the fastest good level of each."""
    levels = _levels(catalog, strategy, prompts)
    if not levels:
        return {}
    rows = np.array([prompts.of(level) for level in levels]).T
    rows = rows[~np.isnan(rows).any(axis=1)]
    labels = np.array([fastest_good(dict(zip(levels, row, strict=True)), levels) for row in rows.tolist()])
    return {
        label: dict(zip(levels, rows[labels == label].mean(axis=0).tolist(), strict=True))
        for label in levels
        if (labels == label).any()
    }


def _predicted(prompts: PromptTable, strategy: str, bounds: Sequence[float]) -> tuple[dict[str, float], ...]:
    """Return by band: class -> share of the band's prompts; of all prompts for a band without any."""
    labels = prompts.classes[:, prompts.strategies.index(strategy)]
    band_of = _band_of(prompts.hardness, bounds)
    parts = [labels[band_of == band] for band in range(len(bounds) - 1)]
    return tuple(_shares(part if len(part) else labels) for part in parts)


def _shares(labels: np.ndarray) -> dict[str, float]:
    names, counts = np.unique(labels, return_counts=True)
    return {str(name): float(count / len(labels)) for name, count in zip(names, counts.tolist(), strict=True)}


def _levels(catalog: Catalog, strategy: str, prompts: PromptTable) -> tuple[str, ...]:
    """The strategy's levels that were generated, the fastest first."""
    learned = next((c.levels for c in catalog.classifiers.values() if c.strategy == strategy), ())
    cost = dict(zip(prompts.levels, prompts.cost_ms.tolist(), strict=True))
    reused = {variant_of(level) for level in prompts.levels if variant_of(level) != level}
    own = [n for n in prompts.levels if (n in catalog.variants if strategy == "models" else variant_of(n) in reused)]
    return tuple(level for level in learned if level in cost) or tuple(sorted(own, key=lambda n: cost[n]))
