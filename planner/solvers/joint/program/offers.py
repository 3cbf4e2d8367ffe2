"""The options of a catalog: levels, cascades at each threshold and refinement step, measured rows."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from planner.catalog.bands import band_shares, cascade_table, level_quality
from planner.catalog.entries import Variant, run_ms
from planner.catalog.model import Catalog, Pair
from planner.catalog.options import fault
from planner.catalog.quality import Level
from planner.observation.observation import Observation
from planner.solvers.joint.program.problem import Gate, Option
from planner.solvers.two_stage.problem import rows_of

WIDE = 0.05  # of a band's images: if the next threshold defers more than this in addition, values between are added
NOTICED = 0.003  # of a band's images: thresholds nearer to each other are one


class Offer(NamedTuple):
    """An option with its work and quality in each band."""

    option: Option
    images: dict[int, np.ndarray]  # level -> [C] per request, in whole calls' worth
    quality: np.ndarray  # [C]


@dataclass(slots=True)
class Offers:
    """Offers as they are collected; a gate is one however many options use it."""

    levels: tuple[str, ...]
    gates: dict[Gate, int] = field(default_factory=dict)  # with their places
    offers: list[Offer] = field(default_factory=list)

    def add(self, gate: Gate, option: Option, images: dict[int, np.ndarray], quality: np.ndarray) -> None:
        """Collect an option; its gate is set here. One of unknown quality is left out."""
        if np.isfinite(quality).all():
            place = self.gates.setdefault(gate, len(self.gates))
            self.offers.append(Offer(option._replace(gate=place), images, quality))


def offers_of(catalog: Catalog, seen: Observation, hop_s: float, reuse: Sequence[Level] = ()) -> Offers:
    """Every level for itself, and every cascade; each pair by its measured rows too, where hard prompts go straight.

    `reuse`: levels begun from stored latents, as means over hits and misses.
    """
    found = Offers(tuple(catalog.variants))
    bands = len(band_shares(catalog, seen))
    for at, name in enumerate(found.levels):
        quality = np.array([_level_quality(catalog, name, c) for c in range(bands)])
        found.add(Gate(at, extra_s=hop_s), Option(0), {at: np.ones(bands)}, quality)
    for level in reuse:
        _add_reuse(found, catalog, level, bands, hop_s)
    for pair in catalog.cascades:
        for step in _steps(catalog, pair):
            _add_cascade(found, catalog, pair._replace(refine_from_step=step), seen, hop_s)
        if bands == 1:
            _add_rows(found, catalog, pair, seen, hop_s)
    return found


def _add_reuse(found: Offers, catalog: Catalog, level: Level, bands: int, hop_s: float) -> None:
    """A reuse level by its variant's workers; it loses in every band what it loses in the mean."""
    at, full = found.levels.index(level.variant), catalog.level(level.variant)
    lost = full.quality - level.quality if full.quality is not None and level.quality is not None else math.nan
    quality = np.array([_level_quality(catalog, level.variant, c) - lost for c in range(bands)])
    images = {at: np.full(bands, level.run_ms / run_ms(full, 1))}
    found.add(Gate(at, extra_s=hop_s), Option(0, reuse_step=level.reuse_step), images, quality)


def _steps(catalog: Catalog, pair: Pair) -> Iterator[int]:
    """The pair's own step, a blank, and every step that was measured."""
    known = catalog.measured.cascades.get(pair.key) if catalog.measured else None
    light, heavy = catalog.level(pair.light), catalog.level(pair.heavy)
    for step in sorted({0, pair.refine_from_step, *(known.again if known else ())}):
        if not fault(step, light, heavy):
            yield step


def _add_cascade(found: Offers, catalog: Catalog, pair: Pair, seen: Observation, hop_s: float) -> None:
    light, heavy = found.levels.index(pair.light), found.levels.index(pair.heavy)
    table, share = cascade_table(catalog, pair, seen), _work_share(catalog.level(pair.heavy), pair.refine_from_step)
    known = np.array([[np.nan if q is None else q for q in row] for row in table.quality], dtype=float)
    places = _places(np.array(table.deferred), pair.key in catalog.curves)
    thresholds, *rows = (_between(row, places) for row in (table.thresholds, *table.deferred, *known))
    deferred, quality = np.array(rows[: len(known)]), np.array(rows[len(known) :])
    plain, ones = _gate(found, catalog, pair, 0.0, hop_s), np.ones(len(known))
    for at in _apart(deferred):
        if thresholds[at] < 1:  # at 1 no draft is kept, so drafts are useless
            gate = plain._replace(threshold=float(thresholds[at]))
            found.add(gate, Option(0), {light: ones, heavy: share * deferred[:, at]}, quality[:, at])


def _places(deferred: np.ndarray, is_curve: bool) -> np.ndarray:
    """Return the places to read a table: its thresholds, and on a curve also evenly between two that defer far apart.

    A curve is quality by deferral, so values between its points are known; `deferred`: [C, T].
    """
    if not is_curve:
        return np.arange(deferred.shape[1])
    jumps = np.diff(deferred, axis=1).max(axis=0)
    pieces = [np.linspace(at, at + 1, max(1, math.ceil(jump / WIDE)), endpoint=False) for at, jump in enumerate(jumps)]
    return np.concatenate([*pieces, [len(jumps)]])


def _between(row: Sequence[float], places: np.ndarray) -> np.ndarray:
    return np.asarray(row if len(places) == len(row) else np.interp(places, np.arange(len(row)), row))


def _apart(deferred: np.ndarray) -> Iterator[int]:
    """The thresholds that defer noticeably more than the one before, in some band; `deferred`: [C, T]."""
    before = np.zeros(len(deferred))
    for at in range(deferred.shape[1]):
        if (deferred[:, at] >= before + NOTICED).any():
            before = deferred[:, at]
            yield at


def _add_rows(found: Offers, catalog: Catalog, pair: Pair, seen: Observation, hop_s: float) -> None:
    """Rows of one band of all prompts: hardness and confidence thresholds that were measured together."""
    light, heavy = found.levels.index(pair.light), found.levels.index(pair.heavy)
    share = _work_share(catalog.level(pair.heavy), pair.refine_from_step)
    for row in rows_of(catalog, pair, seen):
        if 0 < row.straight < 1 and row.quality is not None:
            judged = _gate(found, catalog, pair, row.threshold, hop_s)
            gate = judged if row.deferred > 0 else Gate(light, extra_s=hop_s)
            images = {light: np.array([row.light]), heavy: np.array([row.straight + share * row.refined_share])}
            found.add(gate, Option(0, heavy, row.hardness), images, np.array([row.quality]))


def _gate(found: Offers, catalog: Catalog, pair: Pair, threshold: float, hop_s: float) -> Gate:
    judging_s = catalog.discriminator(pair.discriminator).judging_ms / 1000
    light, heavy = found.levels.index(pair.light), found.levels.index(pair.heavy)
    return Gate(light, heavy, pair.discriminator, threshold, pair.refine_from_step, judging_s + 2 * hop_s)


def _work_share(variant: Variant, step: int) -> float:
    return run_ms(variant, 1, step) / run_ms(variant, 1)


def _level_quality(catalog: Catalog, level: str, band: int) -> float:
    """Return a level's quality in a band; if it was not judged the lowest known."""
    quality = level_quality(catalog, level, band)
    if quality is not None:
        return quality
    known = (level_quality(catalog, name, band) for name in catalog.variants)
    return min((q for q in known if q is not None), default=0.0)
