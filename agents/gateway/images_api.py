"""OpenAI's part of the API: `/v1/images/...`, `/v1/models`, and the images that answers give addresses of."""

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agents.gateway.catalog_checks import CatalogChecks
from agents.gateway.edits.forms import Form, form_of
from agents.gateway.edits.sources import Sources
from agents.gateway.edits.uploads import Uploads, check_files, uri_before
from agents.gateway.formats import PNG, Format
from agents.gateway.image_urls import ImageUrls
from agents.gateway.openai_images import (
    EDIT,
    GENERATION,
    PARAMS,
    PLAN_CHOOSES,
    ImagesRequest,
    answer,
    parse,
    passed_deadline,
)
from agents.gateway.pipeline import LATE_S, ClientGone, PipelineClient, unless_gone
from agents.gateway.predictions import model_of, moment
from agents.gateway.refusals import INVALID, Refusal
from agents.gateway.repetitions.marks import stated
from agents.gateway.sizes import Sizes
from agents.gateway.streaming.images import ImageStream, error_event
from agents.gateway.streaming.wire import EventStream
from agents.gateway.transport.bodies import base_url, json_body, parsed
from agents.gateway.waiting.expected import ExpectedTimes
from agents.gateway.webhooks.posting import Connections
from planner.catalog.model import Catalog
from schemas.errors import InvalidRequest
from schemas.messages import Result, Status
from streams.settings import Gateway, Requests

T = TypeVar("T")
Leave = Callable[[], Awaitable[None]] | None  # what is done for a client that hangs up

EXTENSIONS: Final = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}  # of stored images


