"""An HTTP server configured by a section of the settings, for the gateway and for the console."""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final, Protocol

import uvicorn
from starlette.types import ASGIApp

from agents.gateway.transport.protocol import timed
from streams.settings import InvalidSettings

log = logging.getLogger(__name__)

RENEWAL_S: Final = 10.0  # between two looks at whether the certificate's files have changed
KEEP_ALIVE_S: Final = 30  # that a connection may be idle between two requests
ENDING_S: Final = 5  # for answers that are on their way when the server stops
BACKLOG: Final = 256
STILL_READS: Final = "still reads the last requests"  # why a server is not ready whose topics are not read yet


class Listens(Protocol):
    """The settings of a server, as `Gateway` and `Console` have them."""

    @property
    def host(self) -> str:
        """The address to listen at."""

    @property
    def port(self) -> int:
        """The port; 0: a free one."""

    @property
    def tls_certificate(self) -> str:
        """A PEM file; "": plain HTTP."""

    @property
    def tls_key(self) -> str:
        """A PEM file."""

    @property
    def client_timeout_s(self) -> float:
        """For a request's head, and for reading its answer."""


class Listener:
    """Binds an address, and serves an app there."""

    def __init__(self, app: ASGIApp, limits: Listens, section: str, max_open: int) -> None:
        """Bind the address. `max_open`: max concurrent requests of the app, which refuses more itself.

        Raises InvalidSettings if the address is in use or not allowed, or the certificate cannot be used.
        """
        self._app = app
        self._limits = limits
        self._section = section
        self._max_open = max_open
        check_tls(limits, section)
        self._socket: socket.socket | None = bound(limits, section)
        self.server: uvicorn.Server | None = None  # None: it has not served yet
        self.port: int = self._socket.getsockname()[1]
        self.url = ""  # that it serves at; "": it has not served yet
        self._stamps = self._looked_at()

    def not_ready(self) -> str:
        """Why it does not serve yet; any thread may ask."""
        return "" if self.server is not None and self.server.started else "does not serve yet"

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["asyncio.Task[None]"]:
        """Serve within the block, and finish open answers at its end. Yields a task that ends with the server."""
        taken, self._socket = self._socket or bound(self._limits, self._section), None
        host, self.port = taken.getsockname()[:2]
        scheme = "https" if self._limits.tls_certificate else "http"
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"
        server = self.server = server_of(self._app, self._limits, self._max_open)
        ended, renewing = asyncio.create_task(server.serve(sockets=[taken])), asyncio.create_task(self._renewing())
        yield ended
        renewing.cancel()
        server.should_exit = True
        await ended

    async def _renewing(self) -> None:
        while self._limits.tls_certificate:
            await asyncio.sleep(RENEWAL_S)
            self.renew()

    def renew(self) -> None:
        """Take certificate and key for new connections if their files have changed; where they do not fit, no-op."""
        try:
            stamps = self._looked_at()
            if stamps != self._stamps and self.server is not None and self.server.config.ssl is not None:
                self._stamps = stamps
                check_tls(self._limits, self._section)
                self.server.config.ssl.load_cert_chain(self._limits.tls_certificate, self._limits.tls_key)
                log.info("new connections get the changed certificate of %s", self._limits.tls_certificate)
        except (OSError, InvalidSettings) as error:
            log.warning("new connections get the certificate before: %s", error)

    def _looked_at(self) -> list[tuple[int, int]]:
        names = (self._limits.tls_certificate, self._limits.tls_key) if self._limits.tls_certificate else ()
        return [(found.st_mtime_ns, found.st_ino) for found in map(os.stat, names)]


def check_tls(limits: Listens, section: str) -> None:
    """Raise InvalidSettings if the stated certificate and key cannot be used."""
    if not limits.tls_certificate:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(limits.tls_certificate, limits.tls_key, password=lambda: "")
    except OSError as error:  # of ssl, too
        files = f"{section}.tls_certificate {limits.tls_certificate} and {section}.tls_key {limits.tls_key}"
        raise InvalidSettings(
            f"cannot serve TLS with {files}: {error}; these must be PEM files that belong together, the key unencrypted"
        ) from error


def bound(limits: Listens, section: str) -> socket.socket:
    """Return a socket that listens as the settings say. Raises InvalidSettings."""
    host = "127.0.0.1" if limits.host == "localhost" else limits.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, limits.port), family=family, backlog=BACKLOG)
    except OSError as error:
        advice = f"choose another {section}.port, or 0 for a free one"
        raise InvalidSettings(
            f"cannot serve on {section}.host {host}:{limits.port}: {error.strerror}; {advice}"
        ) from error


def server_of(app: ASGIApp, limits: Listens, max_open: int) -> uvicorn.Server:
    """Return the server of an app. `max_open`: max concurrent requests of the app, which refuses more itself."""
    return uvicorn.Server(
        uvicorn.Config(
            app, http=timed(limits.client_timeout_s), ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_keep_alive=KEEP_ALIVE_S,
            limit_concurrency=2 * max_open + 1, timeout_graceful_shutdown=ENDING_S,
            ssl_certfile=limits.tls_certificate or None, ssl_keyfile=limits.tls_key or None,
        )
    )  # fmt: skip
