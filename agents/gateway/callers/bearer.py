"""Authenticates requests before they reach the routes: finds the tenant of the API key, and refuses invalid keys.

A route's scope follows from its HTTP method, so a new route is never open by mistake: GET and HEAD need `read`, all
others `generate`. Signed addresses of images and streams need no key.
"""

import logging
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agents.gateway.callers.failures import Failures
from agents.gateway.image_urls import PATH as IMAGES
from agents.gateway.refusals import Refusal
from agents.gateway.streaming.urls import PATH as STREAMS
from agents.gateway.transport.bodies import refused
from schemas.messages import ApiKey, GenerateRequest
from streams import metrics
from streams.security.api_keys import KeyRing, Refused
from streams.security.scopes import GENERATE, READ

log = logging.getLogger(__name__)

TENANT: Final = GenerateRequest(request_id="-", prompt="-", created_ms=0).tenant  # of all requests without keys
SCHEMES: Final = ("bearer", "token")  # the second is that of older clients of Replicate
SIGNED: Final = (IMAGES, STREAMS)  # paths whose ends are secrets themselves
READ_METHODS: Final = ("GET", "HEAD")  # for which the scope READ is enough
SECRET: Final = "/v1/webhooks/default/secret"  # its holder can forge webhooks, so reading it needs GENERATE
WORDS: Final = {
    Refused.MISSING: "no API key: send the header `Authorization: Bearer KEY`",
    Refused.MALFORMED: "the header Authorization holds no API key: send `Authorization: Bearer KEY`, once",
    Refused.UNKNOWN: "this API key is not known: `pochade keys create` makes one",
    Refused.REVOKED: "this API key was revoked: `pochade keys create` makes another",
    Refused.EXPIRED: "this API key has expired: `pochade keys create` makes another",
}
SCOPE, TOO_MANY = "scope", "too-many"  # reasons for a refusal besides those of `Refused`


class Everybody:
    """An ASGI app around the routes of a gateway without authentication: every request has the same tenant."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        scope["state"]["tenant"] = TENANT
        await self._app(scope, receive, send)


class KeyHolders:
    """An ASGI app around the routes that lets only requests with a valid key pass."""

    def __init__(self, app: ASGIApp, ring: KeyRing, failures: Failures, clock_ms: Callable[[], int]) -> None:
        self._app = app
        self._ring = ring
        self._failures = failures
        self._clock_ms = clock_ms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 401, 403 or 429."""
        refusal = None
        if not scope["path"].startswith(SIGNED):
            needed = READ if scope["method"] in READ_METHODS and scope["path"] != SECRET else GENERATE
            found = self._found(Headers(scope=scope).getlist("authorization"))
            if isinstance(found, Refused):
                refusal = self._refusal(found, (scope.get("client") or ("",))[0])
            elif needed not in found.scopes:
                refusal = _out_of_scope(found, needed)
            else:
                scope["state"]["tenant"] = found.tenant
        await (self._app if refusal is None else refused(refusal))(scope, receive, send)

    def _found(self, stated: list[str]) -> ApiKey | Refused:
        if not stated:
            return Refused.MISSING
        scheme, _, key = stated[0].partition(" ")
        if len(stated) > 1 or scheme.lower() not in SCHEMES:
            return Refused.MALFORMED
        return self._ring.find(key.strip(), self._clock_ms())

    def _refusal(self, why: Refused, address: str) -> Refusal:
        wait_ms = self._failures.add(address, self._clock_ms())
        if wait_ms is None:
            metrics.GATEWAY_KEYS_REFUSED.labels(str(why)).inc()
            log.info("rejected an API key from %s: %s", address, why)  # never what was sent
            return Refusal("invalid_api_key", WORDS[why])
        metrics.GATEWAY_KEYS_REFUSED.labels(TOO_MANY).inc()
        limit = "this address has shown too many API keys that do not hold (gateway.max_failures a minute)"
        return Refusal("too-many-keys", f"{limit}: {WORDS[why]}", retry_after_ms=wait_ms)


def _out_of_scope(key: ApiKey, needed: str) -> Refusal:
    metrics.GATEWAY_KEYS_REFUSED.labels(SCOPE).inc()
    log.info("rejected a request beyond the scope of API key %s: it needs %s", key.key_id, needed)
    may = " and ".join(key.scopes) or "nothing"
    return Refusal("missing_scope", f"this needs an API key with the scope {needed}: key {key.key_id} has {may}")
