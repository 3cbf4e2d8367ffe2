"""Asks one side for images over HTTP: one after the other, or at the times of a trace, whether answers come or not."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import aiohttp

PATH: Final = "/v1/images/generations"
BODY: Final = {"prompt": "a red heart"}
PATIENCE_S: Final = 120.0  # for one answer
OK: Final = 200


class Answered(NamedTuple):
    """What became of one request."""

    due_ms: float  # since the first, when it was to be sent
    took_ms: float  # from then to the whole answer
    has_image: bool


def in_turn(url: str, count: int, clients: int = 1) -> list[Answered]:
    """Closed loop: each client sends its next request when it has the answer to the last."""

    async def client(http: aiohttp.ClientSession, begun_s: float, own: int) -> list[Answered]:
        return [await _ask(http, time.monotonic(), begun_s) for _ in range(own)]

    async def all_of_them() -> list[Answered]:
        async with _http(url) as http:
            begun_s = time.monotonic()
            found = await asyncio.gather(*(client(http, begun_s, count // clients) for _ in range(clients)))
        return [each for own in found for each in own]

    return asyncio.run(all_of_them())


def at_times(url: str, arrivals_ms: Sequence[float]) -> list[Answered]:
    """Open loop: a request at each of these ms from now; what it waits because the sender was late counts too."""

    async def one(http: aiohttp.ClientSession, begun_s: float, at_ms: float) -> Answered:
        due_s = begun_s + at_ms / 1000
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        return await _ask(http, due_s, begun_s)

    async def all_of_them() -> list[Answered]:
        async with _http(url) as http:
            begun_s = time.monotonic() + 0.1
            return await asyncio.gather(*(one(http, begun_s, at_ms) for at_ms in arrivals_ms))

    return asyncio.run(all_of_them())


def _http(url: str) -> aiohttp.ClientSession:
    timeout, connector = aiohttp.ClientTimeout(PATIENCE_S), aiohttp.TCPConnector(limit=0)
    return aiohttp.ClientSession(url, timeout=timeout, connector=connector, trust_env=False)


async def _ask(http: aiohttp.ClientSession, due_s: float, begun_s: float) -> Answered:
    try:
        async with http.post(PATH, json=BODY) as answer:
            has_image = answer.status == OK and bool((await answer.json())["data"][0]["b64_json"])
    except (aiohttp.ClientError, TimeoutError):
        has_image = False
    return Answered(1000 * (due_s - begun_s), 1000 * (time.monotonic() - due_s), has_image)
