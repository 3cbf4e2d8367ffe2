"""The measurements of a catalog by `pochade profile`, which planning and simulation compute with.

A profile is two files (infra/profiles): NAME.json, which is a `Profile`, and NAME-quality.npz, the prompt by prompt
outcomes, which are a `PromptTable`. `streams.catalogs` reads both. Hardness bands are the pieces between two neighbours
of `bands`. Planning by prompt rests on `Measured`, which `planner.catalog.evidence.joining` makes of both files.

The offline table of a catalog's cascades is part of it (`SweptTable`), as `pochade profile` sweeps it from the prompts
it measured. Source: HADIS 3.2, lookup-table construction: thresholds of router and discriminator for each pair, the
rows kept that no other beats. Ours: the step from which heavy refines the draft, quality by hardness band, and
intervals.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from planner.catalog.caching import CachingMeasurement, check_caching
from planner.catalog.curves import PairRow, check_row
from planner.catalog.entries import Curve, DeferralPoint
from planner.catalog.guarantees import Guarantee, check_guarantees
from planner.catalog.measured import Interval, Shares, Start
from planner.catalog.validate import is_amount, is_share, require

FORMAT = 2  # quality is 1 where all stated facts hold, else 0; in format 1 it was the share of those facts
VERSION = 1  # of the swept table

REMEASURE: Final = "measure again with `pochade profile`"
RETRY_SWEEP: Final = "sweep again with `pochade profile cascades`"
CLOCKS: Final = ("cpu", "wall")


@dataclass(frozen=True, kw_only=True)
class LevelProfile:
    """The measurements of one level."""

    latency_ms: dict[int, float]  # batch size -> median ms of one call, by the clock that counts
    spread_ms: dict[int, float] = field(default_factory=dict)  # batch size -> distance of the quartiles
    clock: str  # "cpu": ms of one thread's time; "wall": ms that went by
    load_ms: float  # into a process that has generated with others already
    cold_load_ms: float  # into a new process, with the libraries
    disk_load_ms: float | None = None  # as load_ms, with files that are not in memory; None if not measured
    memory_bytes: int  # peak of the process above what it had before it loaded
    cuda_bytes: int  # peak of the device; 0 on a CPU
    quality: float | None = None  # mean over the calibration prompts; None if not judged
    quality_interval: Interval | None = None  # 95 %, over the choice of prompts
    quality_by_band: Shares = ()
    judged_by_band: tuple[int, ...] = ()  # prompts behind each; (): unknown
    facts: float | None = None  # mean share of the stated facts that hold; None if not checked
    compiled: bool = False  # whether its denoiser ran as compiled code


@dataclass(frozen=True, kw_only=True)
class CascadeProfile:
    """The measurements of a cascade: its discriminator on the light level's images, and refining these."""

    light: str
    heavy: str
    discriminator: str
    latency_ms: float = 0.0  # of one confidence
    deferral: tuple[DeferralPoint, ...] = ()
    deferral_by_band: tuple[tuple[DeferralPoint, ...], ...] = ()
    paint_over: tuple[Start, ...] = ()
    chosen_k: int = 0  # the largest step shown to lose no more than the tolerance; 0: a blank


class SweptRow(NamedTuple):
    """A row of the table with what it rests on."""

    row: PairRow
    low: float  # of the two-sided 95 % interval of its quality
    high: float
    prompts: int  # of the smallest of its parts: kept, generated again, straight to heavy


@dataclass(frozen=True, kw_only=True)
class SweptTable:
    """The rows that no other beats, the cheapest first."""

    version: int = VERSION  # rises when a reader must change
    created: str = ""  # when and by which command, for people
    command: str = ""
    prompts: int  # that the rows were chosen and judged on
    resamples: int
    seed: int
    sure: float  # standard errors of the difference by which a row beats every cheaper one
    optimism: float | None = None  # by how much rows chosen on half of the prompts fall short on the other half
    rows: tuple[SweptRow, ...]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A catalog's levels, cascades and reuse, of one machine and one set of prompts."""

    catalog: str
    seed: int
    prompts: int
    bands: tuple[float, ...]  # hardness, rising from 0 to 1
    levels: dict[str, LevelProfile]
    cascades: tuple[CascadeProfile, ...] = ()
    reuse: dict[str, tuple[Start, ...]] = field(
        default_factory=dict
    )  # level -> begun from the nearest neighbour's image
    settings: SweptTable | None = None  # of router and discriminator; None if not swept
    caching: dict[str, CachingMeasurement] = field(
        default_factory=dict
    )  # level -> approximate caching of it on a stream of requests
    guarantees: tuple[Guarantee, ...] = ()  # of what discriminators keep, and of the images of whole levels
    judging_ms: dict[str, dict[int, float]] = field(default_factory=dict)  # discriminator -> images in a batch -> ms

    def band(self, hardness: float) -> int:
        """Return the band of a hardness in [0, 1]; a bound belongs to the band above it, 1 to the last."""
        return min(bisect_right(self.bands, hardness), len(self.bands) - 1) - 1