class ImagesApi:
    """The handlers of images and models."""

    def __init__(
        self,
        pipeline: PipelineClient,
        urls: ImageUrls,
        uploads: Uploads,
        catalog: Catalog,
        limits: Requests,
        gateway: Gateway,
        key: bytes,
        clock_ms: Callable[[], int],
        connections: Connections,
        expected: ExpectedTimes,
    ) -> None:
        """`key`: of the marks of requests. `connections`: by which images are fetched that bodies name."""
        self._pipeline = pipeline
        self._urls = urls
        self.offered = CatalogChecks(catalog, gateway.models, expected.serving)
        self._limits = limits
        self.sizes = Sizes(catalog, gateway.foreign_sizes)
        self._finishes = gateway.on_hang_up == "finish"
        self._wait_s = gateway.wait_s  # until a request is answered, and its deadline
        self._uploads = uploads
        self.sources = Sources(uploads, urls, lambda uri: pipeline.image(uri, Format()), connections, clock_ms)
        self._key = key
        self._clock_ms = clock_ms

    async def generate(self, http: Request) -> Response:
        """POST /v1/images/generations: answers when the images are there; with `stream`, when a worker begins."""
        asked = await self.sources.placed(
            await json_body(http), http.state.tenant, "", lambda body: self._asked(body, http, GENERATION)
        )
        return await self._answered(asked, await http.body(), http)

    async def edit(self, http: Request) -> Response:
        """POST /v1/images/edits: an image, and a mask, are stored for the tenant before the request that names them."""
        form, asked = await self.uploaded(
            http, lambda form, uris, http: self._asked({**form.fields, **uris}, http, EDIT)
        )
        return await self._answered(asked, form.digest, http)

    async def uploaded(self, http: Request, read: Callable[[Form, Mapping[str, str], Request], T]) -> tuple[Form, T]:
        """Read a form and store its images; return it, and what `read` makes of it with their URIs.

        `read` is called before they are stored as well, so that nothing is that asks for what is refused.

        Raises Refusal: `gateway.max_uploads` forms are being read, or one cannot be honoured.
        """
        with self._uploads.one_of_few():
            form = await form_of(http)
            check_files(form)
            read(form, dict.fromkeys(form.files, uri_before(http.state.tenant)), http)
            uris = await self._uploads.store(form, http.state.tenant)
        return form, read(form, uris, http)

    async def upload(self, http: Request) -> Response:
        """POST /v1/files: store an image for inputs of predictions, as Replicate's clients do before they name it."""
        with self._uploads.one_of_few():
            form = await form_of(http)
            content = form.files.pop("content", [])
            metadata = form.files.pop("metadata", [str(form.fields.pop("metadata", "{}")).encode()])
            if len(content) != 1 or len(metadata) != 1 or form.files or form.fields:
                names = ", ".join([*form.files, *form.fields]) or f"{len(content)} files"
                raise Refusal(INVALID, f"a form must have one file, content, and may have metadata: got {names:.80}")
            stored = await self._uploads.one(content[0], "content", http.state.tenant)
        now_s, digest = self._clock_ms() / 1000, hashlib.sha256(content[0]).hexdigest()
        address = self._urls.sealed(base_url(http), stored.uri, Format(), now_s)
        shown = {
            "id": address.rpartition("/")[2], "name": f"{digest[:16]}.{stored.extension}",
            "content_type": EXTENSIONS[stored.extension], "size": len(content[0]), "etag": digest,
            "checksums": {"sha256": digest}, "metadata": _metadata(metadata[0]), "created_at": moment(1000 * now_s),
            "expires_at": moment(1000 * (now_s + self._urls.lifetime_s)), "urls": {"get": address},
        }  # fmt: skip
        return JSONResponse(shown, 201)

    def _asked(self, body: Mapping[str, Any], http: Request, events: str) -> ImagesRequest:
        """Return what a body asks for. Raises Refusal for what its fields, or the catalog, have against it."""
        now_ms, model = self._clock_ms(), self.offered.own(body.get("model", PLAN_CHOOSES))
        sized = self.sizes.placed(self.sizes.of_ratio({**body, "model": model}, str(model)), str(model))
        asked = parse(sized.body, self._limits, now_ms, self._until(now_ms), http.state.tenant, events)
        self.offered.check(asked.request, PARAMS, self.sizes.ways)
        form = asked.format._replace(size=sized.scaled_to)
        return asked._replace(format=form, overridden=(sized.overridden,) if sized.overridden else ())

    def _until(self, now_ms: int) -> int:
        return now_ms + round(1000 * self._wait_s)

    async def _answered(self, asked: ImagesRequest, body: bytes, http: Request) -> Response:
        """Answer a request. `body`: what is equal in its repetitions."""
        repetition = stated(http.headers, http.state.tenant, http.url.path, body, self._key)
        previews = asked.partial_images or 0
        late = passed_deadline(asked.request, self._clock_ms(), PARAMS)
        begun = await self._pipeline.begin(
            asked.request, http.state.tenant, repetition, asked.end_user, previews=previews, any_form=asked.any_form,
            late=late,
        )  # fmt: skip
        request_id = http.state.request_id = begun.request_id
        limit_s = self._wait_s + LATE_S
        leave = None if self._finishes or repetition.is_keyed else partial(self._pipeline.leave, request_id)
        try:
            if asked.partial_images is not None:
                return await self._streamed(asked, request_id, http, limit_s, leave)
            result = await self._pipeline.result(request_id, http, limit_s)
        except ClientGone:
            if leave is not None:
                await leave()
            raise
        if result is None or result.status is not Status.COMPLETED:
            raise self._pipeline.refused(begun, result, limit_s)
        images = await self._shown(result, asked.format, base_url(http) if asked.as_url else "")
        return JSONResponse(answer(asked, result, images, self._clock_ms()))

    async def _streamed(
        self, asked: ImagesRequest, request_id: str, http: Request, limit_s: float, leave: Leave
    ) -> Response:
        """Answer by events; what is refused before a worker begins is refused by its status, as without them."""
        stream = ImageStream(self._pipeline, self._clock_ms)
        events = stream.events(asked, request_id, http.state.tenant, limit_s)
        try:
            first = await unless_gone(anext(events), http)
        except BaseException:
            await events.aclose()
            raise
        return EventStream(first, events, error_event, leave)

    async def _shown(self, result: Result, wanted: Format, base: str) -> Sequence[str]:
        if base:
            return list(map(self.addresser(wanted, base), result.image_uris))
        return [base64.b64encode(data).decode() for data in await self._pipeline.images(result, wanted)]

    def addresser(self, wanted: Format, base: str) -> Callable[[str], str]:
        """Return what makes an address of the image at a URI."""
        return lambda uri: self._urls.url(base, uri, wanted, self._clock_ms() / 1000)

    async def file(self, http: Request) -> Response:
        """GET /v1/files/TOKEN: an image."""
        named = self._urls.named(http.path_params["token"], self._clock_ms() / 1000)
        data = await self._pipeline.image(*named)
        headers = {"cache-control": "private, max-age=3600", "x-content-type-options": "nosniff"}
        kind = EXTENSIONS.get(named.uri.rpartition(".")[2]) if named.format.name == PNG else None
        return Response(data, media_type=kind or named.format.media_type, headers=headers)

    async def models(self, http: Request) -> Response:
        """GET /v1/models: auto, the variants and the bases, in the lists that OpenAI's and Replicate's clients read."""
        known = [self.offered.described(name, base_url(http)) for name in self.offered.listed]
        return JSONResponse({"object": "list", "data": known, "previous": None, "next": None, "results": known})

    async def model(self, http: Request) -> Response:
        """GET /v1/models/NAME, /v1/models/pochade/NAME."""
        name = model_of(http.path_params)
        self.offered.check_model(self.offered.own(name), "model")
        return JSONResponse(self.offered.described(name, base_url(http)))


def _metadata(text: bytes) -> Any:
    try:
        return parsed(text)
    except (ValueError, RecursionError, InvalidRequest):
        raise Refusal(INVALID, f"metadata must be JSON: got {text!r:.80}", param="metadata") from None
