"""Signed addresses of requests' event streams: pages and Replicate's JavaScript client send no key there."""

from typing import Final, NamedTuple

from agents.gateway.refusals import Refusal
from agents.gateway.signing import Seal

PATH: Final = "/v1/streams/"


class Named(NamedTuple):
    """The content of an address."""

    request_id: str
    tenant: str
    left_s: float  # that the address is good for, and a stream at it lasts at most


class StreamUrls:
    """Makes and reads addresses. Thread-safe."""

    def __init__(self, key: bytes, lifetime_s: float) -> None:
        self._seal = Seal(key, "stream:")
        self._lifetime_s = lifetime_s

    def url(self, base_url: str, request_id: str, tenant: str, now_s: float) -> str:
        """Return an address of a tenant's request, good from now (epoch seconds) for the lifetime."""
        return f"{base_url}{PATH}{self._seal.sealed([request_id, tenant, int(now_s + self._lifetime_s)])}"

    def named(self, token: str, now_s: float) -> Named:
        """Return what an address names. Raises Refusal if it is forged or expired."""
        claims = self._seal.opened(token)
        if claims is None:
            raise Refusal("not-found", "no stream has this address: it was cut, altered, or made with another secret")
        request_id, tenant, until_s = claims
        if now_s >= until_s:
            raise Refusal("gone", "the address of this stream has expired (gateway.url_lifetime_s): ask at urls.get")
        return Named(request_id, tenant, until_s - now_s)