def check_profile(profile: Profile, where: str) -> None:
    """Raise InvalidCatalog unless a profile's figures are possible and fit its bands. `where` begins each message."""
    bands = profile.bands
    rises = bands == tuple(sorted(set(bands))) and bands[:1] == (0.0,) and bands[-1:] == (1.0,)
    require(rises, f"{where}: bands", bands, "rising from 0 to 1", REMEASURE)
    require(bool(profile.levels), f"{where}: levels", 0, "one or more", REMEASURE)
    pieces = len(bands) - 1
    for name, level in profile.levels.items():
        _check_level(level, f"{where}: levels.{name}", pieces)
    for at, cascade in enumerate(profile.cascades):
        _check_cascade(cascade, f"{where}: cascades[{at}]", pieces)
        for end in (cascade.light, cascade.heavy):
            require(end in profile.levels, f"{where}: cascades[{at}]", end, "between its levels", REMEASURE)
    for name, starts in profile.reuse.items():
        _check_starts(starts, f"{where}: reuse.{name}", pieces)
    if profile.settings:
        check_swept(profile.settings, f"{where}: settings", pieces)
    check_guarantees(profile.guarantees, where)
    for name, times in profile.judging_ms.items():
        for batch, ms in times.items():
            possible = batch >= 1 and is_amount(ms) and 1 in times
            require(possible, f"{where}: judging_ms.{name}", times, ">= 0 by batch size, of 1 too", REMEASURE)
    for name, cached in profile.caching.items():
        check_caching(cached, f"{where}: caching.{name}")


def check_swept(table: SweptTable, where: str, bands: int) -> None:
    """Raise InvalidCatalog unless a table is of this version and its rows are possible; `bands`: of hardness."""
    require(table.version == VERSION, f"{where}: version", table.version, str(VERSION), RETRY_SWEEP)
    for at, swept in enumerate(table.rows):
        here = f"{where}.rows[{at}]"
        _check_bands(swept.row.quality_by_band, f"{here}.quality_by_band", bands, RETRY_SWEEP)
        check_row(swept.row)


def _check_level(level: LevelProfile, where: str, pieces: int) -> None:
    for key in ("latency_ms", "spread_ms"):
        for batch, ms in getattr(level, key).items():
            require(batch >= 1, f"{where}.{key}", batch, "by batch sizes of 1 or more", REMEASURE)
            require(is_amount(ms), f"{where}.{key}.{batch}", ms, ">= 0", REMEASURE)
    require(1 in level.latency_ms, f"{where}.latency_ms", level.latency_ms, "of batch 1 too", REMEASURE)
    for key in ("load_ms", "cold_load_ms", "memory_bytes", "cuda_bytes"):
        require(is_amount(getattr(level, key)), f"{where}.{key}", getattr(level, key), ">= 0", REMEASURE)
    require(level.clock in CLOCKS, f"{where}.clock", level.clock, "cpu or wall", REMEASURE)
    _check_bands(level.quality_by_band, f"{where}.quality_by_band", pieces, REMEASURE)
    _check_bands(level.judged_by_band, f"{where}.judged_by_band", pieces, REMEASURE)


def _check_cascade(cascade: CascadeProfile, where: str, pieces: int) -> None:
    curves = cascade.deferral_by_band
    require(len(curves) in (0, pieces), f"{where}.deferral_by_band", len(curves), f"{pieces}, one a band", REMEASURE)
    _check_curve(cascade.deferral, f"{where}.deferral")
    for band, curve in enumerate(curves):
        _check_curve(curve, f"{where}.deferral_by_band[{band}]")
    _check_starts(cascade.paint_over, f"{where}.paint_over", pieces)


def _check_curve(curve: Curve, where: str) -> None:
    inside = all(is_share(point.threshold) and is_share(point.deferred) for point in curve)
    require(inside and list(curve) == sorted(curve), where, curve, "shares that rise", REMEASURE)


def _check_starts(starts: Sequence[Start], where: str, pieces: int) -> None:
    for at, start in enumerate(starts):
        _check_bands(start.quality_by_band, f"{where}[{at}].quality_by_band", pieces, REMEASURE)
        _check_bands(start.judged_by_band, f"{where}[{at}].judged_by_band", pieces, REMEASURE)
    steps = [start.k for start in starts]
    require(steps == sorted(set(steps)), where, steps, "rising", REMEASURE)


def _check_bands(shares: Shares | tuple[int, ...], where: str, pieces: int, advice: str) -> None:
    require(len(shares) in (0, pieces), where, shares, f"of {pieces} bands", advice)
