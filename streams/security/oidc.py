"""Access tokens of an identity provider for aiokafka, which knows no OIDC itself (librdkafka fetches its own)."""

import asyncio
import time
from collections.abc import Mapping

import httpx
from aiokafka.abc import AbstractTokenProvider

from schemas.errors import PochadeError
from streams.security.extensions import lacking
from streams.security.security import Oidc
from streams.security.tls import trusting

TIMEOUT_S = 10.0
RENEWED_AT = 0.8  # of a token's life, as librdkafka does


class NoToken(PochadeError):
    """The identity provider gave no token."""


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Provides one token for all connections, and fetches a new one before it expires."""

    def __init__(self, oidc: Oidc) -> None:
        self._oidc = oidc
        self._tls = trusting(oidc.ca_file, oidc.ca_pem, "https.ca.location")
        self._token = ""
        self._until_s = 0.0
        self._fetching: asyncio.Lock | None = None  # of the loop that asks first

    async def token(self) -> str:
        """The token to connect with now. Raises NoToken; aiokafka tries again with its next connection."""
        self._fetching = self._fetching or asyncio.Lock()
        async with self._fetching:
            if time.monotonic() >= self._until_s:
                self._token, life_s = await self._fetch()
                self._until_s = time.monotonic() + RENEWED_AT * life_s
            return self._token

    def extensions(self) -> Mapping[str, str]:
        """The SASL extensions that are sent to the broker with the token."""
        return self._oidc.extensions

    async def _fetch(self) -> tuple[str, float]:
        asked = {"grant_type": "client_credentials", **({"scope": self._oidc.scope} if self._oidc.scope else {})}
        try:
            async with httpx.AsyncClient(verify=self._tls, timeout=TIMEOUT_S) as client:
                auth = (self._oidc.client_id, self._oidc.client_secret)
                answer = await client.post(self._oidc.token_url, data=asked, auth=auth)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise self._failed(f"does not answer: {lacking(why) or why}") from None
        if answer.status_code != httpx.codes.OK:
            do = "check sasl.oauthbearer.client.id, client.secret and scope"
            raise self._failed(f"refused with HTTP {answer.status_code}: {do}")
        try:
            token = answer.json()
            return str(token["access_token"]), float(token.get("expires_in", 60))
        except (ValueError, KeyError, TypeError):
            raise self._failed("answered with no access_token") from None

    def _failed(self, why: str) -> NoToken:
        return NoToken(f"the identity provider {self._oidc.token_url} {why}")
