"""Asks a server with OpenAI's images endpoints: one request an image, several at once.

One thread has a loop and all connections; any thread may ask, and cancel, which closes the connection. The HTTP library
tries nothing again. One more request is made where the server has not begun the first: it could not be connected to, it
was busy (429, 503) and the time allows to wait as long as it says, or its key was refused and its file has a new one.
"""

import asyncio
import base64
import concurrent.futures
import contextlib
import json
import math
import pathlib
import re
import threading
import time
from collections.abc import Coroutine, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx

from planner.catalog.server import Server
from schemas.errors import PochadeError

T = TypeVar("T")

CONNECT_S: Final = 10.0  # for a connection, and for what is asked beside images
BUSY_S: Final = 1.0  # to wait before the second request, where the server does not say for how long
HEALTH_S: Final = 5.0  # between two questions for its health
MAX_BYTES: Final = 128 << 20  # of an answer: 4096 x 4096 px without compression have 67 MB in base64
SHOWN: Final = 300  # characters of what a server says that an error repeats
FIGURES: Final = re.compile(  # as vLLM-Omni and SGLang name them
    r"^(?:vllm_omni:num_requests|sglang:diffusion_num)_(running|waiting|queue)(?:_reqs)?(?:{.*})? (\S+)", re.M
)
TO_DO: Final = {
    400: "correct server.body, server.model or server.dialect", 401: "put a valid key into server.key_file",
    403: "put a valid key into server.key_file", 404: "correct server.url or server.model",
    422: "correct server.body or server.dialect", 429: "lower server.in_flight, or add servers",
    503: "lower server.in_flight, or see the server's log",
}  # fmt: skip
SEE_LOG: Final = "see the server's log"


class ServerFault(PochadeError):
    """A server did not give what was asked for: what it did, and what to do."""


class ServerAway(ServerFault):
    """No connection was made, and nothing was sent."""


class Answer(NamedTuple):
    """A whole answer of HTTP."""

    status: int
    headers: httpx.Headers
    data: bytes


