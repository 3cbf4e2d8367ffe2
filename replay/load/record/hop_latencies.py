"""The times of a live run beside generation, from the times in its records."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.serving.routing.cascades import judging_ms
from replay.load.record.history import History
from replay.simulation.draws.hop_latencies import SLOT_MS, HopLatencies, Samples, Slots, of_kinds, slot_ms, slots, whole
from schemas.messages import ImageGenerated, Plan, Result

OF = "of "  # prefix of a variant's name: extra ms of its images
THERE_MS = 15  # after which a routed job mostly is at its worker (measured: half of them within 8)

Timed = Iterator[tuple[float, float]]
"""(epoch ms, what was measured in ms)."""


class Call(NamedTuple):
    """Images that a worker generated in one call; times in epoch ms."""

    started_ms: int
    generated_ms: int
    routed_ms: int  # the first of its jobs
    variant: str
    extra_ms: float  # an image, more than the catalog says


def samples(history: History, catalog: Catalog) -> dict[str, list[tuple[float, float]]]:
    """Return kind of hop, or OF and a variant -> what was measured, at epoch ms."""
    images = history.images
    results = {result.request_id: result for result in history.results.values()}
    plans = {plan.version: plan for plan in history.plans}
    calls = calls_of(images, catalog)
    generated = [(call.variant, (float(call.started_ms), call.extra_ms)) for worker in calls for call in worker]
    return {
        "arrive": list(_arrived(images)),
        "fetch": list(fetched(calls)),
        "paint": [extra for _, extra in generated],
        "rest": list(rested(calls)),
        "judge": list(_judged(images, results, plans, catalog)),
        "plan": list(_planned(history)),
        **{
            f"{OF}{name}": [e for variant, e in generated if variant == name]
            for name in sorted({v for v, _ in generated})
        },
    }


def whole_run(found: Mapping[str, Samples]) -> HopLatencies:
    """Distributions of all of a run."""
    return _of({name: whole(values) for name, values in found.items()})


def by_time(found: Mapping[str, Samples], clock: Callable[[float], float], span_ms: float) -> HopLatencies:
    """Distributions by stretches of the trace's time."""
    width_ms = slot_ms(span_ms)
    timed = {kind: [(clock(at_ms), ms) for at_ms, ms in values] for kind, values in found.items()}
    return _of({kind: slots(values, width_ms, span_ms) for kind, values in timed.items()}, width_ms)


def _of(found: Mapping[str, Slots], width_ms: float = SLOT_MS) -> HopLatencies:
    paint_of = {name.removeprefix(OF): each for name, each in found.items() if name.startswith(OF)}
    return of_kinds(found, paint_of, width_ms)


def _arrived(images: Iterable[ImageGenerated]) -> Timed:
    for image in images:
        if image.job.stage == 0:
            created_ms = image.job.classified.request.created_ms
            yield created_ms, image.job.routed_ms - created_ms


def _planned(history: History) -> Timed:
    """Yield the ms from the planner's look to the plan's record, for plans that changed something during the run."""
    began_ms = min(history.published.created_ms.values(), default=0)
    for plan in history.plans:
        took_ms = history.took_ms(plan)
        if plan.created_ms >= began_ms and took_ms is not None:
            yield plan.created_ms, took_ms


def calls_of(images: Iterable[ImageGenerated], catalog: Catalog) -> list[list[Call]]:
    """Return the calls of each worker, in order; images of one call have equal times of beginning."""
    by_worker: defaultdict[str, dict[tuple[str, int], list[ImageGenerated]]] = defaultdict(dict)
    for image in images:
        by_worker[image.worker_id].setdefault((image.job.variant, image.started_ms), []).append(image)
    return [sorted(_call(call, catalog) for call in calls.values()) for calls in by_worker.values()]


def _call(images: list[ImageGenerated], catalog: Catalog) -> Call:
    one = images[0]
    own_ms = run_ms(catalog.level(one.job.variant), one.batch, _skipped(one))
    took_ms = one.generated_ms - one.started_ms
    return Call(
        one.started_ms,
        one.generated_ms,
        min(image.job.routed_ms for image in images),
        one.job.variant,
        (took_ms - own_ms) / one.batch,
    )


def _skipped(image: ImageGenerated) -> int:
    """The steps that a call skipped, as it began with drafts or with stored latents."""
    return image.refine_from_step or (image.reuse.step if image.reuse else 0)


def rested(workers: Iterable[list[Call]]) -> Timed:
    """Between calls where the next one's job lay there when the one before ended."""
    for calls in workers:
        for before, call in _pairs(calls):
            if call.routed_ms + THERE_MS < before.generated_ms:
                yield before.generated_ms, max(0, call.started_ms - before.generated_ms)


def fetched(workers: Iterable[list[Call]]) -> Timed:
    """Latencies of calls that found their worker idle: routed when it had had time to rest from the call before."""
    workers = list(workers)
    usual = sorted(ms for _, ms in rested(workers))
    rest_ms = usual[len(usual) // 2] if usual else 0.0
    for calls in workers:
        for before, call in _pairs(calls):
            if call.routed_ms >= before.generated_ms + rest_ms:
                yield call.routed_ms, max(0, call.started_ms - call.routed_ms)


def _pairs(calls: list[Call]) -> Iterator[tuple[Call, Call]]:
    """Calls one after the other, no change of variant between them."""
    return ((before, call) for before, call in itertools.pairwise(calls) if before.variant == call.variant)


def _judged(
    images: Iterable[ImageGenerated], results: Mapping[str, Result], plans: Mapping[int, Plan], catalog: Catalog
) -> Timed:
    """Generated -> ended, of answers that completed, less what the discriminator itself takes."""
    for image in images:
        result = results.get(image.job.classified.request.request_id)
        if result is None or result.image_uri != image.image.uri:
            continue
        plan = plans.get(image.job.plan_version)
        judge_ms = judging_ms(plan, image.job.level, catalog) if plan and result.confidence is not None else 0.0
        yield image.generated_ms, max(0.0, result.ended_ms - image.generated_ms - judge_ms)
