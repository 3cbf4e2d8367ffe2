"""A request for images, answered by events in OpenAI's shape: the drafts that a cascade rejects, then the images."""

import base64
import contextlib
import json
from collections.abc import AsyncGenerator, Callable

from agents.gateway.formats import size_of
from agents.gateway.openai_images import ImagesRequest, completed_event, partial_event
from agents.gateway.pipeline import PipelineClient
from agents.gateway.refusals import Refusal
from agents.gateway.streaming.wire import BEGUN, KEEPALIVE, event
from schemas.messages import Result, Status
from streams import metrics


class ImageStream:
    """Makes the events of requests."""

    def __init__(self, pipeline: PipelineClient, clock_ms: Callable[[], int]) -> None:
        self._pipeline = pipeline
        self._clock_ms = clock_ms

    async def events(
        self, asked: ImagesRequest, request_id: str, tenant: str, limit_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of a tenant's request; before the first one, a worker has begun, or there was a silence.

        A draft that cannot be read is left out, and counted.

        Raises Refusal: the request did not complete within `limit_s`.
        """
        has_begun, partials, position = False, 0, -1
        async with contextlib.aclosing(self._pipeline.news(request_id, limit_s)) as news:
            async for job in news:
                if job is None:
                    yield KEEPALIVE
                    continue
                if job.started_ms is not None and job.result is None and not has_begun:
                    has_begun = True
                    yield BEGUN
                drafts = [note for note in job.notes if note.offset > position and note.draft_for(tenant)]
                for draft in drafts[: (asked.partial_images or 0) - partials]:
                    position = draft.offset
                    if partial := await self._partial(asked, draft.draft, partials):
                        yield partial
                        partials += 1
                if job.result is not None:
                    async for completed in self._completed(asked, job.result):
                        yield completed

    async def _partial(self, asked: ImagesRequest, uri: str, index: int) -> bytes | None:
        try:
            data = await self._pipeline.image(uri, asked.format)
            size = size_of(data)
        except (Refusal, OSError):  # it is gone, the store is away, or it is no image
            metrics.GATEWAY_PARTIAL_IMAGES.labels("unread").inc()
            return None
        metrics.GATEWAY_PARTIAL_IMAGES.labels("sent").inc()
        shown = partial_event(asked, base64.b64encode(data).decode(), size, index, self._clock_ms())
        return event(shown["type"], json.dumps(shown))

    async def _completed(self, asked: ImagesRequest, result: Result) -> AsyncGenerator[bytes, None]:
        if result.status is not Status.COMPLETED:
            raise self._pipeline.refused(asked.request, result, 0.0)
        for uri in result.image_uris:
            image = base64.b64encode(await self._pipeline.image(uri, asked.format, result.ended_ms)).decode()
            shown = completed_event(asked, result, image, self._clock_ms())
            yield event(shown["type"], json.dumps(shown))


def error_event(refusal: Refusal) -> bytes:
    """Return the event of a refusal after the answer has begun."""
    return event("error", json.dumps({"type": "error", "error": refusal.body()["error"]}))
