"""Serves a process's health over HTTP: `/livez`, `/readyz` and `/metrics`, for orchestrators and Prometheus."""

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from streams.settings import Http, InvalidSettings

log = logging.getLogger(__name__)

Probe = Callable[[], str]  # "" when all is well, else why not, in words for an operator

OFF = -1
POLL_S = 0.1  # maximum time until the server's thread notices that it shall end
SILENT_S = 10  # a client that sends nothing for longer is hung up on


class Health:
    """The roles of a process and how they are. Probes are asked from the server's threads and must answer at once."""

    def __init__(self, roles: Iterable[str]) -> None:
        self._ready: dict[str, Probe] = {role: lambda: "is starting" for role in roles}
        self._alive: dict[str, Probe] = {}
        self.is_stopping = False  # whether the process was asked to end

    def watch(self, role: str, *, ready: Probe, alive: Probe) -> None:
        """Answer probes by the role's state from now on; before this call the role counts as starting and alive."""
        self._ready[role], self._alive[role] = ready, alive

    def stop(self) -> None:
        """The process takes nothing new from now on: no role is ready any more."""
        self.is_stopping = True

    def not_ready(self) -> dict[str, str]:
        """Role -> why it cannot serve now; empty when all can."""
        if self.is_stopping:
            return dict.fromkeys(self._ready, "is stopping")
        return _troubles(self._ready)

    def not_alive(self) -> dict[str, str]:
        """Role -> why only a new process helps; empty while none is needed."""
        return _troubles(self._alive)


def _troubles(probes: dict[str, Probe]) -> dict[str, str]:
    answers = ((role, _answer(probe)) for role, probe in list(probes.items()))
    return {role: reason for role, reason in answers if reason}


def _answer(probe: Probe) -> str:
    try:
        return probe()
    except Exception as error:  # whatever the probed thing raises is its answer
        return f"cannot be asked: {type(error).__name__}: {error}"


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of the three paths."""

    server_version = "pochade"
    protocol_version = "HTTP/1.1"
    timeout = SILENT_S

    def __init__(self, health: Health, *arguments: Any) -> None:
        self._health = health
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """200, or 503 with a reason a role."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._send(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest())
        elif path == "/livez":
            self._report(self._health.not_alive())
        elif path == "/readyz":
            self._report(self._health.not_ready())
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there are /livez, /readyz and /metrics\n")

    do_HEAD = do_GET  # noqa: N815  the base class finds methods by these names

    def _report(self, troubles: dict[str, str]) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if troubles else HTTPStatus.OK
        body = {"status": "unavailable" if troubles else "ok", "reasons": troubles}
        self._send(status, "application/json", json.dumps(body).encode() + b"\n")

    def _send(self, status: int, content_type: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a line per probe, each second, would drown the other lines."""


class Server(ThreadingHTTPServer):
    """A thread a client; none of them holds up the process's end."""

    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without HTTPServer's search for the host's full name, which waits for a name server."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  the base class names them
        """A client that hangs up early is no news."""
        log.debug("%s was not answered", client_address, exc_info=True)


@contextlib.contextmanager
def served(health: Health, http: Http) -> Iterator[str]:
    """Serve from a thread for the length of the block; the address, "" where the settings say none.

    Raises:
        InvalidSettings: the port is taken or not ours to take.
    """
    if http.port == OFF:
        yield ""
        return
    try:
        server = Server((http.host, http.port), partial(Handler, health))
    except OSError as error:
        advice = "choose another http.port, 0 for a free one, or -1 for none"
        raise InvalidSettings(
            f"cannot serve on http.host {http.host}:{http.port}: {error.strerror}; {advice}"
        ) from error
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), name="http", daemon=True)
    thread.start()
    address = f"http://{http.host}:{server.server_port}"
    log.info("health and metrics on %s/livez /readyz /metrics", address)
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
