"""What lookups cost a worker, and how long they take, where an index holds many rows."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import psutil

from agents.components.opening import Keeping
from agents.lab.reuse_bench import filling, requests
from agents.lab.reuse_bench.busy import others, torch_busy
from agents.lab.reuse_bench.cost import cost_without_repeats
from agents.lab.reuse_bench.effort import Effort, Progress
from agents.lab.reuse_bench.other_tenant import other_tenants_lookups
from agents.lab.reuse_bench.retrieval import retrieval, timed
from agents.lab.reuse_bench.route import Route
from agents.lab.reuse_bench.stand import Place, Request, Stand, sought
from agents.reuse.prompt_key import open_key
from agents.worker.reuse import opener
from planner.reuse.lookups.lookup import MAX_CANDIDATES
from planner.reuse.terms import terms_of
from schemas.messages import ImageGenerated
from streams.clock import now_ms
from streams.settings import Settings
from streams.store.latents import LatentSpace
from streams.vectors import lite
from streams.vectors.open import open_vectors
from streams.vectors.port import Wanted


def among_rows(place: Place, route: Route, effort: Effort, progress: Progress) -> dict[str, Any]:
    """Fill an empty index with `effort.rows` rows; return cost and times. Raises PochadeError: a store is away."""
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
    return {
        "cost_without_repeats": cost,
        "retrieval_ms": _retrieval(place, route, stored, image, effort, progress),
        "other_tenant": _other_tenant(place, route, stored, effort, progress),
    }


def _retrieval(
    place: Place, route: Route, stored: Sequence[str], image: ImageGenerated, effort: Effort, progress: Progress
) -> dict[str, Any] | None:
    """Every second lookup is of a prompt that a row has, and fetches its latent; the others are of new prompts."""
    opens, space = opener(place.settings, place.store), place.engine.latent_space
    if opens is None or space is None:
        return None
    new = requests.unrepeated(effort.seed, effort.lookups, requests.TIMED)
    asked = [stored[at % len(stored)] if at % 2 else each for at, each in enumerate(new)]
    jobs = [sought(Request(f"lookup-{at}", prompt, at), route) for at, prompt in enumerate(asked)]
    terms = terms_of(route.plan)
    count = others() if effort.busy is None else effort.busy
    progress("starting processes that keep torch busy", 0)
    with (
        torch_busy(route.variant, count, Keeping.in_place(place.settings)),
        contextlib.closing(opens(terms)) as lookups,
    ):
        advance = functools.partial(progress, "looking up")
        found = retrieval(lookups, jobs, terms, space, advance) | {"rows": len(stored), "busy_processes": count}
        return found | {"parts": _parts(place, route, space, stored[: min(len(stored), effort.lookups)], image)}


def _other_tenant(
    place: Place, route: Route, stored: Sequence[str], effort: Effort, progress: Progress
) -> dict[str, Any] | None:
    """Lookups of a tenant without rows, on an idle machine: what it would see there it sees nowhere better."""
    opens, space = opener(place.settings, place.store), place.engine.latent_space
    if opens is None or space is None:
        return None
    new = requests.unrepeated(effort.seed, min(effort.lookups, len(stored)), requests.OTHERS)
    known, unknown = (
        [sought(Request(f"other-{at}", prompt, at), route) for at, prompt in enumerate(prompts)]
        for prompts in (stored[: len(new)], new)
    )
    terms = terms_of(route.plan)
    advance = functools.partial(progress, "looking up as another tenant")
    return other_tenants_lookups(lambda: opens(terms), known, unknown, terms, space, effort.seed, advance)


def _parts(
    place: Place, route: Route, space: LatentSpace, prompts: Sequence[str], image: ImageGenerated
) -> dict[str, dict[str, float]]:  # fmt: skip
    """What of a lookup's time embedding, search and fetch take by themselves: in this thread, one after the other."""
    key = open_key(route.plan.key)
    vectors = open_vectors(place.settings, key.digest)
    assert vectors is not None, "the bench's settings name a vector store"
    assert image.latent is not None, "a plan with reuse stores latents"
    uri, found = image.latent.uri, key.embed(prompts).tolist()
    wanted = Wanted(
        tenant=image.job.classified.request.tenant, model=space.autoencoder, width=image.image.width,
        height=image.image.height, now_ms=now_ms(),
    )  # fmt: skip
    calls: dict[str, Callable[[int], object]] = {
        "embed": lambda at: key.embed([prompts[at]]),
        "search": lambda at: vectors.nearest(found[at], wanted, MAX_CANDIDATES, filling.CALL_S),
        "fetch": lambda _at: place.store.get(uri),
    }
    with contextlib.closing(vectors):
        return timed(calls, len(prompts))


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
