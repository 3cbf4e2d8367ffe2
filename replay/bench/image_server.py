"""A server with OpenAI's images endpoints that sleeps instead of generating; for benches and tests.

It has slots, as servers that batch do: so many requests are served at once, the others wait. `Misbehaviour` says how
the next requests fail. `python -m replay.bench.image_server` prints its address and serves until its input ends.
"""

import asyncio
import base64
import functools
import io
import json
import random
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from PIL import Image


@dataclass(frozen=True, kw_only=True)
class Misbehaviour:
    """What becomes of one request in place of an image."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None  # None: the usual answer
    count: int = 1  # images in it
    size: str = ""  # of the image; "": as asked
    form: str = "PNG"
    as_url: str = ""  # the answer names this address, which {origin} begins
    is_cut: bool = False  # half the answer, and the connection is closed
    hangs: bool = False  # no answer, ever


@dataclass(kw_only=True)
class ImageServer:
    """Serves in a thread of its own, between `start` and `close`."""

    slots: int = 8
    service_s: float = 0.0  # of one image
    jitter: float = 0.0  # of that, as a share: uniform between 1 - jitter and 1 + jitter
    key: str = ""  # that is asked for; "": none
    models: tuple[str, ...] = ("tiny",)
    has_health: bool = True
    metrics: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)  # of the requests for images
    keys: list[tuple[str, str]] = field(default_factory=list)  # path and Authorization of all requests
    cancelled: threading.Event = field(default_factory=threading.Event)  # a client closed its connection
    begun: threading.Event = field(default_factory=threading.Event)  # a request for an image came
    next: deque[Misbehaviour] = field(default_factory=deque)
    most: int = 0  # requests that were open at once
    open: int = 0
    port: int = 0

    @property
    def origin(self) -> str:
        """Its address, without /v1."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Its address, as OpenAI's clients have it."""
        return f"{self.origin}/v1"

    def start(self) -> "ImageServer":
        """Listen."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def close(self) -> None:
        """Close all connections, and the port."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._free, self._random = asyncio.Semaphore(self.slots), random.Random(0)
        app = web.Application(middlewares=[self._checked], client_max_size=1 << 20)
        app.router.add_post("/v1/images/generations", self._generate)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/file", self._file)
        if self.has_health:
            app.router.add_get("/health", self._health)
            app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    @property
    def _checked(self) -> Any:
        @web.middleware
        async def check(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            given = request.headers.get("authorization", "")
            self.keys.append((request.path, given))
            if self.key and given != f"Bearer {self.key}" and request.path not in ("/file", "/health"):
                return web.json_response({"error": {"message": "Incorrect API key provided"}}, status=401)
            return await handler(request)

        return check

    async def _models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": each, "object": "model"} for each in self.models]})

    async def _health(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "healthy"})

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(text=self.metrics)

    async def _file(self, _request: web.Request) -> web.Response:
        return web.Response(body=image_bytes("32x32", 7, "PNG"))

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.bodies.append(body)
        self.open += 1
        self.most = max(self.most, self.open)
        self.begun.set()
        act = self.next.popleft() if self.next else Misbehaviour()
        try:
            if act.hangs:
                await asyncio.Event().wait()
            async with self._free:
                factor = self._random.uniform(1 - self.jitter, 1 + self.jitter)
                await asyncio.sleep(self.service_s * factor if act.status == 200 else 0)
            return await self._answered(request, body, act)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.open -= 1

    async def _answered(self, request: web.Request, body: dict[str, Any], act: Misbehaviour) -> web.StreamResponse:
        data = image_bytes(act.size or body["size"], body.get("seed", 0), act.form)
        entry = {"b64_json": base64.b64encode(data).decode()}
        if act.as_url:
            entry = {"url": act.as_url.format(origin=self.origin)}
        text = json.dumps({"created": 1, "data": [entry] * act.count}).encode() if act.body is None else act.body
        if not act.is_cut:
            return web.Response(body=text, status=act.status, headers=act.headers, content_type="application/json")
        answer = web.StreamResponse(headers={"content-length": str(len(text))})
        await answer.prepare(request)
        await answer.write(text[: len(text) // 2])
        assert request.transport is not None
        request.transport.close()
        return answer


@functools.lru_cache(maxsize=1024)
def image_bytes(size: str, seed: int, form: str) -> bytes:
    """Return the file of a plain image whose red is the seed, of a size as in "32x32"."""
    width, _, height = size.partition("x")
    file = io.BytesIO()
    Image.new("RGB", (int(width), int(height)), (seed % 256, 0, 0)).save(file, form)
    return file.getvalue()


def main() -> None:
    """Serve with the slots, seconds and jitter of the arguments."""
    slots, service_s, jitter = sys.argv[1:]
    server = ImageServer(slots=int(slots), service_s=float(service_s), jitter=float(jitter)).start()
    print(server.url, flush=True)
    sys.stdin.read()
    server.close()


if __name__ == "__main__":
    main()
