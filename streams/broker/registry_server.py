"""Serves `schemas/registry.json` over HTTP, as a read-only Confluent-compatible registry: any Avro client can decode.

`python -m streams.broker.registry_server PORT HOME` serves it on the loopback address. Writing is refused: schemas are
derived from `schemas/messages.py`.
"""

import json
import pathlib
import re
import sys
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import psutil
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from schemas.registry import Registered, by_id, latest, registered
from streams.broker.node import HOST
from streams.broker.process import Process, spawn

MODULE = "streams.broker.registry_server"
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
SILENT_S = 10.0
MAX_BODY = 2**20  # bytes of a request that is refused anyway
READ_ONLY = "read-only registry: schemas come from schemas/messages.py by `python -m schemas.registry`"


class Refused(Exception):
    """An answer other than 200: Confluent's error code, whose first three digits are the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def answer(path: str) -> Any:
    """The JSON value for a GET of `path`. Raises Refused: no such path, subject, version or id."""
    plain = urlsplit(path).path.rstrip("/") or "/"
    for pattern, respond in _ROUTES:
        match = pattern.fullmatch(plain)
        if match:
            return respond(*(unquote(group) for group in match.groups()))
    raise Refused(404, f"no resource {plain}")


def _versions(subject: str) -> list[Registered]:
    versions = [entry for entry in registered() if entry.subject == subject]
    if not versions:
        raise Refused(40401, f"subject {subject!r} not found; there are {', '.join(latest())}")
    return versions


def _version(subject: str, wanted: str) -> Registered:
    versions = _versions(subject)
    if wanted in ("latest", "-1"):
        return versions[-1]
    for entry in versions:
        if wanted == str(entry.version):
            return entry
    raise Refused(40402, f"version {wanted} of {subject!r} not found; the newest is {versions[-1].version}")


def _entry(schema_id: str) -> Registered:
    entry = by_id().get(int(schema_id))
    if entry is None:
        raise Refused(40403, f"schema {schema_id} not found; ids go to {len(registered())}")
    return entry


def _text(entry: Registered) -> str:
    return json.dumps(entry.schema)


def _described(entry: Registered) -> dict[str, Any]:
    return {
        "subject": entry.subject,
        "version": entry.version,
        "id": entry.id,
        "schemaType": "AVRO",
        "schema": _text(entry),
    }


def _pair(entry: Registered) -> dict[str, Any]:
    return {"subject": entry.subject, "version": entry.version}


_ROUTES: tuple[tuple[re.Pattern[str], Callable[..., Any]], ...] = tuple(
    (re.compile(pattern), respond)
    for pattern, respond in (
        (r"/", lambda: {}),
        (r"/subjects", lambda: sorted(latest())),
        (r"/subjects/([^/]+)/versions", lambda s: [entry.version for entry in _versions(s)]),
        (r"/subjects/([^/]+)/versions/([^/]+)", lambda s, v: _described(_version(s, v))),
        (r"/subjects/([^/]+)/versions/([^/]+)/schema", lambda s, v: _version(s, v).schema),
        (r"/schemas/types", lambda: ["AVRO"]),
        (r"/schemas/ids/(\d+)", lambda i: {"schemaType": "AVRO", "schema": _text(_entry(i))}),
        (r"/schemas/ids/(\d+)/schema", lambda i: _entry(i).schema),
        (r"/schemas/ids/(\d+)/subjects", lambda i: [_entry(i).subject]),
        (r"/schemas/ids/(\d+)/versions", lambda i: [_pair(_entry(i))]),
        (r"/config(?:/[^/]+)?", lambda: {"compatibilityLevel": "BACKWARD"}),
        (r"/mode(?:/[^/]+)?", lambda: {"mode": "READONLY"}),
    )
)


class Handler(BaseHTTPRequestHandler):
    """Answers GET; refuses every other method with 405."""

    server_version = "pochade-registry"
    protocol_version = "HTTP/1.1"
    timeout = SILENT_S  # else each connection that says nothing would hold a thread for ever

    def do_GET(self) -> None:
        """Answer with one resource as JSON."""
        try:
            self._send(HTTPStatus.OK, answer(self.path))
        except Refused as refused:
            self._send(int(str(refused.code)[:3]), {"error_code": refused.code, "message": str(refused)})

    def do_POST(self) -> None:
        """Refused: nothing can be registered here."""
        self.close_connection = True  # the rest of the body must not be read as the next request
        length = self.headers.get("Content-Length", "0")
        self.rfile.read(min(int(length), MAX_BODY) if length.isdecimal() else 0)  # so that the client gets an answer
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, {"error_code": 405, "message": READ_ONLY})

    do_PUT = do_DELETE = do_POST  # noqa: N815  the base class finds methods by these names

    def _send(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def server(port: int) -> ThreadingHTTPServer:
    """A bound server that does not serve yet; port 0 takes a free one."""
    return ThreadingHTTPServer((HOST, port), Handler)


def start(port: int, kafka_home: pathlib.Path) -> Process:
    """Serve from a process of its own that outlives this one; the home on its command line shows whose it is."""
    log = kafka_home / "registry.log"
    return spawn([sys.executable, "-P", "-m", MODULE, str(port), str(kafka_home)], log)


def running(kafka_home: pathlib.Path) -> list[Process]:
    """The registries of a home, recorded or not: who started one may have been killed before the record was written."""
    marks = {MODULE, str(kafka_home)}
    found = psutil.process_iter(["cmdline", "create_time"])
    return [Process(each.pid, each.info["create_time"]) for each in found if marks <= set(each.info["cmdline"] or ())]


@retry(retry=retry_if_exception_type(OSError), stop=stop_after_delay(15), wait=wait_fixed(0.02), reraise=True)
def wait_until_ready(url: str) -> None:
    """Wait until the registry answers. Raises OSError: not within 15 s."""
    _open(f"{url}/subjects").close()


def is_up_to_date(url: str) -> bool:
    """Whether the registry there knows all schemas of this release; False where it does not answer, too."""
    highest = registered()[-1].id
    try:
        _open(f"{url}/schemas/ids/{highest}").close()
    except OSError:
        return False
    return True


def _open(url: str) -> Any:
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5)


if __name__ == "__main__":
    server(int(sys.argv[1])).serve_forever()
