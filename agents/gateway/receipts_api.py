"""`/v1/receipts/ID`: why a request ended as it did, signed, beside what the manifests of its images state."""

import asyncio
import logging
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agents.gateway.formats import Format
from agents.gateway.pipeline import PipelineClient
from agents.gateway.refusals import Refusal
from schemas.errors import PochadeError
from schemas.messages import Result
from streams import metrics
from streams.extras import need
from streams.operator.receipts import decision_of, disagreement
from streams.settings import Receipts

log = logging.getLogger(__name__)


class ReceiptsApi:
    """The handler of receipts, which are made from results when they are asked for; nothing stores them."""

    def __init__(self, pipeline: PipelineClient, settings: Receipts) -> None:
        """Open the key, if one is set. Raises PochadeError: the extra, a file or a fitting key is missing."""
        self._pipeline = pipeline
        self._is_on = bool(settings.certificate)
        if self._is_on:
            need("c2pa", "cryptography")
            from streams.security.receipts import KeyFiles, read_image

            self._keys, self._read, pipeline.seal = KeyFiles(settings), read_image, self._seal

    def _seal(self, stored: bytes, data: bytes) -> bytes:
        """Return another form of a stored image with a receipt, or as it is if there is none to take it from."""
        try:
            return self._keys.signer().encoding(stored, data)
        except PochadeError as error:
            log.warning("an image is answered without a receipt: %s", error)
            metrics.FALLBACKS.labels("gateway", "receipt").inc()
            return data

    async def get(self, http: Request) -> Response:
        """GET /v1/receipts/ID: of a request of the caller's tenant that has ended."""
        if not self._is_on:
            raise Refusal("not-found", "this deployment signs no receipts: its setting receipts.certificate is empty")
        result = self._pipeline.job(http.path_params["id"], http.state.tenant).result
        if result is None:
            raise Refusal("not-found", f"request {http.path_params['id']:.80} has no end, and so no receipt, yet")
        decision = decision_of(result)
        images = [await self._image(uri, result, decision) for uri in result.image_uris]
        return JSONResponse({"decision": self._keys.signer().record(decision), "images": images})

    async def _image(self, uri: str, result: Result, decision: dict[str, Any]) -> dict[str, Any]:
        """Return what the manifest of a stored image states, and what is wrong with it; "": nothing."""
        try:
            data = await self._pipeline.image(uri, Format(), result.ended_ms)
            read = await asyncio.to_thread(self._read, data)
        except PochadeError as error:
            return {"fault": str(error)}
        return {**read._asdict(), "fault": disagreement(data, read.states, decision)}
