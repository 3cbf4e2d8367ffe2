"""Checks the plans that a reader obeys: newer than its own, whole, and fitting the catalog."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from planner.catalog.entries import reuse_step, variant_of
from planner.catalog.model import Catalog
from planner.catalog.options import fault
from planner.components.demand.combinations import parts_of
from planner.components.holdings import LOCAL
from planner.reuse import terms
from planner.serving.dispatch.dispatch import KINDS
from schemas.errors import InvalidPlan, Unknown
from schemas.messages import TIERS, Cascade, Plan, ReusePlan, Route, ScalePlan

CheckPlan = Callable[[Plan, Catalog], None]
"""`check` or `check_live`."""

STRATEGIES = ("models", "reuse")
TOLERANCE = 1e-6  # of a sum of probabilities
MAX_AHEAD = 2**32  # max difference of a version and its record's offset: no pipeline has this many plans


def is_newer(version: int, candidate: Plan) -> bool:
    """Whether a reader that has met this version (0: none) should look at the candidate.

    Versions not above are ignored: they are a fenced planner's.
    """
    return version < candidate.version


def is_possible(version: int, offset: int) -> bool:
    """Whether a plan at this offset may have this version.

    The limit rises with the offset. Whatever version a reader has taken, each later record may have the next one, so
    that no record on the topic is the last that readers obey.
    """
    return 0 < version <= offset + MAX_AHEAD


def check(plan: Plan, catalog: Catalog) -> None:
    """Raise InvalidPlan, saying what is wrong, unless the plan is whole and fits the catalog.

    The simulator obeys it then; live roles ask more (`check_live`).
    """
    try:
        _check_routes(plan.routes, catalog.classes(plan.strategy), catalog)
        _check_cascades(plan.cascades, catalog)
        for variant in (*plan.allocation.values(), *plan.batch):
            catalog.level(variant)
        for variant, size in plan.batch.items():
            _require(size >= 1, f"batch of {variant} must be >= 1: got {size}")
        for tier, share in plan.admission.shares.items() if plan.admission else ():
            _known("tier", tier, TIERS)
            _require(0 <= share <= 1, f"share of {tier} to let in must be in [0, 1]: got {share}")
        _known("dispatch", plan.dispatch, KINDS)
        _known("strategy", plan.strategy, STRATEGIES)
        _check_memory(plan.memory)
        _check_reuse(plan.reuse, catalog)
        _check_scale(plan.scale, catalog)
        _check_residency(plan, catalog)
    except (InvalidPlan, Unknown) as error:
        raise InvalidPlan(f"plan {plan.version} of {plan.policy!r}: {error}") from None


def check_live(plan: Plan, catalog: Catalog) -> None:
    """Raise as `check`, and where the plan asks for what no live role can do, but the simulator can."""
    check(plan, catalog)
    try:
        terms.check_live(plan.reuse)
    except InvalidPlan as error:
        raise InvalidPlan(f"plan {plan.version} of {plan.policy!r}: {error}") from None


def _check_routes(routes: Sequence[Route], classes: Set[str], catalog: Catalog) -> None:
    for route in routes:
        _check_probabilities(route, catalog)
    labels = [route.label for route in routes if route.label]
    _require(len(labels) == len(set(labels)), f"there must be one route a class: got {sorted(labels)}")
    if len(labels) < len(routes):
        _check_intervals(sorted((r.hardness_from, r.hardness_to) for r in routes if not r.label))
    else:
        _require(bool(labels), "there must be a route: got none")
        _require(classes <= set(labels), f"classes without a route: {sorted(classes - set(labels))}")


def _check_probabilities(route: Route, catalog: Catalog) -> None:
    for level, probability in route.levels.items():
        _check_level(level, catalog)
        _require(0 <= probability <= 1, f"probability of {level} must be in [0, 1]: got {probability}")
    total = math.fsum(route.levels.values())
    _require(abs(total - 1) <= TOLERANCE, f"probabilities of a route must sum to 1: got {total} in {route.levels}")


def _check_level(name: str, catalog: Catalog) -> None:
    """A variant, or a variant begun from a stored latent, as in "heavy~k4"."""
    variant = catalog.level(variant_of(name))
    step = reuse_step(name)
    _require(step < variant.steps, f"{name} must leave one of the {variant.steps} steps of {variant.name} to take")


def _check_reuse(reuse: ReusePlan | None, catalog: Catalog) -> None:
    if reuse is None:
        return
    terms.terms_of(reuse)
    for level in reuse.hits:
        _check_level(level, catalog)
    if reuse.check is not None:
        catalog.discriminator(reuse.check.discriminator)


def _check_scale(scale: ScalePlan | None, catalog: Catalog) -> None:
    if scale is None:
        return
    for variant, workers in (*scale.targets.items(), *scale.wanted.items()):
        catalog.level(variant)
        _require(workers >= 0, f"workers of {variant} must be >= 0: got {workers}")
    _require(scale.warm >= 0, f"workers that are held warm must be >= 0: got {scale.warm}")
    _check_memory(scale.memory)


def _check_residency(plan: Plan, catalog: Catalog) -> None:
    """Each worker has a variant, and holds that variant's components, or what is fused from them, in a local tier."""
    if plan.residency is None:
        return
    _check_memory(plan.residency.memory)
    strangers = sorted(plan.residency.workers.keys() - plan.allocation.keys())
    _require(not strangers, f"a residency is of workers that the plan has no variant for: {strangers[:5]}")
    for worker, held in plan.residency.workers.items():
        variant = catalog.level(plan.allocation[worker])
        known = {each.id for each in variant.components}
        for id_, tier in held.items():
            _known("tier", tier, [each.label for each in LOCAL])
            for part in _parts(id_):
                _known(f"component of {variant.name}", part, known)


