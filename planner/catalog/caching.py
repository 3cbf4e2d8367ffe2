"""The measurements of approximate caching of one level by `pochade profile --reuse`: what it saves, and what it loses.

A request may begin from the latent of an earlier image and skip K of its N steps. Everywhere K is a share of N. What is
lost is quality against the same prompt and seed from noise (K = 0). Plans take `guard`, and `floors` of the route that
they send requests on; the rest says what these rest on. A level without such measurements has no floors: nothing of it
is reused.

Each route has floors of its own, as a smaller share need not be safer: where facts are equal a stored image shows them
already, and a start in between mixes two layouts. So a plan's floors hold for the share that they were tested with, and
plans with them offer the one level that lets them save all they may (`planner.reuse.planning.level_of`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from planner.catalog.reuse import SAME_FACTS, UNSURE, Neighbours, ReuseProfile, check_neighbours
from planner.catalog.validate import is_amount, is_share, require
from planner.reuse.terms import Difference, Floor, Floors, GuardShares
from schemas.messages import ReuseFloor, ReuseGuard

VERSION: Final = 2  # 2: has `neighbours` and `evictions`
REMEASURE_REUSE: Final = "measure again with `pochade profile --reuse`"
LETS_NOTHING: Final = GuardShares(equal=0.0)


class Bounded(NamedTuple):
    """A figure with its two-sided 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class BegunFrom:
    """Images of some requests that began from stored latents after one share of the steps."""

    share: float  # of the steps that were skipped; 0: from noise
    pairs: int  # requests, each with the latent that it began from
    quality: Bounded  # share of the images in which all stated facts hold
    facts: Bounded  # share of the stated facts that hold
    change: Bounded  # of quality against the same prompts and seeds from noise
    facts_change: Bounded


@dataclass(frozen=True, kw_only=True)
class SimilarityBand:
    """Requests whose nearest earlier one has a similarity in [low, high), the last band with its end."""

    low: float
    high: float
    passed: bool  # whether only those are counted of which the guard finds equal facts; else all
    begun: tuple[BegunFrom, ...]


class MeasuredFloor(NamedTuple):
    """A floor with what it does on the stream, where the guard passes; rates and changes are of all requests."""

    similarity: float
    share: float
    hit_rate: float  # exact repeats included
    exact_rate: float  # of hits on the same prompt
    saved_share: float  # of the steps
    change: Bounded  # of quality


class HitRate(NamedTuple):
    """The requests that find a neighbour of this similarity or more which the guard passes."""

    similarity: float
    hit_rate: float  # exact repeats included
    exact_rate: float


@dataclass(frozen=True, kw_only=True)
class RouteSavings:
    """The stream under `guard` and the floors of a route that allows at most one share of the steps."""

    share: float
    floors: tuple[Floor, ...] = ()  # tested together; none: nothing is reused on this route
    hit_rate: float  # of all requests, if what was reused is not stored again
    exact_rate: float
    saved_share: float  # of all steps of all requests: the sum of h K / N
    saved_exact_share: float  # of these, the part that exact repeats save
    change: Bounded  # of quality, over all requests
    facts_change: Bounded


class EvictionSavings(NamedTuple):
    """The best route on the stream where the index holds few images."""

    eviction: str  # the order in which they leave (`planner.reuse.eviction`)
    entries: int  # that it holds
    hit_rate: float
    saved_share: float


@dataclass(frozen=True, kw_only=True)
class AgainstFewerSteps:
    """Reuse at K of N steps against N - K steps from noise: as much work, on the hits that the guard passes."""

    share: float
    similarity: float  # of the hits, at least
    pairs: int
    reuse_quality: Bounded
    fewer_quality: Bounded
    quality: Bounded  # the first less the second
    facts: Bounded


class Leak(NamedTuple):
    """Images that show what only the neighbour's prompt states."""

    begun: str  # "nearest" | "unrelated"
    kind: str  # "any", "count", "colour", "shape", "background"
    share: float  # of the steps that were skipped; 0: from noise, what chance shows
    pairs: int  # whose neighbour states something of the kind that the request does not
    leaked: Bounded  # share of these


class Diversity(NamedTuple):
    """The spread of one prompt's images with different seeds."""

    begun: str  # "noise", "neighbours" (another one for each image), "neighbour" (the nearest for all)
    share: float  # of the steps that were skipped
    prompts: int
    images: int  # of each prompt
    distance: Bounded  # mean distance of two images' features


@dataclass(frozen=True, kw_only=True)
class CachingMeasurement:
    """The measurements of one level on a stream of requests in the order of time."""

    version: int = VERSION  # rises when a reader must change
    created: str = ""  # when and by which command, for people
    command: str = ""
    key: str  # what embeds prompts: similarities of another one mean something else
    dimension: int  # of its vectors
    seed: int
    requests: int
    steps: int  # N
    tolerance: float  # of quality, that may be lost over all requests
    exact_share: float  # of the requests whose prompt came before, word for word
    guard: GuardShares = LETS_NOTHING  # for the floors of every route
    routes: tuple[RouteSavings, ...] = ()  # shares rising
    floors_alone: tuple[MeasuredFloor, ...] = ()  # the lowest floor of each share, tested without the others
    hits: tuple[HitRate, ...] = ()  # similarities rising
    similarity: tuple[SimilarityBand, ...] = ()
    unrelated: tuple[BegunFrom, ...] = ()  # from the latent of another prompt, drawn at random
    differences: dict[str, tuple[BegunFrom, ...]] = field(default_factory=dict)  # the one kind that differs -> by share
    verdicts: dict[str, float] = field(default_factory=dict)  # of the guard on the nearest one -> share of the requests
    neighbours: tuple[Neighbours, ...] = ()  # how near the nearest one is, and how its facts compare
    image_neighbours: tuple[Neighbours, ...] = ()  # how well the best fitting earlier image fits the prompt
    image_floors: tuple[Floor, ...] = ()  # of that similarity, by MoDM's rule; (): not measured, or none holds
    against_fewer_steps: tuple[AgainstFewerSteps, ...] = ()
    evictions: tuple[EvictionSavings, ...] = ()  # capacities rising
    leak: tuple[Leak, ...] = ()
    diversity: tuple[Diversity, ...] = ()

    @property
    def best(self) -> RouteSavings | None:
        """The route that saves most steps over all requests; None where none saves any."""
        return best_of(self.routes)


