"""OpenAI's part of the API: `/v1/images/generations`, `/v1/models`, and the images that answers give addresses of."""

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agents.gateway.formats import Format
from agents.gateway.http_bodies import base_url, json_body
from agents.gateway.image_urls import ImageUrls
from agents.gateway.openai_images import PLAN_CHOOSES, answer, parse
from agents.gateway.pipeline import LATE_S, PipelineClient, has_no_result
from agents.gateway.predictions import OWNER
from agents.gateway.refusals import Refusal, refusal_of
from agents.gateway.repetitions.marks import stated
from planner.catalog.model import Catalog
from schemas.messages import Result, Status
from streams.settings import Requests

UNKNOWN_S: Final = 0  # since when a model is there: catalogs do not tell, OpenAI's clients want a number


class ImagesApi:
    """The handlers of images and models."""

    def __init__(
        self,
        pipeline: PipelineClient,
        urls: ImageUrls,
        catalog: Catalog,
        limits: Requests,
        wait_s: float,
        key: bytes,
        clock_ms: Callable[[], int],
    ) -> None:
        """`wait_s`: until a request is answered, and its deadline. `key`: of the marks of requests."""
        self._pipeline = pipeline
        self._urls = urls
        self._models = [PLAN_CHOOSES, *catalog.served, *(name for name in catalog.bases if name not in catalog.served)]
        self._limits = limits
        self._wait_s = wait_s
        self._key = key
        self._clock_ms = clock_ms

    async def generate(self, http: Request) -> Response:
        """POST /v1/images/generations: answers when the images are there."""
        now_ms = self._clock_ms()
        asked = parse(await json_body(http), self._limits, now_ms, now_ms + round(1000 * self._wait_s))
        repetition = stated(http.headers, http.url.path, await http.body(), self._key)
        begun = await self._pipeline.begin(asked.request, repetition, asked.end_user)
        request_id = http.state.request_id = begun.request_id
        limit_s = self._wait_s + LATE_S
        result = await self._pipeline.result(request_id, http, limit_s)
        if result is None:
            raise has_no_result(request_id, limit_s)
        if result.status is not Status.COMPLETED:
            raise refusal_of(result)
        images = await self._shown(result, asked.format, base_url(http) if asked.as_url else "")
        return JSONResponse(answer(asked, result, images, self._clock_ms()))

    async def _shown(self, result: Result, wanted: Format, base: str) -> Sequence[str]:
        if base:
            return self.addresses(result, wanted, base)
        return [base64.b64encode(data).decode() for data in await self._pipeline.images(result, wanted)]

    def addresses(self, result: Result, wanted: Format, base: str) -> list[str]:
        """Return an address of each of a result's images."""
        return [self._urls.url(base, uri, wanted, self._clock_ms() / 1000) for uri in result.image_uris]

    async def file(self, http: Request) -> Response:
        """GET /v1/files/TOKEN: an image."""
        named = self._urls.named(http.path_params["token"], self._clock_ms() / 1000)
        data = await self._pipeline.image(*named)
        headers = {"cache-control": "private, max-age=3600", "x-content-type-options": "nosniff"}
        return Response(data, media_type=named.format.media_type, headers=headers)

    async def models(self, _http: Request) -> Response:
        """GET /v1/models: the variants and bases that a request may name, and auto."""
        return JSONResponse({"object": "list", "data": [_model(name) for name in self._models]})

    async def model(self, http: Request) -> Response:
        """GET /v1/models/NAME."""
        name = http.path_params["name"]
        if name not in self._models:
            known = ", ".join(self._models)
            raise Refusal("not-found", f"no model is called {name!r:.80}: there are {known}", param="model")
        return JSONResponse(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": UNKNOWN_S, "owned_by": OWNER}
