"""The truth of a simulation: the catalog of outcomes, where it differs from the one that policies plan with.

A `Truth` is a set of aspects, each with its number; `of` makes the true catalog, from which outcomes are drawn, calls
take their time and answers are judged. Dispatch is the setup's own (`Setup.dispatch`): it replaces what a plan says.

    time.VARIANT=FACTOR          calls of this variant take FACTOR times as long as profiled
    choice=FACTOR                what a discriminator's choice gains over the mean of its levels, times FACTOR
    confidence=FACTOR            images have FACTOR <= 1 times the confidence profiled: more are deferred
    monotone=1                   a cascade's quality never falls as heavy's share grows: the curve's values, sorted
    class.STRATEGY.LEVEL=SHARE   share of the prompts whose class is this level, whatever their hardness
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from planner.catalog.bands import bounds_of, level_quality
from planner.catalog.curves import CascadeCurves, SharePoint, at
from planner.catalog.entries import DeferralPoint, Discriminator, Variant, run_ms
from planner.catalog.measured import CascadeBands, CascadeKey, Measured, Row, Shares
from planner.catalog.model import Catalog, Cut
from schemas.errors import PochadeError, Unknown

ASPECTS: Final = ("time.VARIANT", "choice", "confidence", "monotone", "class.STRATEGY.LEVEL")
TIME, CHOICE, CONFIDENCE, MONOTONE, CLASS = (aspect.partition(".")[0] for aspect in ASPECTS)
TOLERANCE: Final = 1e-6  # by which shares of classes may miss 1


class Truth(dict[str, float]):
    """aspect -> its number; empty: all is as the catalog says."""

    @classmethod
    def parse(cls, given: Sequence[str]) -> "Truth":
        """Read aspects of the form NAME=NUMBER. Raises PochadeError, Unknown."""
        truth = cls()
        for assignment in given:
            name, _, text = assignment.partition("=")
            if name in truth:
                raise PochadeError(f"a truth may be given once: {name} is given twice")
            try:
                truth[name] = float(text)
            except ValueError:
                raise PochadeError(f"a truth must be ASPECT=NUMBER: got {assignment!r}") from None
            if not math.isfinite(truth[name]) or truth[name] < 0:
                raise PochadeError(f"a truth's number must be 0 or more: got {assignment!r}")
            if name.partition(".")[0] not in (TIME, CHOICE, CONFIDENCE, MONOTONE, CLASS):
                raise Unknown("aspect of truth", name, ASPECTS)
        return truth

    def words(self) -> list[str]:
        """Return the aspects as `parse` reads them, in order."""
        return [f"{name}={value:g}" for name, value in sorted(self.items())]

    def of(self, catalog: Catalog) -> Catalog:
        """Return what is true instead of this catalog, under a name that says so. Raises Unknown, PochadeError."""
        if not self:
            return catalog
        true = self._with_times(catalog)
        if self.get(MONOTONE) or self.get(CHOICE, 1.0) != 1:
            true = self._with_quality(true)
        if self.get(CONFIDENCE, 1.0) != 1:
            true = self._with_confidence(true)
        return dataclasses.replace(self._with_classes(true), name=f"{catalog.name}, but {', '.join(self.words())}")

    def _with_times(self, catalog: Catalog) -> Catalog:
        variants = dict(catalog.variants)
        for name, factor in self._under(TIME).items():
            variant = catalog.level(name)
            if factor <= 0:
                raise PochadeError(f"{TIME}.{name} must be above 0: got {factor:g}")
            latency = {batch: factor * ms for batch, ms in variant.latency_ms.items()}
            variants[name] = dataclasses.replace(variant, latency_ms=latency)
        return dataclasses.replace(catalog, variants=variants)

    def _with_quality(self, catalog: Catalog) -> Catalog:
        """Return a catalog of other curves. Measured settings of router and discriminator are left out."""
        curves, variants = dict(catalog.curves), dict(catalog.variants)
        for key, own in catalog.curves.items():
            if own.judged:
                curves[key] = CascadeCurves(self._curve(own.judged), own.random)
                for level, share in ((key.light, 0.0), (key.heavy, 1.0)):
                    variants[level] = _of_quality(variants[level], at(curves[key].judged, share))
        measured = catalog.measured
        if measured is not None:
            cascades = {key: self._bands(catalog, key, bands) for key, bands in measured.cascades.items()}
            measured = dataclasses.replace(measured, cascades=cascades)
        return dataclasses.replace(catalog, curves=curves, variants=variants, measured=measured, pair_rows=())

    def _curve(self, curve: tuple[SharePoint, ...]) -> tuple[SharePoint, ...]:
        if self.get(MONOTONE):
            qualities = sorted(point.quality for point in curve)
            curve = tuple(SharePoint(p.heavy, q) for p, q in zip(curve, qualities, strict=True))
        first, last, factor = at(curve, 0.0), at(curve, 1.0), self.get(CHOICE, 1.0)
        means = [(1 - share) * first + share * last for share, _ in curve]
        return tuple(SharePoint(p.heavy, m + factor * (p.quality - m)) for p, m in zip(curve, means, strict=True))

    def _bands(self, catalog: Catalog, key: CascadeKey, bands: CascadeBands) -> CascadeBands:
        """Draw what is known of kept drafts, and of those generated again, to the levels' own means."""
        factor = self.get(CHOICE, 1.0)

        def nearer(level: str, rows: tuple[Shares, ...]) -> tuple[Shares, ...]:
            means = [level_quality(catalog, level, band) for band in range(len(bounds_of(catalog)) - 1)]
            return tuple(
                tuple(q if q is None or mean is None else mean + factor * (q - mean) for q in row)
                for row, mean in zip(rows, means, strict=bool(rows))
            )

        again = {step: nearer(key.heavy, rows) for step, rows in bands.again.items()}
        return dataclasses.replace(bands, kept=nearer(key.light, bands.kept), again=again)

    def _with_confidence(self, catalog: Catalog) -> Catalog:
        factor, measured = self[CONFIDENCE], catalog.measured
        if not 0 < factor <= 1:
            raise PochadeError(f"{CONFIDENCE} must be above 0 and at most 1: got {factor:g}")
        discriminators = {name: _scored(own, factor) for name, own in catalog.discriminators.items()}
        if measured is not None:
            cascades = {
                key: dataclasses.replace(bands, thresholds=_scaled(bands.thresholds, factor))
                for key, bands in measured.cascades.items()
            }
            measured = dataclasses.replace(measured, cascades=cascades)
        return dataclasses.replace(catalog, discriminators=discriminators, measured=measured)

    def _with_classes(self, catalog: Catalog) -> Catalog:
        shares: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for name, share in self._under(CLASS).items():
            strategy, _, level = name.partition(".")
            known = catalog.classes(strategy)
            if level not in known:
                raise Unknown(f"class of the strategy {strategy!r}", level, known)
            shares[strategy][level] = share
        cuts, measured = dict(catalog.class_cuts), catalog.measured
        for strategy, own in shares.items():
            if abs(math.fsum(own.values()) - 1) > TOLERANCE:
                raise PochadeError(f"shares of the classes of {strategy!r} must sum to 1: got {own}")
            cuts[strategy] = _cuts(catalog, own)
            if measured is not None and strategy in measured.predicted:
                measured = _predicting(measured, strategy, own)
        return dataclasses.replace(catalog, class_cuts=cuts, measured=measured)

    def _under(self, kind: str) -> dict[str, float]:
        return {name.removeprefix(f"{kind}."): value for name, value in self.items() if name.startswith(f"{kind}.")}


