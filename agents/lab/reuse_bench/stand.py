"""A worker and an index writer of one variant in this process, on real stores, without a broker.

request -> job's record -> WindowDriver (looks up, generates, stores) -> image's record -> result -> IndexWriter

All of it is what roles run; only the topics between them are left out. Requests are served one after the other, and an
image enters the index before the next one is looked up.
"""

import io
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from PIL import Image

from agents.engines import OpenedEngine
from agents.indexer.role import writer_opener
from agents.indexer.writer import IndexWriter
from agents.lab.reuse_bench.route import Route
from agents.runtime.request_views import PoisonView
from agents.runtime.views import EndedView
from agents.worker.driving import WindowDriver
from agents.worker.jobs import Taken
from agents.worker.lookups import Sought
from agents.worker.reuse import WorkerReuse, opener
from agents.worker.work import WorkerViews
from planner.catalog.model import Catalog
from planner.catalog.options import resolve_options
from planner.reuse.lookups.lookup import job_of
from planner.reuse.terms import terms_of
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed
from planner.serving.routing.refuge import RefugeLogic
from schemas import ids
from schemas.errors import PochadeError
from schemas.messages import (
    ClassifiedRequest,
    GenerateJob,
    GenerateOptions,
    GenerateRequest,
    ImageGenerated,
    Outcome,
    Plan,
)
from schemas.record import Incoming, Outgoing
from schemas.topics import IMAGES, OUTCOMES, RESULTS, jobs_topic
from streams.clock import now_ms
from streams.codec.avro import decode, encode, encode_result
from streams.settings import Settings
from streams.store.port import ImageStore

NAME: Final = "bench"
ATTEMPTS: Final = 1


class Request(NamedTuple):
    """A request as the bench asks for it."""

    id: str
    prompt: str
    seed: int
    consent: str = "own"  # with an explicit seed nothing is looked up without it
    steps: int | None = None  # None: the variant's own


class Place(NamedTuple):
    """The context of the bench: catalog, the settings' stores, and the variant's loaded engine."""

    settings: Settings
    catalog: Catalog
    store: ImageStore
    engine: OpenedEngine


class Stand:
    """A worker, and an index writer beside it. Close it."""

    def __init__(self, place: Place, route: Route, *, reuses: bool = True) -> None:
        """`reuses`: whether the plan in force says anything of reuse. Raises PochadeError: a store cannot be opened."""
        self._place, self._route = place, route
        plan = Plan(
            version=1, policy=NAME, strategy="reuse", created_ms=now_ms(), reason=NAME, routes=(),
            reuse=route.plan if reuses else None,
        )  # fmt: skip
        self.terms = terms_of(route.plan)
        self._reuse = WorkerReuse(lambda: plan, opener(place.settings, place.store))
        self._reuse.tend()
        self._reuse.start()
        variant, catalog = route.variant, place.catalog
        views = WorkerViews(place.engine, variant, catalog, lambda: plan, EndedView(), PoisonView(), self._reuse)
        self._driver = WindowDriver(NAME, views, place.store, RefugeLogic(catalog), ATTEMPTS)
        self._writer: IndexWriter | None = None
        self._results = 0

    def __enter__(self) -> "Stand":
        return self

    def __exit__(self, *_exception: object) -> None:
        self._reuse.close()
        if self._writer is not None:
            self._writer.close()

    def taken(self, request: Request, *, looks_up: bool = True) -> Taken:
        """A request's job as the worker takes it from its topic. `looks_up`: on the route's level, else in full."""
        job = _job(request, self._route, looks_up=looks_up)
        record = Incoming(
            topic=jobs_topic(job.variant, 1).name, partition=0, offset=0, timestamp_ms=now_ms(),
            key=request.id.encode(), value=encode(job),
        )  # fmt: skip
        return Taken(record, 1)

    def answer(self, batch: Sequence[Taken]) -> list[ImageGenerated]:
        """The images that the worker answers a batch with, in its order. Raises PochadeError where one has failed."""
        written: list[Outgoing] = []
        self._driver.begin(batch, len(batch))
        self._driver.run(written.append)
        failed = [decode(each.value, Outcome).reason for each in written if each.topic == OUTCOMES]
        if failed:
            raise PochadeError(f"{len(failed)} of {len(batch)} requests failed in the worker: {failed[0]}")
        images = {each.key: decode(each.value, ImageGenerated) for each in written if each.topic == IMAGES}
        return [images[each.record.key or b""] for each in batch]

    def serve(self, request: Request) -> ImageGenerated:
        """The image of one request."""
        (image,) = self.answer([self.taken(request)])
        return image

    def index(self, image: ImageGenerated) -> None:
        """Let the index writer have an image's result. Raises PochadeError: a store is away."""
        if self._writer is None:
            opens = writer_opener(self._place.settings, self._place.catalog, self._place.store)
            assert opens is not None, "the bench's settings name a vector store"
            self._writer = opens(self.terms)
        at_ms = now_ms()
        outcome = completed(image, None, None, reason=NAME, by=NAME, policy=NAME, now_ms=at_ms)
        record = Incoming(
            topic=RESULTS, partition=0, offset=self._results, timestamp_ms=at_ms,
            key=image.job.classified.request.request_id.encode(), value=encode_result(result_of(outcome), "avro"),
        )  # fmt: skip
        self._results += 1
        self._writer.write([record], self.terms)

    def read_image(self, image: ImageGenerated) -> np.ndarray:
        """Return an image from the store: uint8 [h, w, 3]."""
        with Image.open(io.BytesIO(self._place.store.get(image.image.uri))) as opened:
            return np.asarray(opened.convert("RGB"))


def in_batches(stand: Stand, requests: Sequence[Request], size: int) -> Iterator[list[ImageGenerated]]:
    """The images of requests, `size` requests a call."""
    for first in range(0, len(requests), size):
        yield stand.answer([stand.taken(each) for each in requests[first : first + size]])


def sought(request: Request, route: Route) -> Sought:
    """A request as the worker's lookups take it."""
    job = _job(request, route)
    how = resolve_options(job.classified.request.options, route.variant, 0)
    asked = job_of(job.classified.request, route.variant, how, route.share)
    return Sought(job=asked, tenant=job.classified.request.tenant, width=how.width, height=how.height)


def _job(request: Request, route: Route, *, looks_up: bool = True) -> GenerateJob:
    at_ms = now_ms()
    asked = GenerateRequest(
        request_id=request.id, prompt=request.prompt, created_ms=at_ms, seed=request.seed,
        options=GenerateOptions(reuse=request.consent, steps=request.steps),
    )  # fmt: skip
    classified = ClassifiedRequest(
        request=asked, hardness=0.5, classes={}, classifier=NAME, received_ms=at_ms, classified_ms=at_ms
    )
    return GenerateJob(
        job_id=ids.job_id(request.id, 0, route.level), classified=classified, level=route.level,
        variant=route.variant.name, stage=0, attempt=1, probability=1.0, plan_version=1, worker_id=NAME,
        routed_ms=at_ms, reuse_share=route.share if looks_up else 0.0,
    )  # fmt: skip
