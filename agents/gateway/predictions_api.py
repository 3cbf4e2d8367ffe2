"""Replicate's part of the API: jobs that are created, looked at, followed, listed and cancelled."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agents.gateway.edits.forms import Form
from agents.gateway.formats import Format
from agents.gateway.images_api import ImagesApi
from agents.gateway.jobs import NEVER_MS, Job
from agents.gateway.openai_images import passed_deadline
from agents.gateway.pipeline import PipelineClient
from agents.gateway.predictions import (
    PARAMS,
    STARTING,
    cancel_after_ms,
    explanation,
    model_of,
    name_of,
    parse,
    prediction,
    wait_s,
)
from agents.gateway.refusals import Refusal
from agents.gateway.repetitions.marks import stated
from agents.gateway.streaming.notes import begun_in
from agents.gateway.streaming.predictions import LAST, ended_early, line_of, position_of, prediction_events
from agents.gateway.streaming.urls import StreamUrls
from agents.gateway.streaming.wire import HEADERS, EventStream
from agents.gateway.transport.bodies import base_url, is_form, json_body
from agents.gateway.waiting.expected import ExpectedTimes
from agents.gateway.webhooks.requests import WebhookRequests
from agents.gateway.webhooks.signatures import secret_of
from schemas.messages import GenerateRequest, Status
from streams.settings import Requests

PAGE: Final = 100  # predictions of one list
CANCEL_S: Final = 5.0  # that a cancellation is waited for


class PredictionsApi:
    """The handlers of predictions."""

    def __init__(
        self,
        pipeline: PipelineClient,
        images: ImagesApi,
        streams: StreamUrls,
        expected: ExpectedTimes,
        limits: Requests,
        webhooks: WebhookRequests,
        key: bytes,
        clock_ms: Callable[[], int],
    ) -> None:
        """`key`: of the marks of requests, and of tenants' secrets."""
        self._webhooks = webhooks
        self._key = key
        self._pipeline = pipeline
        self._images = images
        self._streams = streams
        self._expected = expected
        self._limits = limits
        self._clock_ms = clock_ms

    async def create(self, http: Request) -> Response:
        """POST /v1/predictions, /v1/models/pochade/NAME/predictions: 201, after the end if `Prefer: wait` is stated.

        A form is read as `/v1/images/edits` reads it: its fields are the input, and its images are stored.

        A prediction that is still open by then has the status `starting`, also if a worker has begun it: Replicate's
        client takes any other status in this answer as the end.
        """
        waits_s, tenant = wait_s(http.headers.get("prefer", "")), http.state.tenant
        if is_form(http.headers):
            form, (body, request) = await self._images.uploaded(http, self._filled_in)
            content = form.digest
        else:
            body = await json_body(http)
            given, content = body.get("input"), await http.body()
            request = await self._images.sources.placed(
                given if isinstance(given, dict) else {}, http.state.tenant, "input.",
                lambda placed: self._request_of({**body, "input": placed} if isinstance(given, dict) else body, http),
            )  # fmt: skip
        repetition = stated(http.headers, tenant, http.url.path, content, self._key)
        hook = self._webhooks.wanted(body, tenant, base_url(http))
        any_form = (body.get("input") or {}).get("strict") is None
        late = passed_deadline(request, self._clock_ms(), PARAMS)
        request = await self._pipeline.begin(request, tenant, repetition, hook=hook, any_form=any_form, late=late)
        http.state.request_id = request.request_id
        self._expected.first(request.request_id)
        if not waits_s:
            return JSONResponse(self._shown(self._pipeline.job(request.request_id, tenant), http), 201)
        result = await self._pipeline.result(request.request_id, http, waits_s)
        job = self._pipeline.known(request, tenant, result)
        unfinished = {"status": STARTING} if result is None else {}
        return JSONResponse({**self._shown(job, http), **unfinished}, 201)

    def _request_of(self, body: dict[str, Any], http: Request) -> GenerateRequest:
        offered, after_ms = self._images.offered, cancel_after_ms(http.headers.get("cancel-after", ""))
        if named := offered.own(model_of(http.path_params)):
            offered.check_model(named, PARAMS["model"])
        body = {name: offered.own(value) if name in ("model", "version") else value for name, value in body.items()}
        if isinstance(given := body.get("input"), dict):
            model = name_of(named or body.get("version") or body.get("model") or "")
            body["input"] = self._images.sizes.of_ratio(given, str(model), "input.")
        request = parse(body, self._limits, self._clock_ms(), named, after_ms, http.state.tenant)
        self._images.offered.check(request, PARAMS)
        return request

    def _filled_in(self, form: Form, uris: Mapping[str, str], http: Request) -> tuple[dict[str, Any], GenerateRequest]:
        body = {"input": {name: value for name, value in form.fields.items() if name != "model"} | dict(uris)}
        if "model" in form.fields:
            body["model"] = form.fields["model"]
        return body, self._request_of(body, http)

    async def get(self, http: Request) -> Response:
        """GET /v1/predictions/ID; with `Prefer: wait` answered when the job has ended, or that time is over."""
        request_id, tenant = http.path_params["id"], http.state.tenant
        job, waits_s = self._pipeline.job(request_id, tenant), wait_s(http.headers.get("prefer", ""))
        if waits_s and job.result is None:
            await self._pipeline.result(request_id, http, waits_s)
            job = self._pipeline.job(request_id, tenant)
        return JSONResponse(self._shown(job, http))

    async def explain(self, http: Request) -> Response:
        """GET /v1/predictions/ID/explain: why the job ended as it did, or what it waits for."""
        job = self._pipeline.job(http.path_params["id"], http.state.tenant)
        return JSONResponse(explanation(job, self._expected.hindered(job.request_id, begun_in(job.notes))))

    async def list(self, http: Request) -> Response:
        """GET /v1/predictions: the newest PAGE, and the address of those before them."""
        jobs = self._pipeline.page(http.state.tenant, PAGE + 1, _cursor(http.query_params.get("cursor", "")))
        shown, last = jobs[:PAGE], jobs[PAGE - 1] if len(jobs) > PAGE else None
        cursor = urlencode({"cursor": f"{last.created_ms}.{last.request_id}"}) if last else ""
        following = f"{base_url(http)}/v1/predictions?{cursor}" if cursor else None
        return JSONResponse({"previous": None, "next": following, "results": [self._shown(job, http) for job in shown]})

    async def cancel(self, http: Request) -> Response:
        """POST /v1/predictions/ID/cancel: one that has ended stays as it ended."""
        job = await self._pipeline.cancel(http.path_params["id"], http.state.tenant, CANCEL_S)
        return JSONResponse(self._shown(job, http))

    async def stream(self, http: Request) -> Response:
        """GET /v1/streams/TOKEN: the events of one job, from behind `Last-Event-ID` if that is stated.

        204 if the client has had them all, so that it does not reconnect.
        """
        named = self._streams.named(http.path_params["token"], self._clock_ms() / 1000)
        after = position_of(http.headers.get("last-event-id", ""))
        self._pipeline.job(named.request_id, named.tenant)
        if http.method == "HEAD":
            return Response(headers=HEADERS)
        if after >= LAST:
            return Response(status_code=204)
        address = self._images.addresser(Format(), base_url(http))
        events = prediction_events(self._pipeline, named, after, address)
        return EventStream(await anext(events), events, ended_early)

    async def webhook_secret(self, http: Request) -> Response:
        """GET /v1/webhooks/default/secret: the secret with which the caller's tenant verifies webhooks."""
        return JSONResponse({"key": secret_of(self._key, http.state.tenant)})

    def _shown(self, job: Job, http: Request) -> dict[str, Any]:
        return self.shown(job, base_url(http), http.state.tenant)

    def shown(self, job: Job, base: str, tenant: str) -> dict[str, Any]:
        """Return a tenant's job as a prediction. `base`: the prefix of addresses."""
        result = job.result
        address = self._images.addresser(Format(), base)
        stream = self._streams.url(base, job.request_id, tenant, self._clock_ms() / 1000)
        logs = [line_of(note, tenant, address) for note in job.notes]
        uris = result.image_uris if result is not None and result.status is Status.COMPLETED else ()
        expected, begun = None if result else self._expected.of(job.request_id), begun_in(job.notes)
        why = self._expected.hindered(job.request_id, begun) if result is None and expected is None else ""
        is_lost = begun is not None and bool(why)
        shown = [*logs, why] if why else logs
        return prediction(job, base, stream, shown, [address(uri) for uri in uris], expected, is_lost=is_lost)


def _cursor(text: str) -> tuple[int, str]:
    if not text:
        return NEVER_MS, ""
    ms, _, request_id = text.partition(".")
    if not (ms.isascii() and ms.isdigit() and len(ms) < 19):
        raise Refusal("invalid", f"cursor must be that of a list's next address: got {text!r:.80}", param="cursor")
    return int(ms), request_id
