"""The whole bench: pairs, a stream with reuse, cost where nothing repeats, lookups among many rows; one report."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psutil

from agents.engines import open_engine
from agents.lab.reuse_bench import filling, requests
from agents.lab.reuse_bench.busy import others, torch_busy
from agents.lab.reuse_bench.cost import cost_without_repeats
from agents.lab.reuse_bench.pairs import ADVERSARIAL, PARAPHRASES, passing, read_pairs
from agents.lab.reuse_bench.retrieval import retrieval
from agents.lab.reuse_bench.route import NO_FLOORS, NO_LEVELS, Route, costliest_route, guarded_route
from agents.lab.reuse_bench.served import NO_FIGURES, figures
from agents.lab.reuse_bench.stand import Place, Request, Stand, sought
from agents.lab.reuse_bench.stream import serve_stream
from agents.reuse.prompt_facts import FactReader
from agents.reuse.prompt_key import digest_of, open_key
from agents.worker.reuse import opener
from planner.catalog.model import Catalog
from planner.reuse.lookup import Compare
from planner.reuse.terms import terms_of
from schemas.errors import PochadeError
from streams.catalogs import find_profile, measured
from streams.settings import Settings
from streams.store.open import open_store
from streams.vectors import lite
from streams.vectors.open import open_vectors
from streams.vectors.port import Selection, VectorsUnavailable, WrongCollection

LIMITS: Final = {  # figure -> (sign, limit): what is wanted
    "saved_steps_share": (">=", 0.21),  # NIRVANA's GPU time
    "adversarial_pass_share": ("<=", 0.01),
    "paraphrase_pass_share": (">=", 0.80),
    "cost_without_repeats": ("<=", 0.02),
    "retrieval_ms": ("<=", 3.0),
    "quality_loss_bound": ("<=", 0.005),
}

Progress = Callable[[str, int], object]
"""Told what is being done, and how many parts of it are done by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured, and on which draws."""

    requests: int = 400  # of the stream
    images: int = 60  # of each side, where nothing repeats
    rows: int = 10_000  # that a lookup searches among
    lookups: int = 400
    busy: int | None = None  # processes that keep torch busy meanwhile; None: one for each other core
    seed: int = 2
    prompts: tuple[str, ...] = ()  # of the stream, in their order; none: drawn

    @property
    def parts(self) -> int:
        """An upper bound of what is told to a progress bar."""
        return 3 * self.requests + self.images + self.rows + self.lookups


def run(settings: Settings, effort: Effort, progress: Progress, compare: Compare | None = None) -> dict[str, Any]:
    """Measure on the stores that the settings name. `compare`: the guard's reader of facts for the pairs.

    Raises PochadeError: a store is away, the seed is the one that the floors were measured with, or a request failed.
    """
    catalog = measured(settings.catalog, settings.published)
    _check_seed(settings, catalog, effort)
    guarded, costliest = guarded_route(catalog), costliest_route(catalog)
    report: dict[str, Any] = {"store": settings.vectors.url, "level": None, "floors": [], "note": ""}
    report |= _of_pairs(compare or FactReader().compare, progress)
    report |= NO_FIGURES | {"cost_without_repeats": None, "retrieval_ms": None}
    if costliest is None:
        return report | {"note": NO_LEVELS}
    variant = costliest.variant
    engine = open_engine(settings.worker.engine or variant.engine, variant, 1)
    place = Place(settings, catalog, open_store(settings), engine)
    if guarded is None:
        report["note"] = NO_FLOORS
    else:
        report |= {"level": guarded.level, "floors": [list(vars_of(floor)) for floor in guarded.plan.floors]}
        asked = (
            requests.from_lines(effort.prompts, effort.seed, effort.requests)
            if effort.prompts
            else requests.repeating(effort.seed, effort.requests)
        )
        with _collection(place, "stream", effort) as own:
            served = serve_stream(own, guarded, asked, functools.partial(progress, "serving the stream"))
        report |= figures(served, effort.seed)
    with _collection(place, "rows", effort) as own:
        report |= _among_rows(own, guarded or costliest, effort, progress)
    report["targets"] = targets(report)
    return report


def vars_of(floor: Any) -> tuple[float, float]:
    """A floor as (similarity, share)."""
    return floor.similarity, floor.share


def targets(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Compare the figures that are there with what is wanted; of the loss of quality the worse end of its interval."""
    delta, cost, times = (report.get(name) for name in ("quality_delta", "cost_without_repeats", "retrieval_ms"))
    values = {
        "saved_steps_share": report.get("saved_steps_share"),
        "adversarial_pass_share": report.get("adversarial_pass_share"),
        "paraphrase_pass_share": report.get("paraphrase_pass_share"),
        "cost_without_repeats": cost and cost["value"],
        "retrieval_ms": times and times["p50"],
        "quality_loss_bound": delta and delta["ci"] and max(0.0, -delta["ci"][0]),
    }
    found = {}
    for name, (sign, limit) in LIMITS.items():
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
def _collection(place: Place, name: str, effort: Effort) -> Iterator[Place]:
    """A place with an empty collection of its own, whose rows are deleted in the end."""
    settings = place.settings
    kafka = settings.kafka.model_copy(update={"prefix": f"{settings.kafka.prefix}-{name}"})
    vectors = settings.vectors.model_copy(update={"max_rows": max(effort.rows, settings.vectors.max_rows)})
    own = place._replace(settings=settings.model_copy(update={"kafka": kafka, "vectors": vectors}))
    try:
        yield own
    finally:
        store = open_vectors(own.settings, digest_of(""))
        assert store is not None, "the bench's settings name a vector store"
        with contextlib.suppress(VectorsUnavailable, WrongCollection):
            store.delete(Selection(), filling.CALL_S)
        store.close()


