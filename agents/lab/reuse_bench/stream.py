"""Serves a stream with reuse, and each of its hits again without: in all steps, and in as many as it took."""

from collections.abc import Callable, Sequence

import numpy as np

from agents.lab.profiling.reuse.observed import Marks
from agents.lab.reuse_bench.route import Route
from agents.lab.reuse_bench.served import Served, misses_of
from agents.lab.reuse_bench.stand import Place, Request, Stand, in_batches
from agents.profiling.generation.orders import batch_of
from agents.profiling.generation.quality import judge
from agents.profiling.seeded_prompts import SeededPrompts
from planner.catalog.entries import Variant
from schemas.messages import ImageGenerated, StageReuse

Advance = Callable[[int], object]
"""Is called with the number of images done since the last call."""


def serve_stream(place: Place, route: Route, asked: SeededPrompts, advance: Advance) -> Served:
    """Serve the requests in their order, every image entering the index before the next one is looked up.

    Raises PochadeError: a request failed, or a store is away.
    """
    requests = [
        Request(f"stream-{at}", prompt, seed)
        for at, (prompt, seed) in enumerate(zip(asked.prompts, asked.seeds, strict=True))
    ]
    reuse, begun = list[StageReuse](), dict[int, np.ndarray]()
    with Stand(place, route) as stand:
        for at, request in enumerate(requests):
            image = stand.serve(request)
            assert image.reuse is not None, "the plan in force asks for reuse"
            reuse.append(image.reuse)
            if image.reuse.step:
                begun[at] = stand.read_image(image)
            stand.index(image)
            advance(1)
    rows = list(begun)
    captions = [asked.stated[at] for at in rows]
    marks = _marks(route.variant, captions, list(begun.values()))
    again = [requests[at]._replace(id=f"noise-{at}", consent="off") for at in rows]
    return Served(
        prompts=asked.prompts,
        reuse=tuple(reuse),
        begun=marks,
        noise=_generated(place, route, captions, again, advance),
        fewer=_fewer(place, route, captions, again, [reuse[at].step for at in rows], advance),
        misses=misses_of(reuse),
    )


def _fewer(
    place: Place, route: Route, captions: Sequence[str], again: Sequence[Request], skipped: Sequence[int],
    advance: Advance,
) -> Marks | None:  # fmt: skip
    """The hits in N - K steps from noise, as the variant's scheduler spaces them: as much work, no cache."""
    if "steps" not in route.variant.honours:
        advance(len(again))
        return None
    shorter = [
        each._replace(id=f"fewer-{each.id}", steps=route.variant.steps - step)
        for each, step in zip(again, skipped, strict=True)
    ]
    return _generated(place, route, captions, shorter, advance)


def _generated(
    place: Place, route: Route, captions: Sequence[str], requests: Sequence[Request], advance: Advance
) -> Marks:
    """Return the quality of the requests' images from noise."""
    from_noise = list[np.ndarray]()
    with Stand(place, route, reuses=False) as stand:
        for images in in_batches(stand, requests, batch_of(route.variant)):
            from_noise += [_from_noise(stand, image) for image in images]
            advance(len(images))
    return _marks(route.variant, captions, from_noise)


def _from_noise(stand: Stand, image: ImageGenerated) -> np.ndarray:
    assert image.reuse is None, "the plan in force asks for no reuse"
    return stand.read_image(image)


def _marks(variant: Variant, captions: Sequence[str], images: Sequence[np.ndarray]) -> Marks:
    if not images:
        return Marks(np.zeros(0), np.zeros(0))
    judged = judge("facts", variant, captions, np.stack(images))
    return Marks(judged.quality, judged.facts)
