"""The catalog as a value: the variants a deployment can run and who judges their images, checked.

All planning rests on it. Levels are variants; reuse levels join them with approximate caching. `streams.catalogs` reads
it from its file.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

from planner.catalog.curves import CascadeCurves, PairRow, check_curve, check_row
from planner.catalog.entries import Classifier, Discriminator, Variant, check_classifiers, run_ms
from planner.catalog.guarantees import Guarantee
from planner.catalog.measured import CascadeKey, Measured, Start
from planner.catalog.options import fault
from planner.catalog.reuse import ReuseProfile, check_reuse_profile
from planner.catalog.validate import InvalidCatalog, is_amount, require
from schemas.errors import Unknown

T = TypeVar("T")

SCALES: Final = ("facts", "fid", "pickscore")


class Pair(NamedTuple):
    """A cascade the catalog offers: images of `light` that are not good enough are generated again by `heavy`."""

    light: str
    heavy: str
    discriminator: str
    refine_from_step: int = 0  # of heavy's steps, where it begins with light's image; 0: from noise

    @property
    def key(self) -> CascadeKey:
        """The key by which the measurements of the cascade are looked up."""
        return CascadeKey(self.light, self.heavy, self.discriminator)


class Cut(NamedTuple):
    """A class by hardness: `level` is believed optimal from the cut before up to this one."""

    level: str
    hardness: float  # upper bound, exclusive, but 1.0 includes 1.0


@dataclass(frozen=True)
class Catalog:
    """Everything that policies plan with. Refuses names that it does not hold.

    Quality is on one scale throughout, higher is better: "facts" is the share of stated facts that hold, "pickscore"
    PickScore, "fid" the negated FID.
    """

    name: str
    variants: dict[str, Variant]  # the levels that plans choose from
    discriminators: dict[str, Discriminator]
    cascades: tuple[Pair, ...]  # the first is the one that two-level policies use
    class_cuts: dict[str, tuple[Cut, ...]]  # strategy -> cuts ascending to 1.0
    classifiers: dict[str, Classifier] = field(default_factory=dict)  # the first gives hardness; none: shipped rules
    scale: str = "facts"  # of SCALES
    slo_s: float = 0.0  # latency that its source asks of most requests; 0: none
    indifference: float = 0.0  # of mean quality: a difference no user notices, or that was not measured
    curves: dict[CascadeKey, CascadeCurves] = field(default_factory=dict)  # where a mixture's quality was measured
    pair_rows: tuple[PairRow, ...] = ()  # measured settings of router and discriminator
    reuse: dict[str, tuple[Start, ...]] = field(default_factory=dict)  # variant -> begun from a stored image
    reuse_profile: ReuseProfile | None = None  # how often and how far images begin from stored ones; None: never
    measured: Measured | None = None  # by hardness band and class; None: not known apart
    on_request: dict[str, Variant] = field(default_factory=dict)  # that are no levels: requests name what they honour
    guarantees: tuple[Guarantee, ...] = ()  # of its profile; (): nothing is promised
    floors: dict[CascadeKey, tuple[float, ...]] = field(default_factory=dict)
    """Threshold by hardness band from which a plan lets drafts be kept, whatever its own is; 1: none. {}: any."""

    def __post_init__(self) -> None:
        require(bool(self.variants), f"catalog {self.name!r}", 0, "of one variant or more", "add [variants.NAME]")
        require(is_amount(self.slo_s), f"catalog {self.name!r}: slo_s", self.slo_s, "seconds >= 0", "correct it")
        indifference = f"catalog {self.name!r}: indifference"
        require(
            is_amount(self.indifference), indifference, self.indifference, ">= 0, in the unit of quality", "correct it"
        )
        if self.scale not in SCALES:
            raise Unknown("scale of quality", self.scale, SCALES)
        for pair in self.cascades:
            self._check_pair(pair)
        for name in self.variants.keys() & self.on_request.keys():
            require(False, f"variant {name!r}", "a level and on request", "one of both", "correct on_request")
        for variant in self.served.values():
            for base in variant.bases:
                taken = base in self.served and base != variant.name
                require(not taken, f"base {base!r} of {variant.name}", base, "no variant's name", "rename one")
        for strategy, cuts in self.class_cuts.items():
            self._check_cuts(strategy, cuts)
        check_classifiers(self.classifiers.values(), self.level)
        for curves in self.curves.values():
            check_curve(curves.judged)
            check_curve(curves.random)
        for row in self.pair_rows:
            self.level(row.light), self.level(row.heavy)
            check_row(row)
        for name, starts in self.reuse.items():
            self._check_reuse(self.level(name), starts)
        if self.reuse_profile is not None:
            check_reuse_profile(self.reuse_profile, f"catalog {self.name!r}: reuse_profile")

    def _check_pair(self, pair: Pair) -> None:
        self.level(pair.light), self.level(pair.heavy), self.discriminator(pair.discriminator)
        require(pair.light != pair.heavy, "a cascade", tuple(pair), "between two levels", "name another heavy")
        wrong = fault(pair.refine_from_step, self.level(pair.light), self.level(pair.heavy))
        if wrong:
            raise InvalidCatalog(f"cascade from {pair.light} to {pair.heavy}: {wrong}")

    def _check_cuts(self, strategy: str, cuts: tuple[Cut, ...]) -> None:
        later = {f"{name}~k{start.k}" for name, starts in self.reuse.items() for start in starts}
        for cut in cuts:
            if cut.level not in later:
                self.level(cut.level)
        bounds = [cut.hardness for cut in cuts]
        ascends = bounds == sorted(set(bounds)) and bounds[:1] > [0.0] and bounds[-1:] == [1.0]
        require(ascends, f"classes of {strategy!r}", bounds, "ascending from above 0 to 1.0", "correct the cuts")

    def _check_reuse(self, variant: Variant, starts: tuple[Start, ...]) -> None:
        for start in starts:
            where = f"reuse of {variant.name}: k = {start.k}:"
            require(1 <= start.k < variant.steps, where, start.k, f"in [1, {variant.steps})", "correct the step")
            require(start.cost_share >= 0, f"{where} cost_share", start.cost_share, ">= 0", "measure again")

    @cached_property
    def derived(self) -> dict[Hashable, Any]:
        """Cache of values that functions compute from the catalog alone."""
        return {}

    def classes(self, strategy: str) -> frozenset[str]:
        """The levels that a classifier or a cut may name as a prompt's class under a strategy; empty without either."""
        learned = next((c.levels for c in self.classifiers.values() if c.strategy == strategy), ())
        return frozenset(learned) or frozenset(cut.level for cut in self.class_cuts.get(strategy, ()))

    def level(self, name: str) -> Variant:
        """The variant that generates a level, or one that is there on request. Raises Unknown with the known ones."""
        return _known(self.served, "level", name)

    @cached_property
    def has_quality(self) -> bool:
        """Whether any quality was measured, of a level or of a mixture; without, levels count by their run times."""
        by_band = self.measured.quality.values() if self.measured else ()
        known = [*(variant.quality for variant in self.variants.values()), *(q for row in by_band for q in row)]
        return bool(self.curves or self.pair_rows) or any(quality is not None for quality in known)

    @cached_property
    def served(self) -> dict[str, Variant]:
        """All variants that workers may serve: the levels, and those on request."""
        return self.variants | self.on_request

    @cached_property
    def bases(self) -> dict[str, list[str]]:
        """Name of a base -> the variants that have it."""
        found: dict[str, list[str]] = {}
        for variant in self.served.values():
            for base in variant.bases:
                found.setdefault(base, []).append(variant.name)
        return found

    def discriminator(self, name: str) -> Discriminator:
        """Return a discriminator by name. Raises Unknown with the known ones."""
        return _known(self.discriminators, "discriminator", name)

    def guarantee(self, level: str, discriminator: str = "") -> Guarantee | None:
        """Return what is promised of the images of a level that a discriminator keeps; "": of all of them."""
        return next((g for g in self.guarantees if (g.level, g.discriminator) == (level, discriminator)), None)

    def pair(self) -> Pair:
        """The cascade that two-level policies use. Raises InvalidCatalog when there is none."""
        if not self.cascades:
            raise InvalidCatalog(f"catalog {self.name!r} has no cascade: add [[cascades]] or use a policy without one")
        return self.cascades[0]

    def cheapest(self) -> Variant:
        """The variant with the shortest call for one image."""
        if "cheapest" not in self.derived:
            self.derived["cheapest"] = min(self.variants.values(), key=lambda v: (run_ms(v, 1), v.name))
        found: Variant = self.derived["cheapest"]
        return found

    def best(self) -> Variant:
        """The variant of the highest quality; unmeasured ones come last, the slower one wins a tie."""
        if "best" not in self.derived:
            self.derived["best"] = max(
                self.variants.values(), key=lambda v: (-math.inf if v.quality is None else v.quality, run_ms(v, 1))
            )
        found: Variant = self.derived["best"]
        return found

    def cheaper_than(self, level: str) -> list[Variant]:
        """The variants with a shorter call than this level's, the longest first: what to fall back to."""
        limit = run_ms(self.level(level), 1)
        cheaper = [v for v in self.variants.values() if run_ms(v, 1) < limit]
        return sorted(cheaper, key=lambda v: (-run_ms(v, 1), v.name))

    def dearer_than(self, level: str) -> list[Variant]:
        """The variants with a longer call than this level's, the shortest first: used if no worker serves the level."""
        limit = run_ms(self.level(level), 1)
        return sorted((v for v in self.variants.values() if run_ms(v, 1) > limit), key=lambda v: (run_ms(v, 1), v.name))


def classes_of(catalog: Catalog, hardness: float) -> dict[str, str]:
    """strategy -> the level believed optimal at a hardness in [0, 1], by cuts: where no classifier predicts it."""
    return {
        strategy: next((cut.level for cut in cuts if hardness < cut.hardness), cuts[-1].level)
        for strategy, cuts in catalog.class_cuts.items()
    }


def _known(entries: Mapping[str, T], kind: str, name: str) -> T:
    if name not in entries:
        raise Unknown(kind, name, entries)
    return entries[name]
