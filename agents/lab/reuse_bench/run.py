"""The whole bench: pairs, a stream with reuse, cost where nothing repeats, lookups among many rows; one report."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, Final

from agents.components.opening import Keeping
from agents.engines import open_engine
from agents.lab.reuse_bench import filling, requests
from agents.lab.reuse_bench.among_rows import among_rows
from agents.lab.reuse_bench.effort import Effort, Progress
from agents.lab.reuse_bench.pairs import ADVERSARIAL, PARAPHRASES, passing, read_pairs
from agents.lab.reuse_bench.route import NO_FLOORS, NO_LEVELS, Route, costliest_route, guarded_route
from agents.lab.reuse_bench.served import NO_FIGURES, figures
from agents.lab.reuse_bench.stand import Place
from agents.lab.reuse_bench.stream import serve_stream
from agents.reuse import plain_guard
from planner.catalog.model import Catalog
from planner.reuse.guard import Compare
from schemas.errors import PochadeError
from streams.catalogs import find_profile, measured
from streams.settings import Settings
from streams.store.open import open_store
from streams.vectors.keys import digest_of
from streams.vectors.open import open_vectors
from streams.vectors.port import Selection, VectorsUnavailable, WrongCollection

LIMITS: Final = {  # figure -> (sign, limit): what is wanted
    "saved_steps_share": (">=", 0.21),  # NIRVANA's GPU time
    "adversarial_pass_share": ("<=", 0.01),
    "cost_without_repeats": ("<=", 0.02),
    "retrieval_ms": ("<=", 3.0),
    "quality_loss_bound": ("<=", 0.005),
}
SERVER_LIMITS: Final = {"retrieval_ms": ("<=", 10.0)}  # of a Milvus that is reached by its address


def run(settings: Settings, effort: Effort, progress: Progress, compare: Compare | None = None) -> dict[str, Any]:
    """Measure on the stores that the settings name. `compare`: the guard's reader of facts for the pairs.

    Raises PochadeError: a store is away, the seed is the one that the floors were measured with, or a request failed.
    """
    catalog = measured(settings.catalog)
    _check_seed(settings, catalog, effort)
    guarded, costliest = guarded_route(catalog), costliest_route(catalog)
    report: dict[str, Any] = {"store": settings.vectors.url, "level": None, "floors": [], "note": ""}
    report |= _of_pairs(compare or plain_guard.compare, progress)
    report |= NO_FIGURES | {"cost_without_repeats": None, "retrieval_ms": None, "other_tenant": None}
    if costliest is None:
        return report | {"note": NO_LEVELS, "targets": targets(report)}
    variant = costliest.variant
    engine = open_engine(settings.worker.engine or variant.engine, variant, 1, Keeping.in_place(settings))
    place = Place(settings, catalog, open_store(settings), engine)
    if guarded is None:
        report["note"] = NO_FLOORS
    else:
        report |= {"level": guarded.level, "floors": [[each.similarity, each.share] for each in guarded.plan.floors]}
        asked = (
            requests.from_lines(effort.prompts, effort.seed, effort.requests)
            if effort.prompts
            else requests.repeating(effort.seed, effort.requests)
        )
        with _collection(place, "stream", effort, guarded) as own:
            served = serve_stream(own, guarded, asked, functools.partial(progress, "serving the stream"))
        report |= figures(served, effort.seed)
    route = guarded or costliest
    with _collection(place, "rows", effort, route) as own:
        report |= among_rows(own, route, effort, progress)
    report["targets"] = targets(report)
    return report


def targets(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Compare the figures that are there with what is wanted; of the loss of quality the worse end of its interval."""
    delta, cost, times = (report.get(name) for name in ("quality_delta", "cost_without_repeats", "retrieval_ms"))
    values = {
        "saved_steps_share": report.get("saved_steps_share"),
        "adversarial_pass_share": report.get("adversarial_pass_share"),
        "cost_without_repeats": cost and cost["value"],
        "retrieval_ms": times and times["p50"],
        "quality_loss_bound": delta and delta["ci"] and max(0.0, -delta["ci"][0]),
    }
    found = {}
    is_server = str(report.get("store", "")).startswith("http")
    for name, (sign, limit) in (LIMITS | (SERVER_LIMITS if is_server else {})).items():
        value = values[name]
        if value is not None:
            found[name] = {"limit": f"{sign} {limit:g}", "met": value <= limit if sign == "<=" else value >= limit}
    return found


def _check_seed(settings: Settings, catalog: Catalog, effort: Effort) -> None:
    """Raise PochadeError where the stream would be the one that the floors were chosen on."""
    profile = find_profile(settings.catalog)
    known = {level: each.seed for level, each in profile.profile().caching.items()} if profile else {}
    if not effort.prompts and effort.seed in {seed for level, seed in known.items() if level in catalog.variants}:
        raise PochadeError(f"seed {effort.seed} drew the requests that the floors were measured on: use another --seed")


def _of_pairs(compare: Compare, progress: Progress) -> dict[str, Any]:
    progress("comparing pairs", 0)
    adversarial, paraphrases = (passing(read_pairs(name), compare) for name in (ADVERSARIAL, PARAPHRASES))
    return {
        "adversarial_pass_share": adversarial["share"],
        "paraphrase_pass_share": paraphrases["share"],
        "pairs": {ADVERSARIAL: adversarial, PARAPHRASES: paraphrases},
    }


@contextlib.contextmanager
def _collection(place: Place, name: str, effort: Effort, route: Route) -> Iterator[Place]:
    """A place with an empty collection of its own, whose rows are deleted in the end."""
    settings = place.settings
    kafka = settings.kafka.model_copy(update={"prefix": f"{settings.kafka.prefix}-{name}"})
    vectors = settings.vectors.model_copy(update={"max_rows": max(effort.rows, settings.vectors.max_rows)})
    own = place._replace(settings=settings.model_copy(update={"kafka": kafka, "vectors": vectors}))
    try:
        yield own
    finally:
        store = open_vectors(own.settings, digest_of(route.plan.key))
        assert store is not None, "the bench's settings name a vector store"
        with contextlib.suppress(VectorsUnavailable, WrongCollection):
            store.delete(Selection(), filling.CALL_S)
        store.close()
