"""Joins a catalog with its profile: quality by hardness band and class, of kept images and of escalated ones.

Planners take the best of hundreds of options, so estimates must not be good by chance (`estimates.py`):

- A dearer level's gain over the cheapest one never falls as hardness rises, by the definition of hardness.
- The loss of light's images against heavy's never rises with the discriminator's confidence, and is not below 0.
- The change of quality by refining a draft is estimated from all bands together, and from a single band as far as bands
  differ beyond chance. It never rises with the step that refining begins from, never falls with the confidence in the
  draft, and is not above 0.
- Levels without a significant difference count as equal, so that the cheaper one is taken.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from planner.catalog.caching import reuse_profile_of
from planner.catalog.curves import PairRow
from planner.catalog.entries import fastest_good, shares_below, variant_of
from planner.catalog.evidence.estimates import difference_of, rising, rising_by, shrunk
from planner.catalog.measured import CascadeBands, CascadeKey, Difference, Measured, Row, Shares, Start
from planner.catalog.model import Catalog
from planner.catalog.options import fault
from planner.catalog.profile import CascadeProfile, LevelProfile, Profile
from planner.catalog.prompt_table import PromptTable
from planner.catalog.quality import STRATEGIES
from planner.catalog.reuse import ReuseProfile
from planner.catalog.validate import require

PRIOR = 10  # prompts: the weight of a band's mean beside what is known of a part of the band
QUARTILES = 1.349  # standard deviations between the quartiles of a normal distribution
GRID = tuple(at / 100 for at in range(101))  # thresholds at which a cascade is tabulated
CUTS = (*GRID[:-1], 2.0)  # the same for comparing: at 1 nothing is kept, and no confidence reaches the last one
Value = TypeVar("Value")


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
        quality=_qualities(profile, prompts),
        cascades={key: _bands(profile, cascade, prompts) for key, cascade in keyed.items() if key in offered},
        classes={s: _by_class(catalog, s, prompts) for s in STRATEGIES} if prompts else {},
        run_cv={name: _run_cv(level) for name, level in profile.levels.items() if level.spread_ms},
        predicted={s: _predicted(prompts, s, profile.bands) for s in prompts.strategies} if prompts else {},
        prompts=_counts(prompts, profile.bands) if prompts else (),
        gains=_gains(prompts) if prompts else {},
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
    """Return the measured caching of the variant whose images are kept; None without one at its number of steps."""
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


def _qualities(profile: Profile, prompts: PromptTable | None) -> dict[str, Shares]:
    own = {name: level.quality_by_band for name, level in profile.levels.items()}
    reused = {f"{name}~k{s.k}": s.quality_by_band for name, starts in profile.reuse.items() for s in starts}
    judged = _levels_by_band(prompts, profile.bands) if prompts else {}
    return {name: shares for name, shares in (own | reused | judged).items() if shares}


def _levels_by_band(prompts: PromptTable, bounds: Sequence[float]) -> dict[str, Shares]:
    """Quality by band of the levels that were judged on all prompts, from the cheapest on."""
    bands, names = _masks(prompts.hardness, bounds), _judged_levels(prompts)
    counts = np.array([band.sum() for band in bands], float)
    if not names or not counts.all():
        return {}
    means = {name: np.array([prompts.of(name)[band].mean() for band in bands]) for name in names}
    cheapest, found, options = means[names[0]], {names[0]: means[names[0]]}, len(names) - 1
    for cheaper, name in itertools.pairwise(names):
        gain = difference_of(prompts.of(name) - prompts.of(cheaper))
        is_better = gain.mean > 0 and gain.is_shown(options)
        own = cheapest + rising(means[name] - cheapest, counts)
        found[name] = own if is_better or gain.mean < 0 else found[cheaper]
    return {name: tuple(row.tolist()) for name, row in found.items()}


def _judged_levels(prompts: PromptTable) -> list[str]:
    """The levels that were judged on every prompt, the cheapest first."""
    cost = dict(zip(prompts.levels, prompts.cost_ms.tolist(), strict=True))
    return sorted((name for name in prompts.levels if not np.isnan(prompts.of(name)).any()), key=lambda n: cost[n])


def _gains(prompts: PromptTable) -> dict[tuple[str, str], Difference]:
    pairs = itertools.combinations(_judged_levels(prompts), 2)
    return {(low, high): difference_of(prompts.of(high) - prompts.of(low)) for low, high in pairs}


def _counts(prompts: PromptTable, bounds: Sequence[float]) -> tuple[int, ...]:
    return tuple(int(band.sum()) for band in _masks(prompts.hardness, bounds))


def _masks(hardness: np.ndarray, bounds: Sequence[float]) -> list[np.ndarray]:
    """The prompts of each band, bool [n]."""
    band_of = _band_of(hardness, bounds)
    return [band_of == band for band in range(len(bounds) - 1)]


def _bands(profile: Profile, cascade: CascadeProfile, prompts: PromptTable | None) -> CascadeBands:
    curves = tuple(shares_below(curve, GRID) for curve in cascade.deferral_by_band)
    judged = f"{cascade.discriminator}: {cascade.light} > {cascade.heavy}"
    if prompts is None or judged not in prompts.judged:
        return CascadeBands(GRID, curves)
    confidence = prompts.confidence[:, prompts.judged.index(judged)]
    light, heavy = prompts.of(cascade.light), prompts.of(cascade.heavy)
    known = ~(np.isnan(confidence) | np.isnan(light) | np.isnan(heavy))
    bands = [known & band for band in _masks(prompts.hardness, profile.bands)]
    lost = _lost_by_keeping(confidence, heavy - light, known, bands)
    sides = [_sides(confidence[band], heavy[band], lost[band]) for band in bands]
    again = tuple(below for _, below in sides)
    paired = _paired(cascade, prompts) if judged == prompts.judged[0] else None
    changes = _stated(profile, cascade) if paired is None else _refining(prompts, paired, profile.bands)
    return CascadeBands(
        thresholds=GRID,
        deferred=tuple(_deferred(confidence[band], curve) for band, curve in zip(bands, curves, strict=True)),
        kept=tuple(above for above, _ in sides),
        again={0: again} | {k: _changed(again, change) for k, change in changes.items()},
        losses=_losses(confidence[known], (heavy - light)[known]),
        changes={} if paired is None else _by_step(prompts, [difference_of(column) for column in paired.T]),
    )


def _deferred(confidence: np.ndarray, curve: Row) -> Row:
    """The share of confidences below each threshold; the profile's curve in a band of no prompt."""
    return tuple(float((confidence < t).mean()) for t in CUTS) if len(confidence) else curve


