"""Values measured of a catalog: the tables that planning by prompt rests on. `profile.py` reads the files."""

from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple

ALPHA = 0.05  # chance that one of the differences compared looks real and is none
SIDES = 1.959964  # standard errors on each side of a 95 % interval
Shares = tuple[float | None, ...]  # one a hardness band; None: no prompt of the calibration set lies in it
Row = tuple[float, ...]


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


class Difference(NamedTuple):
    """By how much one option is better than another on the same prompts, on average over all of them."""

    mean: float
    error: float  # standard error of the mean
    prompts: int

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the mean."""
        return Interval(self.mean - SIDES * self.error, self.mean + SIDES * self.error)

    def is_shown(self, options: int = 1) -> bool:
        """Whether the difference is significant, as one of `options` that are compared (Bonferroni)."""
        return abs(self.mean) > NormalDist().inv_cdf(1 - ALPHA / options) * self.error


class Start(NamedTuple):
    """A level begun at step K from an image: the draft of a cascade, or the nearest stored neighbour's."""

    k: int
    cost_share: float  # of generating from noise
    quality: float | None = None
    quality_by_band: Shares = ()
    quality_interval: Interval | None = None  # 95 %, over the choice of prompts
    judged_by_band: tuple[int, ...] = ()  # prompts behind each; (): unknown


class CascadeKey(NamedTuple):
    """The cascade of a measurement, without the step from which heavy refines."""

    light: str
    heavy: str
    discriminator: str


@dataclass(frozen=True, slots=True)
class CascadeBands:
    """A cascade by band c and threshold t, thresholds rising from 0 to 1; rows are bands."""

    thresholds: Row
    deferred: tuple[Row, ...]  # phi[c][t]: share of light's images with a confidence below t
    kept: tuple[Shares, ...] = ()  # quality of light's images at or above t; () and None: unknown
    again: dict[int, tuple[Shares, ...]] = field(default_factory=dict)
    """Step K that refining begins from, 0 from noise -> quality of heavy's images on the prompts below t."""
    losses: tuple[Difference, ...] = ()  # of all prompts, by threshold: what keeping loses against generating all anew
    changes: dict[int, Difference] = field(default_factory=dict)  # step K -> what refining changes against noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurements of a profile by hardness band and by class, on which planning by prompt rests.

    Hardness band c is [bounds[c], bounds[c + 1]), the last one with its end.
    """

    bounds: Row  # rising from 0 to 1
    quality: dict[str, Shares]  # level -> by band; "heavy~k4" is a level too
    cascades: dict[CascadeKey, CascadeBands] = field(default_factory=dict)
    classes: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)  # strategy -> class -> level -> mean
    run_cv: dict[str, dict[int, float]] = field(default_factory=dict)
    """level -> images in a call -> coefficient of variation of its run time, as its quartiles say of a normal one."""
    prompts: tuple[int, ...] = ()  # judged, by band; (): unknown
    gains: dict[tuple[str, str], Difference] = field(default_factory=dict)
    """(cheaper level, dearer level) -> by how much the dearer one is better on the same prompts."""
    predicted: dict[str, tuple[dict[str, float], ...]] = field(default_factory=dict)
    """strategy -> by band, class -> share of the band's prompts of which the catalog's classifier predicts it."""