def _of_quality(variant: Variant, quality: float) -> Variant:
    return variant if variant.quality == quality else dataclasses.replace(variant, quality=quality)


def _scaled(thresholds: Row, factor: float) -> Row:
    """Return the thresholds times a factor; the last one stays 1, above which no confidence lies."""
    return (*(factor * threshold for threshold in thresholds[:-1]), 1.0)


def _scored(discriminator: Discriminator, factor: float) -> Discriminator:
    points = [DeferralPoint(factor * point.threshold, point.deferred) for point in discriminator.deferral]
    if factor < 1 and (not points or points[-1].deferred < 1):
        points.append(DeferralPoint(factor, 1.0))
    return dataclasses.replace(discriminator, deferral=tuple(points))


def _cuts(catalog: Catalog, shares: Mapping[str, float]) -> tuple[Cut, ...]:
    """Return cuts of these shares, the fastest level first; levels of no share are left out."""
    levels = sorted(
        (level for level, share in shares.items() if share > 0), key=lambda level: run_ms(catalog.level(level), 1)
    )
    upper, cuts = 0.0, []
    for level in levels:
        upper += shares[level]
        cuts.append(Cut(level, 1.0 if level == levels[-1] else round(upper, 9)))
    return tuple(cuts)


def _predicting(measured: Measured, strategy: str, shares: Mapping[str, float]) -> Measured:
    bands = tuple(dict(shares) for _ in measured.predicted[strategy])
    return dataclasses.replace(measured, predicted={**measured.predicted, strategy: bands})
