"""Replicate's part of the API: jobs that are created, looked at, listed and cancelled."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agents.gateway.formats import Format
from agents.gateway.http_bodies import base_url, json_body
from agents.gateway.images_api import ImagesApi
from agents.gateway.jobs import NEVER_MS, Job
from agents.gateway.pipeline import PipelineClient
from agents.gateway.predictions import STARTING, cancel_after_ms, parse, prediction, wait_s
from agents.gateway.refusals import Refusal
from agents.gateway.repetitions.marks import stated
from schemas.messages import Status
from streams.settings import Requests

PAGE: Final = 100  # predictions of one list
CANCEL_S: Final = 5.0  # that a cancellation is waited for


class PredictionsApi:
    """The handlers of predictions."""

    def __init__(
        self, pipeline: PipelineClient, images: ImagesApi, limits: Requests, key: bytes, clock_ms: Callable[[], int]
    ) -> None:
        """`key`: of the marks of requests."""
        self._key = key
        self._pipeline = pipeline
        self._images = images
        self._limits = limits
        self._clock_ms = clock_ms

    async def create(self, http: Request) -> Response:
        """POST /v1/predictions, /v1/models/pochade/NAME/predictions: 201, with the end where the client waits for it.

        What has not ended by then is told as starting, whatever it does: Replicate's client takes any other status of a
        prediction that it waited for as its end.
        """
        body = await json_body(http)
        waits_s = wait_s(http.headers.get("prefer", ""))
        after_ms = cancel_after_ms(http.headers.get("cancel-after", ""))
        request = parse(body, self._limits, self._clock_ms(), http.path_params.get("name", ""), after_ms)
        repetition = stated(http.headers, http.url.path, await http.body(), self._key)
        request = await self._pipeline.begin(request, repetition)
        http.state.request_id = request.request_id
        if not waits_s:
            return JSONResponse(self._shown(self._pipeline.job(request.request_id), http), 201)
        result = await self._pipeline.result(request.request_id, http, waits_s)
        job = Job(request.request_id, request.created_ms, request, result=result)
        unfinished = {"status": STARTING} if result is None else {}
        return JSONResponse({**self._shown(job, http), **unfinished}, 201)

    async def get(self, http: Request) -> Response:
        """GET /v1/predictions/ID."""
        return JSONResponse(self._shown(self._pipeline.job(http.path_params["id"]), http))

    async def list(self, http: Request) -> Response:
        """GET /v1/predictions: the newest PAGE, and the address of those before them."""
        jobs = self._pipeline.page(PAGE + 1, _cursor(http.query_params.get("cursor", "")))
        shown, last = jobs[:PAGE], jobs[PAGE - 1] if len(jobs) > PAGE else None
        cursor = urlencode({"cursor": f"{last.created_ms}.{last.request_id}"}) if last else ""
        following = f"{base_url(http)}/v1/predictions?{cursor}" if cursor else None
        return JSONResponse({"previous": None, "next": following, "results": [self._shown(job, http) for job in shown]})

    async def cancel(self, http: Request) -> Response:
        """POST /v1/predictions/ID/cancel: one that has ended stays as it ended."""
        return JSONResponse(self._shown(await self._pipeline.cancel(http.path_params["id"], CANCEL_S), http))

    def _shown(self, job: Job, http: Request) -> dict[str, Any]:
        base, result = base_url(http), job.result
        if result is None or result.status is not Status.COMPLETED:
            return prediction(job, base)
        return prediction(job, base, self._images.addresses(result, Format(), base))


def _cursor(text: str) -> tuple[int, str]:
    if not text:
        return NEVER_MS, ""
    ms, _, request_id = text.partition(".")
    if not (ms.isascii() and ms.isdigit() and len(ms) < 19):
        raise Refusal("invalid", f"cursor must be that of a list's next address: got {text!r:.80}", param="cursor")
    return int(ms), request_id
