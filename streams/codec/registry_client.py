"""Asks a Confluent-compatible schema registry for a schema by its id, over http or https.

What this release knows needs no registry: its ids are committed in `schemas/registry.json`. A record of a newer
release carries an id that is not there. `registry.url` names who knows it; where it is empty, the registry beside the
embedded broker is asked, which a newer release may have started.
"""

import functools
import json
import ssl
import threading
import time
from collections import OrderedDict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from schemas.errors import PochadeError
from streams.broker import address
from streams.security.extensions import lacking
from streams.security.secrets import secret
from streams.settings import Registry, Settings

if TYPE_CHECKING:  # a sixth of a second to load, which only who asks a registry waits for
    import httpx

CACHED_SCHEMAS = 1000  # ids kept; a deployment has some tens
REFUSED_S = 5.0  # an id that was not answered is asked for again after so long: bad records must not flood a registry
MAX_ANSWER_BYTES = 1 << 20
NO_SUCH_SCHEMA = 40403  # Confluent's error code


class RegistryFailed(PochadeError):
    """The registry gave no schema now; it may later."""


class NoSuchSchema(RegistryFailed):
    """The registry answered that it has no schema of this id."""


class RegistryRefused(RegistryFailed):
    """The registry refuses the credentials, or its certificate is wrong: a setting must be corrected."""


class _Refusal(NamedTuple):
    error: RegistryFailed
    until_s: float  # by the monotonic clock


class RegistryClient:
    """Reads schemas by id; an id's schema never changes, so each is fetched once. Any thread may ask."""

    def __init__(self, settings: Registry, *, is_local: bool = False) -> None:
        """`is_local`: it runs on this machine, so that no proxy is asked.

        Raises PochadeError: settings that cannot work, or would send the password in the clear.
        """
        self._url = _checked_url(settings)
        self._known: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._refused: OrderedDict[int, _Refusal] = OrderedDict()
        self._lock = threading.Lock()
        self._settings, self._is_local = settings, is_local
        self._basic, self._bearer = _basic(settings), _bearer(settings)
        if settings.ca:
            _tls(settings)  # raises now what is wrong with the file

    @functools.cached_property
    def _client(self) -> "httpx.Client":
        """Made when the registry is first asked: most processes never meet an unknown id."""
        import httpx

        return httpx.Client(
            base_url=self._url + "/",
            auth=self._basic,
            headers=self._bearer,
            verify=_tls(self._settings),
            timeout=self._settings.timeout_s,
            follow_redirects=False,  # the password is for this host
            trust_env=not self._is_local,
        )

    def schema(self, schema_id: int) -> dict[str, Any]:
        """The Avro schema of a record with this id.

        Raises:
            NoSuchSchema: the registry has none.
            RegistryRefused: the password, the right or the certificate is wrong.
            RegistryFailed: no answer within `registry.timeout_s`, or none that is understood.
        """
        with self._lock:
            if schema_id in self._known:
                return self._known[schema_id]
            refusal = self._refused.get(schema_id)
        if refusal is not None and time.monotonic() < refusal.until_s:
            raise refusal.error
        try:
            found = self._fetch(schema_id)
        except RegistryFailed as error:
            with self._lock:
                _keep(self._refused, schema_id, _Refusal(error, time.monotonic() + REFUSED_S))
            raise
        with self._lock:
            _keep(self._known, schema_id, found)
            self._refused.pop(schema_id, None)
        return found

    def check(self) -> None:
        """Ask for something that every registry has. Raises RegistryFailed, as `schema` does."""
        self._get("subjects")

    def close(self) -> None:
        """Close the connections to the registry, if it was asked."""
        if "_client" in self.__dict__:
            self._client.close()

    def _fetch(self, schema_id: int) -> dict[str, Any]:
        answer = self._get(f"schemas/ids/{schema_id}")
        try:
            kind, schema = answer.get("schemaType", "AVRO"), json.loads(answer["schema"])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise RegistryFailed(f"{self._url} gave no schema for id {schema_id}: is it a schema registry?") from None
        if kind != "AVRO" or not isinstance(schema, dict):
            raise NoSuchSchema(f"{self._url} has schema {schema_id}, but as {kind!s:.40}: an Avro record was expected")
        return schema

    def _get(self, path: str) -> Any:
        import httpx

        try:
            with self._client.stream("GET", path) as response:
                body = b""
                for part in response.iter_bytes():
                    body += part
                    if len(body) > MAX_ANSWER_BYTES:
                        raise RegistryFailed(f"{self._url}/{path} answered more than {MAX_ANSWER_BYTES} bytes")
        except httpx.HTTPError as error:
            raise self._unanswered(error) from None
        if response.status_code == HTTPStatus.OK:
            return _json(body)
        raise self._failure(response.status_code, path, _json(body))

    def _unanswered(self, error: "httpx.HTTPError") -> RegistryFailed:
        why = str(error) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in why:
            do = "set registry.ca to the file of the authority that signed its certificate, or have it renewed"
            why = lacking(why) or f"{why}; {do}"
            return RegistryRefused(f"the certificate of the schema registry {self._url} is not valid: {why}")
        return RegistryFailed(f"the schema registry {self._url} does not answer: {why}; check registry.url")

    def _failure(self, status: int, path: str, body: Any) -> RegistryFailed:
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            do = "check registry.username and registry.password, or registry.token, and the rights of that user"
            return RegistryRefused(f"the schema registry {self._url} does not let us in (HTTP {status}): {do}")
        code = body.get("error_code") if isinstance(body, dict) else None
        if code == NO_SUCH_SCHEMA:
            return NoSuchSchema(f"the schema registry {self._url} has no {path}")
        return RegistryFailed(f"the schema registry {self._url} answered HTTP {status} to {path}; check registry.url")


def open_registry(settings: Settings) -> RegistryClient | None:
    """Open a client of the configured registry, else of the one beside the embedded broker; None without either."""
    if settings.registry.url:
        return RegistryClient(settings.registry)
    found = address.find(settings)
    if found is None or found.registry_url is None:
        return None
    return RegistryClient(Registry(url=found.registry_url), is_local=True)


def _checked_url(settings: Registry) -> str:
    parts = urlsplit(settings.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PochadeError("registry.url must be http://HOST:PORT or https://HOST:PORT, with a path if it has one")
    if parts.username or parts.password:
        raise PochadeError(
            "registry.url holds a password: set registry.username and registry.password, which are hidden"
        )
    if parts.scheme == "http" and (settings.password or settings.token):
        raise PochadeError("registry.url is http, which would send the password in the clear: use https")
    if settings.username and settings.token:
        raise PochadeError("registry.username and registry.token are both set: a registry takes one of them")
    return settings.url.rstrip("/")


def _basic(settings: Registry) -> tuple[str, str] | None:
    return (settings.username, secret("registry.password", settings.password)) if settings.username else None


def _bearer(settings: Registry) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret('registry.token', settings.token)}"} if settings.token else {}


def _tls(settings: Registry) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca or None)
    except (OSError, ssl.SSLError) as error:
        raise PochadeError(f"registry.ca {settings.ca} cannot be read as certificates in PEM: {error}") from None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _keep(kept: OrderedDict[int, Any], schema_id: int, value: Any) -> None:
    kept[schema_id] = value
    if len(kept) > CACHED_SCHEMAS:
        kept.popitem(last=False)
