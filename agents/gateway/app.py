"""The routes of the gateway, as an ASGI app, and what its errors are answered with."""

import logging

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agents.gateway.guard import Guard
from agents.gateway.http_bodies import refused
from agents.gateway.image_urls import PATH
from agents.gateway.images_api import ImagesApi
from agents.gateway.pipeline import ClientGone
from agents.gateway.predictions import OWNER
from agents.gateway.predictions_api import PredictionsApi
from agents.gateway.refusals import Refusal
from streams.settings import Gateway

log = logging.getLogger(__name__)

NOBODY_READS = 499  # of the metrics alone: the client has hung up
ROUTES = "POST /v1/images/generations, GET /v1/models, and /v1/predictions"


def app_of(images: ImagesApi, predictions: PredictionsApi, limits: Gateway) -> ASGIApp:
    """Return the app, guarded by its limits."""
    job = "/v1/predictions/{id}"
    routes = [
        Route("/v1/images/generations", images.generate, methods=["POST"]),
        Route("/v1/models", images.models),
        Route("/v1/models/{name}", images.model),
        Route(f"{PATH}{{token}}", images.file),
        Route("/v1/predictions", predictions.create, methods=["POST"]),
        Route("/v1/predictions", predictions.list),
        Route(f"/v1/models/{OWNER}/{{name}}/predictions", predictions.create, methods=["POST"]),
        Route(job, predictions.get),
        Route(f"{job}/cancel", predictions.cancel, methods=["POST"]),
    ]
    handlers = {
        Refusal: _on_refusal, HTTPException: _on_http, ClientGone: _on_gone, ClientDisconnect: _on_gone,
        Exception: _on_error,
    }  # fmt: skip
    return Guard(Starlette(routes=routes, exception_handlers=handlers), limits)


async def _on_refusal(_http: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refused(error)


async def _on_http(http: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        response = refused(Refusal("method", f"{http.method} is not for {http.url.path:.200}: it takes {allowed}"))
        response.headers["allow"] = allowed
        return response
    return refused(Refusal("not-found", f"nothing is at {http.url.path:.200}: there are {ROUTES}"))


async def _on_gone(_http: Request, _error: Exception) -> Response:
    return Response(status_code=NOBODY_READS)


async def _on_error(http: Request, error: Exception) -> Response:
    log.error("request %s could not be answered", http.state.request_id, exc_info=error)
    return refused(Refusal("internal", f"the gateway failed; its log says why at request {http.state.request_id}"))