def _parts(id_: str) -> tuple[str, ...]:
    try:
        return parts_of(id_)
    except ValueError:
        raise InvalidPlan(f"a fused component must be fused:BASE+ADAPTER@WEIGHT: got {id_!r:.200}") from None


def _check_intervals(intervals: Sequence[tuple[float, float]]) -> None:
    """Each begins where the one before ends: [0, a) [a, b) [b, 1]."""
    ends = [0.0, *(upper for _, upper in intervals)]
    starts = [*(lower for lower, _ in intervals), 1.0]
    whole = ends == starts and all(lower < upper for lower, upper in intervals)
    _require(whole, f"hardness intervals must cover [0, 1] once, without gap or overlap: got {list(intervals)}")


def _check_cascades(cascades: Iterable[Cascade], catalog: Catalog) -> None:
    follow: dict[str, str] = {}
    for cascade in cascades:
        _check_level(cascade.level, catalog)  # of a reuse level: its hits are judged, and what fails is made in full
        catalog.level(cascade.next_level), catalog.discriminator(cascade.discriminator)
        message = f"threshold after {cascade.level} must be in [0, 1]: got {cascade.threshold}"
        _require(0 <= cascade.threshold <= 1, message)
        drafted = catalog.level(variant_of(cascade.level))
        wrong = fault(cascade.refine_from_step, drafted, catalog.level(cascade.next_level))
        _require(not wrong, f"cascade from {cascade.level} to {cascade.next_level}: {wrong}")
        _require(cascade.level not in follow, f"there must be one cascade a level: got two for {cascade.level}")
        follow[cascade.level] = cascade.next_level
    for start in follow:
        _check_ends(start, follow)


def _check_ends(start: str, follow: Mapping[str, str]) -> None:
    path = [start]
    while path[-1] in follow:
        path.append(follow[path[-1]])
        _require(path[-1] not in path[:-1], f"a cascade must end: got the cycle {' -> '.join(path)}")


def _check_memory(memory: str) -> None:
    """The next planner goes on from it."""
    try:
        is_object = isinstance(json.loads(memory), dict)
    except (ValueError, RecursionError):  # RecursionError: nested without end
        is_object = False
    _require(is_object, f"memory must be a JSON object: got {memory!r:.100}")


def _known(kind: str, name: str, known: Iterable[str]) -> None:
    if name not in set(known):
        raise Unknown(kind, name, known)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidPlan(message)
