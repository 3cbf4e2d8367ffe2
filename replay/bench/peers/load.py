"""Asks one side for images over HTTP: one after the other, or at the times of a trace, whether answers come or not."""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import aiohttp

PATH: Final = "/v1/images/generations"
ANSWER_TIMEOUT_S: Final = 120.0  # for one answer
OK: Final = 200
RETRIED: Final = frozenset({408, 409, 429})  # and 5xx: as OpenAI's client does
FIRST_S, MOST_S, JITTER = 0.5, 8.0, 0.25  # between two tries, doubled by each: OpenAI's client, which tries thrice


class Answered(NamedTuple):
    """The outcome of one request."""

    due_ms: float  # since the first, when it was to be sent
    took_ms: float  # from then to the whole answer
    has_image: bool
    level: str = ""  # that made the image, where a side has several
    tries: int = 1
    request_id: str = ""  # that Pochade gave it
    sent_ms: float = 0.0  # epoch


def body_of(number: int) -> dict[str, str]:
    """Return the body of a request; no two have the same prompt."""
    return {"prompt": f"a red heart, {number}"}


def in_turn(url: str, count: int, clients: int = 1) -> list[Answered]:
    """Closed loop: each client sends its next request when it has the answer to the last."""

    async def client(http: aiohttp.ClientSession, begun_s: float, own: range) -> list[Answered]:
        return [await _ask(http, number, time.monotonic(), begun_s) for number in own]

    async def all_of_them() -> list[Answered]:
        async with _http(url) as http:
            begun_s, each = time.monotonic(), count // clients
            shares = [range(first * each, (first + 1) * each) for first in range(clients)]
            found = await asyncio.gather(*(client(http, begun_s, own) for own in shares))
        return [each for own in found for each in own]

    return asyncio.run(all_of_them())


def at_times(url: str, arrivals_ms: Sequence[float], retries_s: float = 0) -> list[Answered]:
    """Open loop: a request at each of these ms from now; what it waits because the sender was late counts too.

    `retries_s`: each request is tried again, under one `Idempotency-Key`, for so long; 0: not at all.
    """

    async def one(http: aiohttp.ClientSession, number: int, begun_s: float, at_ms: float) -> Answered:
        due_s = begun_s + at_ms / 1000
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        if not retries_s:
            return await _ask(http, number, due_s, begun_s)
        return await _insist(http, number, due_s, begun_s, retries_s)

    async def all_of_them() -> list[Answered]:
        async with _http(url) as http:
            begun_s = time.monotonic() + 0.1
            return await asyncio.gather(*(one(http, n, begun_s, at_ms) for n, at_ms in enumerate(arrivals_ms)))

    return asyncio.run(all_of_them())


def _http(url: str) -> aiohttp.ClientSession:
    timeout, connector = aiohttp.ClientTimeout(ANSWER_TIMEOUT_S), aiohttp.TCPConnector(limit=0)
    return aiohttp.ClientSession(url, timeout=timeout, connector=connector, trust_env=False)


class _Tried(NamedTuple):
    has_image: bool
    level: str = ""
    may_repeat: bool = False
    request_id: str = ""


async def _ask(http: aiohttp.ClientSession, number: int, due_s: float, begun_s: float) -> Answered:
    sent_ms, tried = 1000 * time.time(), await _try(http, number, {})
    took_ms = 1000 * (time.monotonic() - due_s)
    return Answered(
        1000 * (due_s - begun_s), took_ms, tried.has_image, tried.level, request_id=tried.request_id, sent_ms=sent_ms
    )


async def _insist(http: aiohttp.ClientSession, number: int, due_s: float, begun_s: float, limit_s: float) -> Answered:
    """Ask as OpenAI's client does, with the same key each time, but as often as the limit lets it."""
    key, tries, tried = f"{begun_s}-{number}", 0, _Tried(False)
    try:
        async with asyncio.timeout(limit_s - (time.monotonic() - due_s)):
            while True:
                headers = {"Idempotency-Key": key, "x-stainless-retry-count": str(tries)}
                tried, tries = await _try(http, number, headers), tries + 1
                if tried.has_image or not tried.may_repeat:
                    break
                await asyncio.sleep(min(MOST_S, FIRST_S * 2 ** (tries - 1)) * (1 - JITTER * random.random()))
    except TimeoutError:
        tried = _Tried(False)
    took_ms = 1000 * (time.monotonic() - due_s)
    return Answered(1000 * (due_s - begun_s), took_ms, tried.has_image, tried.level, max(1, tries))


async def _try(http: aiohttp.ClientSession, number: int, headers: Mapping[str, str]) -> _Tried:
    try:
        async with http.post(PATH, json=body_of(number), headers=headers) as answer:
            if answer.status != OK:
                is_final = answer.headers.get("x-should-retry") == "false"
                may_repeat = answer.status in RETRIED or answer.status >= 500
                return _Tried(False, may_repeat=may_repeat and not is_final)
            body = await answer.json()
            ours = body.get("pochade", {})
            has_image = bool(body["data"][0]["b64_json"])
            return _Tried(has_image, ours.get("level", ""), request_id=ours.get("request_id", ""))
    except (aiohttp.ClientError, TimeoutError):
        return _Tried(False, may_repeat=True)