def best_of(routes: Iterable[RouteSavings]) -> RouteSavings | None:
    """Return the route that saves most steps over all requests; None where none saves any."""
    saving = [route for route in routes if route.saved_share > 0.0]
    return max(saving, key=lambda route: route.saved_share, default=None)


def reuse_profile_of(level: str, measured: CachingMeasurement) -> ReuseProfile:
    """Return what policies plan with: guard and hits of a level, and the floors of the route that saves most.

    Without such a route there are no floors: policies that ask for them reuse nothing.
    """
    best = measured.best
    return ReuseProfile(
        floors=tuple(ReuseFloor(similarity=each.similarity, share=each.share) for each in best.floors) if best else (),
        guard=ReuseGuard(
            equal=measured.guard.equal,
            style=measured.guard.style,
            unsure=measured.guard.unsure,
            differs={str(kind): share for kind, share in measured.guard.differs.items()},
        ),
        neighbours=measured.neighbours,
        image_neighbours=measured.image_neighbours if measured.image_floors else (),  # MoDM's own floors are of CLIP
        image_floors=tuple(ReuseFloor(similarity=each.similarity, share=each.share) for each in measured.image_floors),
        losses={
            f"{level}~k{round(route.share * measured.steps)}": -route.change.value / route.hit_rate
            for route in measured.routes
            if route.hit_rate > 0.0
        },
        changes=changes_of(measured),
    )


def changes_of(measured: CachingMeasurement) -> dict[str, dict[float, float]]:
    """Return the change of quality by verdict on the neighbour and share of the steps skipped, as far as measured.

    What passes the guard is pooled over similarities, by pairs. Where facts differ in a kind that was not measured, and
    where the guard is unsure, the figures of unrelated neighbours stand in, which are the worst.
    """
    passed = _pooled([begun for band in measured.similarity if band.passed for begun in band.begun])
    unrelated = _pooled(measured.unrelated)
    equal = dict.fromkeys(SAME_FACTS, passed)
    differing = {each.value: _pooled(measured.differences.get(each.value, ())) or unrelated for each in Difference}
    return {name: known for name, known in ({UNSURE: unrelated} | differing | equal).items() if known}


def _pooled(rows: Sequence[BegunFrom]) -> dict[float, float]:
    """Share -> change of quality, averaged over the pairs of all rows."""
    pairs, total = Counter[float](), defaultdict[float, float](float)
    for row in rows:
        pairs[row.share] += row.pairs
        total[row.share] += row.pairs * row.change.value
    return {share: total[share] / count for share, count in sorted(pairs.items()) if count}


def check_caching(profile: CachingMeasurement, where: str) -> None:
    """Raise InvalidCatalog, InvalidFloors or InvalidShares unless a level's measurements are possible."""
    require(profile.version == VERSION, f"{where}: version", profile.version, str(VERSION), REMEASURE_REUSE)
    require(bool(profile.key), f"{where}: key", profile.key, "named", REMEASURE_REUSE)
    for name, least in (("dimension", 1), ("steps", 2), ("requests", 1)):
        value = getattr(profile, name)
        require(value >= least, f"{where}: {name}", value, f">= {least}", REMEASURE_REUSE)
    require(is_amount(profile.tolerance), f"{where}: tolerance", profile.tolerance, ">= 0", REMEASURE_REUSE)
    require(is_share(profile.exact_share), f"{where}: exact_share", profile.exact_share, "in [0, 1]", REMEASURE_REUSE)
    check_neighbours(profile.neighbours, f"{where}: neighbours")
    check_neighbours(profile.image_neighbours, f"{where}: image_neighbours")
    Floors(profile.image_floors)  # raises InvalidFloors
    for kind in profile.differences:
        known = kind in {each.value for each in Difference}
        require(known, f"{where}: differences", kind, "a kind of difference", REMEASURE_REUSE)
    shares = [route.share for route in profile.routes]
    require(shares == sorted(set(shares)), f"{where}: routes", shares, "of rising shares", REMEASURE_REUSE)
    for at, route in enumerate(profile.routes):
        for name in ("share", "hit_rate", "exact_rate", "saved_share", "saved_exact_share"):
            value = getattr(route, name)
            require(is_share(value), f"{where}: routes[{at}].{name}", value, "in [0, 1]", REMEASURE_REUSE)
        most = max((floor.share for floor in Floors(route.floors).floors), default=0.0)
        require(most <= route.share, f"{where}: routes[{at}].floors", most, f"<= {route.share}", REMEASURE_REUSE)
