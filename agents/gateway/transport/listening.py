"""A server of HTTP that listens as a section of the settings says; the gateway and the console each have one."""

import socket
import ssl
from typing import Final, Protocol

import uvicorn
from starlette.types import ASGIApp

from agents.gateway.transport.protocol import timed
from streams.settings import InvalidSettings

KEEP_ALIVE_S: Final = 30  # that a connection may be idle between two requests
ENDING_S: Final = 5  # for answers that are on their way when the server stops
BACKLOG: Final = 256


class Listens(Protocol):
    """The settings of a server, as `Gateway` and `Console` have them."""

    @property
    def host(self) -> str:
        """The address to listen at."""
        ...

    @property
    def port(self) -> int:
        """The port; 0: a free one."""
        ...

    @property
    def tls_certificate(self) -> str:
        """A PEM file; "": plain HTTP."""
        ...

    @property
    def tls_key(self) -> str:
        """A PEM file."""
        ...

    @property
    def client_timeout_s(self) -> float:
        """For a request's head, and for reading its answer."""
        ...


def check_tls(limits: Listens, section: str) -> None:
    """Raise InvalidSettings unless the certificate and its key, where they are stated, can be used."""
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
    """Return the server of an app. `max_open`: requests that the app answers at once; beyond it, it refuses itself."""
    return uvicorn.Server(
        uvicorn.Config(
            app, http=timed(limits.client_timeout_s), ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_keep_alive=KEEP_ALIVE_S,
            limit_concurrency=2 * max_open + 1, timeout_graceful_shutdown=ENDING_S,
            ssl_certfile=limits.tls_certificate or None, ssl_keyfile=limits.tls_key or None,
        )
    )  # fmt: skip