class Client:
    """The connections to a server; for several threads."""

    def __init__(self, server: Server) -> None:
        """Open no connection yet. Raises ServerFault: the key file cannot be read."""
        self._server, self._url = server, server.url.rstrip("/")
        self._root, self._key = self._url.removesuffix("/v1"), self._read_key()
        self.health = ""  # what the server last said of itself; "": nothing yet, or it has no such endpoint
        most, is_local = server.in_flight, urlsplit(self._url).hostname in ("localhost", "127.0.0.1", "::1")
        self._http = httpx.AsyncClient(
            limits=httpx.Limits(max_connections=most + 2, max_keepalive_connections=most + 2),
            timeout=httpx.Timeout(None, connect=CONNECT_S), trust_env=not is_local,
        )  # fmt: skip
        self._free = asyncio.Semaphore(most)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="openai", daemon=True)
        self._thread.start()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Cancel what is open, and close all connections."""
        self._run(self._end()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._http.aclose()

    # Images.

    def begin(self, body: Mapping[str, Any], time_s: float, limit: str) -> "concurrent.futures.Future[bytes]":
        """Ask for an image: the future gives its file, or raises ServerFault.

        `limit`: what `time_s` is, for the error of a server that takes longer.
        """
        return self._run(self._image(body, time_s, limit))

    async def _image(self, body: Mapping[str, Any], time_s: float, limit: str) -> bytes:
        try:
            async with asyncio.timeout(time_s), self._free:
                answer = await self._asked(body, time.monotonic() + time_s)
                return await self._file(_entry(answer.data, self._url))
        except TimeoutError:
            raise ServerFault(f"{self._url} gave no image within {time_s:.3g} s, {limit}") from None

    async def _asked(self, body: Mapping[str, Any], end_s: float) -> Answer:
        """Return the answer with images, to a second request where the server has not begun the first."""
        for is_last in (False, True):
            wait_s = BUSY_S
            try:
                answer = await self._send("POST", f"{self._url}/images/generations", body)
                if answer.status == 200:
                    return answer
                fault, wait_s = self._fault(answer), self._wait_s(answer)
            except ServerAway as error:
                fault = error
            if is_last or time.monotonic() + wait_s > end_s:
                break
            await asyncio.sleep(wait_s)
        raise fault

    def _wait_s(self, answer: Answer) -> float:
        """Return how long to wait before a second request; infinite where it would not help."""
        if answer.status == 401 and self._has_new_key():
            return 0.0
        said = answer.headers.get("retry-after", "")
        wait_s = float(said) if re.fullmatch(r"[0-9]{1,6}", said) else BUSY_S
        return wait_s if answer.status in (429, 503) else math.inf

    async def _send(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Return an answer of any status. The key goes to the server alone. Raises ServerFault."""
        is_own = urlsplit(url)[:2] == urlsplit(self._url)[:2]
        headers = {"authorization": f"Bearer {self._key}"} if self._key and is_own else {}
        data = bytearray()
        try:
            async with self._http.stream(method, url, json=body, headers=headers) as answer:
                async for part in answer.aiter_bytes():
                    data += part
                    if len(data) > MAX_BYTES:
                        raise ServerFault(f"{url:.{SHOWN}} gives more than {MAX_BYTES >> 20} MB: {SEE_LOG}")
                return Answer(answer.status_code, answer.headers, bytes(data))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            away = f"{url:.{SHOWN}} cannot be connected to: {error}"
            raise ServerAway(f"{away}; start the server, or correct server.url") from error
        except httpx.HTTPError as error:
            raise ServerFault(f"{url:.{SHOWN}} broke off before its answer was whole: {error!r}; {SEE_LOG}") from error

    async def _file(self, entry: Mapping[str, Any]) -> bytes:
        """Return the file of an image, which the entry holds or names."""
        encoded, named = entry.get("b64_json"), entry.get("url")
        url = urljoin(f"{self._root}/", named) if isinstance(named, str) else ""
        if isinstance(encoded, str):
            with contextlib.suppress(ValueError):
                return base64.b64decode(encoded, validate=True)
        elif url and (url.startswith("https://") or urlsplit(url)[:2] == urlsplit(self._url)[:2]):
            answer = await self._send("GET", url)
            if answer.status == 200:
                return answer.data
            raise ServerFault(f"{self._url} gives an image at {url:.{SHOWN}}, which answers {answer.status}: {SEE_LOG}")
        raise ServerFault(f"{self._url} gives neither base64 nor an https url of an image: {entry!s:.{SHOWN}}")

    def _fault(self, answer: Answer) -> ServerFault:
        status, said = answer.status, _said(answer.data)
        if 300 <= status < 400:
            said = f"a redirect to {answer.headers.get('location', '')!r:.99}, which is not followed"
        todo = "correct server.url" if 300 <= status < 400 else TO_DO.get(status, SEE_LOG)
        return ServerFault(f"{self._url} answers {status}{': ' if said else ''}{said}; {todo}")

    def _read_key(self) -> str:
        if not (file := self._server.key_file):
            return ""
        try:
            (key,) = pathlib.Path(file).read_text(encoding="ascii").split()
        except (OSError, ValueError):  # never what is in it
            raise ServerFault(f"server.key_file {file!r} must be a file of one line, the key: write it") from None
        return key

    def _has_new_key(self) -> bool:
        before, self._key = self._key, self._read_key()
        return before != self._key

    # What is asked beside images.

    def check(self) -> None:
        """Check that the server is there, takes the key and has the model; ask for its health from now on.

        Raises ServerFault.
        """
        self._run(self._check()).result()

    async def _check(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                answer, model = await self._send("GET", f"{self._url}/models"), self._server.model
                has_health = await self._ask_health()
        except TimeoutError:
            raise ServerFault(f"{self._url} does not answer within {CONNECT_S:g} s: {SEE_LOG}") from None
        if answer.status != 200 and not (answer.status in (404, 405) and has_health):
            raise self._fault(answer)
        known = _models(answer.data) if answer.status == 200 else []
        if model and known and model not in known:
            raise ServerFault(f"{self._url} has no model {model!r}, but {', '.join(known[:20])}: correct server.model")
        if has_health:
            self._watch = asyncio.create_task(self._watched())

    async def _watched(self) -> None:
        while True:
            await asyncio.sleep(HEALTH_S)
            try:
                async with asyncio.timeout(CONNECT_S):
                    await self._ask_health()
            except (TimeoutError, ServerFault) as error:
                self.health = f"server: no answer about its health: {error}"[:SHOWN]

    async def _ask_health(self) -> bool:
        """Ask for health and figures; return whether the server has that endpoint."""
        answer = await self._send("GET", f"{self._root}/health")
        if answer.status not in (200, 500, 503):
            return False
        figures = (await self._send("GET", f"{self._root}/metrics")).data.decode(errors="replace")
        counts = [f"{count:.9} {what}" for what, count in FIGURES.findall(figures)]
        state = "ok" if answer.status == 200 else f"unhealthy: it answers {answer.status}"
        self.health = ", ".join([f"server: {state}", *counts])[:SHOWN]
        return True


def _entry(data: bytes, url: str) -> Mapping[str, Any]:
    """Return the one image of an answer."""
    try:
        entries = json.loads(data)["data"]
        count, entry = len(entries), dict(*entries[:1])
    except (ValueError, KeyError, TypeError):
        raise ServerFault(f"{url} gives no JSON with images: {data[:SHOWN]!r}; {SEE_LOG}") from None
    if count != 1:
        raise ServerFault(f"{url} gives {count} images where 1 was asked for: {SEE_LOG}")
    return entry


def _said(data: bytes) -> str:
    """Return what an error's body says, in one line."""
    text = data.decode(errors="replace")
    with contextlib.suppress(ValueError, AttributeError):
        found = json.loads(text)
        error = found.get("error") or found.get("detail") or found.get("message") or text
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    return " ".join(text.split())[:SHOWN]


def _models(data: bytes) -> list[str]:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return sorted(str(each["id"]) for each in json.loads(data)["data"])
    return []