def _among_rows(place: Place, route: Route, effort: Effort, progress: Progress) -> dict[str, Any]:
    """Cost and times where an index holds `effort.rows` rows."""
    stored = requests.unrepeated(effort.seed, effort.rows, requests.STORED)
    key = open_key(route.plan.key)
    vectors = open_vectors(place.settings, key.digest)
    assert vectors is not None, "the bench's settings name a vector store"
    with contextlib.closing(vectors), Stand(place, route) as stand:
        image = filling.one_image(stand)
        filling.fill(place, vectors, key, stored, image, functools.partial(progress, "filling the index"))
    new = requests.unrepeated(effort.seed, effort.images, requests.COSTS)
    advance = functools.partial(progress, "generating with and without reuse")
    cost = cost_without_repeats(place, route, new, effort.seed, advance, _store_clock(place.settings))
    return {"cost_without_repeats": cost, "retrieval_ms": _retrieval(place, route, stored, effort, progress)}


def _retrieval(
    place: Place, route: Route, stored: Sequence[str], effort: Effort, progress: Progress
) -> dict[str, Any] | None:
    """Every second lookup is of a prompt that a row has, and fetches its latent; the others are of new prompts."""
    opens, space = opener(place.settings, place.catalog, place.store), place.engine.latent_space
    if opens is None or space is None:
        return None
    new = requests.unrepeated(effort.seed, effort.lookups, requests.TIMED)
    asked = [stored[at % len(stored)] if at % 2 else each for at, each in enumerate(new)]
    jobs = [sought(Request(f"lookup-{at}", prompt, at), route) for at, prompt in enumerate(asked)]
    terms = terms_of(route.plan)
    count = others() if effort.busy is None else effort.busy
    progress("starting processes that keep torch busy", 0)
    with torch_busy(route.variant, count), contextlib.closing(opens(terms)) as lookups:
        advance = functools.partial(progress, "looking up")
        return retrieval(lookups, jobs, terms, space, advance) | {"rows": len(stored), "busy_processes": count}


def _store_clock(settings: Settings) -> Callable[[], float]:
    """CPU seconds of the local Milvus Lite so far; 0 for other stores, whose processes are not known."""
    known = lite.running(settings) if settings.vectors.url == "lite" else None
    if known is None or known.process is None:
        return lambda: 0.0
    process = psutil.Process(known.process.pid)

    def clock() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    return clock