def _lost_by_keeping(
    confidence: np.ndarray, gain: np.ndarray, known: np.ndarray, bands: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the expected loss of each prompt [n] if light's image is kept; `gain`: of heavy's image over light's.

    One curve of all bands, which never rises with confidence, times what each band gains beside it, which never falls
    as hardness rises.
    """
    lost = np.zeros(len(gain))
    lost[known] = np.maximum(0.0, -rising_by(confidence[known], -gain[known]))
    masses = np.array([lost[band].sum() for band in bands])
    gains = np.array([gain[band].sum() for band in bands])
    factors = rising(np.divide(gains, masses, out=np.ones(len(bands)), where=masses > 0), np.maximum(masses, 1e-9))
    for band, factor in zip(bands, factors.tolist(), strict=True):
        lost[band] *= max(0.0, factor)
    return np.minimum(1.0, lost)


def _sides(confidence: np.ndarray, heavy: np.ndarray, lost: np.ndarray) -> tuple[Shares, Shares]:
    """Quality of light's images at or above each threshold, and of heavy's on the prompts below it.

    Together they come to heavy's quality less what keeping loses. None in a band of no prompt.
    """
    if not len(heavy):
        return (None,) * len(GRID), (None,) * len(GRID)
    whole, above, below = float(heavy.mean()), list[float | None](), list[float | None]()
    for threshold in CUTS:
        kept = confidence >= threshold
        again, share = _shrunk(heavy[~kept], whole), float(kept.mean())
        on_kept = (whole - (1 - share) * again) / share if share else whole
        above.append(on_kept - float(lost[kept].mean() if share else lost.min()))
        below.append(again)
    return tuple(above), tuple(below)


def _losses(confidence: np.ndarray, gain: np.ndarray) -> tuple[Difference, ...]:
    return tuple(difference_of(np.where(confidence >= t, gain, 0.0)) for t in CUTS)


def _paired(cascade: CascadeProfile, prompts: PromptTable) -> np.ndarray:
    """[m, p]: what refining the draft of each prompt from each step changes against heavy's image from noise."""
    return np.asarray(prompts.over_quality - prompts.of(cascade.heavy)[prompts.over_rows][:, None])


def _by_step(prompts: PromptTable, values: Iterable[Value]) -> dict[int, Value]:
    return dict(zip(prompts.over_k.tolist(), values, strict=True))


def _refining(prompts: PromptTable, changes: np.ndarray, bounds: Sequence[float]) -> dict[int, tuple[Shares, ...]]:
    """Step -> by band, what refining from it changes on the drafts below each threshold; `changes`: as `_paired`."""
    rows = prompts.over_rows
    if not len(rows):
        return {}
    confidence, bands = prompts.confidence[rows, 0], _masks(prompts.hardness[rows], bounds)
    below = [confidence < threshold for threshold in CUTS]
    fitted = np.stack([_by_confidence(confidence, column, bands) for column in changes.T])  # [p, C, m]
    table = np.array([[_means_below(each, band, below) for each, band in zip(step, bands, strict=True)]
                      for step in fitted])  # fmt: skip
    fewest = np.full(len(prompts.over_k), float(len(rows)))
    steady = np.apply_along_axis(lambda column: -rising(-column, fewest), 0, table)  # later steps lose no less
    return _by_step(prompts, [tuple(tuple(row) for row in step) for step in steady.tolist()])


def _by_confidence(confidence: np.ndarray, changes: np.ndarray, bands: Sequence[np.ndarray]) -> np.ndarray:
    """[C, m]: the change of each draft as if it lay in each band: one curve of all, moved by what a band has beside it.

    A band's own mean counts as far as bands differ beyond their errors.
    """
    curve = rising_by(confidence, changes)
    moved = shrunk([difference_of((changes - curve)[band]) for band in bands])
    return np.asarray(curve + np.array(moved)[:, None])


def _means_below(changes: np.ndarray, band: np.ndarray, below: Sequence[np.ndarray]) -> list[float]:
    """The mean change of a band's drafts below each threshold, at most 0; of all drafts where the band has none there.

    A mean is cut at 0, not each of its parts: these are noisier, so that cutting them would take chance for loss.
    """
    chosen = [band & mask if (band & mask).any() else mask for mask in below]
    return [min(0.0, float(changes[mask].mean() if mask.any() else changes.min())) for mask in chosen]


def _stated(profile: Profile, cascade: CascadeProfile) -> dict[int, tuple[Shares, ...]]:
    """Step -> by band, the change in quality that the profile states of all drafts, the same at each threshold."""
    whole = profile.levels[cascade.heavy].quality
    if whole is None:
        return {}
    bands = len(profile.bands) - 1
    return {
        s.k: ((min(0.0, s.quality - whole),) * len(GRID),) * bands for s in cascade.paint_over if s.quality is not None
    }


def _changed(again: Sequence[Shares], changes: Sequence[Shares]) -> tuple[Shares, ...]:
    return tuple(
        tuple(None if q is None or c is None else q + c for q, c in zip(row, change, strict=True))
        for row, change in zip(again, changes, strict=True)
    )


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
