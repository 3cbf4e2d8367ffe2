"""The gateway's routes as an ASGI app, and the answers to its errors."""

import logging
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from agents.gateway.callers.bearer import SECRET, Everybody
from agents.gateway.image_urls import PATH as IMAGES
from agents.gateway.images_api import ImagesApi
from agents.gateway.openapi import PATH as OPENAPI
from agents.gateway.openapi import document
from agents.gateway.pipeline import ClientGone
from agents.gateway.predictions_api import PredictionsApi
from agents.gateway.receipts_api import ReceiptsApi
from agents.gateway.refusals import Refusal
from agents.gateway.streaming.urls import PATH as STREAMS
from agents.gateway.transport.bodies import refused
from agents.gateway.transport.guard import EDITS, FILES, PREDICTIONS, Guard
from streams.settings import Gateway

log = logging.getLogger(__name__)

SHARED: Final = ("GET", "POST")  # methods of other sites' pages
SENT: Final = (
    "authorization", "content-type", "prefer", "cancel-after", "idempotency-key", "x-stainless-retry-count",
    "last-event-id",
)  # fmt: skip
ANSWERED: Final = ("x-request-id", "retry-after", "retry-after-ms", "x-should-retry")  # headers for those pages
CLIENT_CLOSED = 499  # in the metrics only: the client has hung up, so no answer is sent
ROUTES = "POST /v1/images/generations and /v1/images/edits, GET /v1/models, and /v1/predictions"


Callers = Callable[[ASGIApp], ASGIApp]  # wraps the routes in authentication


def app_of(
    images: ImagesApi, predictions: PredictionsApi, receipts: ReceiptsApi, limits: Gateway, callers: Callers = Everybody
) -> ASGIApp:
    """Return the app with its limits. `callers`: `KeyHolders` if requests need API keys."""
    handlers = {
        Refusal: _on_refusal, HTTPException: _on_http, ClientGone: _on_gone, ClientDisconnect: _on_gone,
        RecursionError: _on_depth, Exception: _on_error,
    }  # fmt: skip
    app = callers(Starlette(routes=routes_of(images, predictions, receipts), exception_handlers=handlers))
    if limits.origins:  # around the callers: a browser asks whether a page may ask, without its key
        app = CORSMiddleware(app, limits.origins, SHARED, SENT, expose_headers=ANSWERED)
    return Guard(app, limits)


def routes_of(images: ImagesApi, predictions: PredictionsApi, receipts: ReceiptsApi) -> list[Route]:
    """Return the gateway's routes, which `openapi.py` describes."""
    job = "/v1/predictions/{id}"
    return [
        Route("/v1/images/generations", images.generate, methods=["POST"]),
        Route(EDITS, images.edit, methods=["POST"]),
        Route("/v1/models", images.models),
        Route("/v1/models/{name}", images.model),
        Route("/v1/models/{owner}/{name}", images.model),
        Route(f"{IMAGES}{{token}}", images.file),
        Route(FILES, images.upload, methods=["POST"]),
        Route(PREDICTIONS, predictions.create, methods=["POST"]),
        Route(PREDICTIONS, predictions.list),
        Route("/v1/models/{owner}/{name}/predictions", predictions.create, methods=["POST"]),
        Route(job, predictions.get),
        Route(f"{STREAMS}{{token}}", predictions.stream),
        Route(SECRET, predictions.webhook_secret),
        Route(f"{job}/cancel", predictions.cancel, methods=["POST"]),
        Route(f"{job}/explain", predictions.explain),
        Route("/v1/receipts/{id}", receipts.get),
        Route(OPENAPI, _openapi),
    ]


@cache
def _described() -> dict[str, Any]:
    return document(version("pochade"))


async def _openapi(_http: Request) -> Response:
    return JSONResponse(_described())


async def _on_refusal(_http: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refused(error)


async def _on_http(http: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        there = [each for each in http.app.routes if each.matches(http.scope)[0] is not Match.NONE]
        allowed = ", ".join(sorted({method for each in there for method in each.methods or ()}))
        is_asking = "access-control-request-method" in http.headers  # a browser, before a page of another site may ask
        way = "; gateway.origins lists the sites whose pages may ask" if is_asking else ""
        response = refused(Refusal("method", f"{http.method} is not for {http.url.path:.200}: it takes {allowed}{way}"))
        response.headers["allow"] = allowed
        return response
    return refused(Refusal("not-found", f"nothing is at {http.url.path:.200}: there are {ROUTES}"))


async def _on_gone(_http: Request, _error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED)


async def _on_depth(_http: Request, _error: Exception) -> Response:
    return refused(Refusal("invalid", "the body has too many lists or objects in one another"))


async def _on_error(http: Request, error: Exception) -> Response:
    log.error("request %s could not be answered", http.state.request_id, exc_info=error)
    return refused(Refusal("internal", f"the gateway failed; its log says why at request {http.state.request_id}"))
