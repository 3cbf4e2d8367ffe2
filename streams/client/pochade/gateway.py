"""The transport over HTTP: a deployment's gateway, its predictions and their streams of events.

Every call may be repeated: a GET changes nothing, a cancellation twice is one, and a submission carries its
`Idempotency-Key`. So what is lost, 408, 429 and 5xx are repeated for `retry_s`, at the times that `Retry-After` asks.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from typing import Any

from pochade.network import Answer, Network, Send
from pochade.requests import Request
from pochade.values import (
    End,
    Event,
    Explanation,
    Image,
    NotFound,
    PochadeError,
    Refused,
    StillOpen,
    Unavailable,
    Unsupported,
    end_in,
)

REPEATED = frozenset({0, 408, 425, 429, 500, 502, 503, 504})
EXPIRED = frozenset({404, 410})  # of an address of the gateway: the prediction has a new one
EXPIRED_ANYWHERE = EXPIRED | {400, 403}  # of one that a store has signed, too: S3's answer is 403, others' 400
MAX_BACKOFF_S = 8.0
LONGEST_WAIT_S = 30.0  # of one request for an end: proxies cut those that are silent for a minute
LATE_S = 5.0  # beyond the time that was asked for, until an answer is taken for lost
POLL_S = 1.0  # between two looks for an end at a gateway that does not wait for it
SILENCE_S = 45.0  # of a stream, in which a gateway sends a sign of life every 15 s
LAG_S = 10.0  # until every gateway knows a request that was submitted to one of them
CUT = Answer(0, {}, b"the stream was cut")
MAX_OWN = 1000  # latest requests that are known to be submitted here


class Gateway:
    """The gateway of a deployment. It keeps nothing: any process may go on with a request by its id."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8760",
        *,
        api_key: str = "",
        retry_s: float = 60.0,
        timeout_s: float = 30.0,
        clock_s: Callable[[], float] = time.monotonic,
        dice: Callable[[], float] = lambda: os.urandom(1)[0] / 256,  # `random` takes longer to load than all of this
    ) -> None:
        """`retry_s`: for how long a call is repeated. `timeout_s`: of one HTTP request."""
        self._url = url.rstrip("/").removesuffix("/v1")
        self._key = {"authorization": f"Bearer {api_key.strip()}"} if api_key else {}  # a file's last line ends
        self._retry_s, self._timeout_s = retry_s, timeout_s
        self._clock_s, self._dice = clock_s, dice
        self.own: deque[str] = deque(maxlen=MAX_OWN)  # requests that the gateway may not have read of yet
        self._network: Network

    def over(self, network: Network) -> Gateway:
        """Return this transport over a network."""
        bound = copy.copy(self)
        bound._network = network
        return bound

    async def submit(self, request: Request) -> str:
        """Begin a prediction."""
        fields, headers = dict(request.fields), {"idempotency-key": request.key, **self._key}
        if request.deadline_s is not None:  # no part of the body, so that a later repetition is equal
            headers["cancel-after"] = f"{request.deadline_s:.3f}".rstrip("0").rstrip(".") + "s"
        url, content, form = f"{self._url}/v1/predictions", None, None
        if request.files:
            form = {name: _form_value(value) for name, value in fields.items()}
        else:
            named = {"model": fields.pop("model")} if "model" in fields else {}
            content = json.dumps({"input": fields, **named}, sort_keys=True).encode()
            headers["content-type"] = "application/json"
        shown = await self._json(
            Send("POST", url, headers, content, form, request.files or None, timeout_s=self._timeout_s)
        )
        self.own.append(shown["id"])
        return str(shown["id"])

    async def end(self, request_id: str, timeout_s: float) -> End:
        """Ask for the end by requests that the gateway answers when it is there."""
        end_s = self._clock_s() + timeout_s
        while True:
            begun_s = self._clock_s()
            left_s = max(0.0, end_s - begun_s)
            asked_s = int(min(LONGEST_WAIT_S, left_s))
            try:
                shown = await self._asked(request_id, wait_s=asked_s, left_s=left_s)
            except Unavailable:
                if self._clock_s() >= end_s:
                    raise StillOpen(request_id, timeout_s) from None
                raise
            if (end := _end_of(shown)) is not None:
                return end
            now_s = self._clock_s()
            if now_s >= end_s:
                raise StillOpen(request_id, timeout_s)
            if not asked_s or now_s - begun_s < asked_s / 2:
                await self._network.pause(min(POLL_S, end_s - now_s))

    async def events(self, request_id: str, after: str) -> AsyncGenerator[Event, None]:
        """Follow the stream of events, and go on behind the last one wherever it breaks."""
        shown = await self._asked(request_id)
        if not after and _end_of(shown) is None:
            yield Event("queued", {name: shown["pochade"].get(name) for name in ("place", "expected_ms")})
        failures, heard_s, is_done = 0, self._clock_s(), False
        while True:
            headers = {"last-event-id": after} if after else {}
            send = Send("GET", shown["urls"]["stream"], headers, timeout_s=SILENCE_S)
            answer, block = CUT, dict[str, str]()
            async with contextlib.aclosing(self._network.stream(send)) as stream:
                async for line in stream:
                    if not isinstance(line, str):
                        answer = CUT if line.status == 200 else line
                    elif line.startswith(":"):
                        failures, heard_s = 0, self._clock_s()
                    elif line:
                        name, _, value = line.partition(": ")
                        block[name] = f"{block[name]}\n{value}" if name in block else value
                    else:
                        if "id" in block:
                            failures, heard_s, after = 0, self._clock_s(), block["id"]
                        if block.get("event") == "logs":
                            yield _event(block["data"], after)
                        if is_done := block.get("event") == "done":
                            break
                        block = {}
            if is_done or answer.status == 204:  # all events were read before
                break
            failures += 1
            wait_s = self._wait_s(answer, failures, heard_s + self._retry_s, EXPIRED)
            if wait_s is None:
                raise self._failure(answer, f"the events of {request_id}")
            await self._network.pause(wait_s)
            shown = await self._asked(request_id)
        shown = await self._asked(request_id)
        yield Event("ended", {}, after, _end_of(shown))

    async def cancel(self, request_id: str, reason: str) -> None:
        """End a prediction; the gateway states the reason itself."""
        del reason
        await self._asked(request_id, "POST", "/cancel")

    async def explain(self, request_id: str) -> Explanation:
        """Ask for the explanation."""
        found = await self._asked(request_id, "GET", "/explain")
        return Explanation(request_id, found["why"], found["path"], found["asked"])

    async def read(self, image: Image) -> bytes:
        """Read an image at its address, which is signed and needs no key, or at a new one where that has expired."""
        answer = None
        if image.uri.startswith(("http://", "https://")):
            answer = await self._called(Send("GET", image.uri, timeout_s=self._timeout_s))
        if answer is None or answer.status in EXPIRED_ANYWHERE:
            shown = await self._asked(image.request_id)
            addresses = shown["output"] or ()
            if image.index >= len(addresses):
                raise PochadeError(f"request {image.request_id} has no image {image.index}: it has {len(addresses)}")
            answer = await self._called(Send("GET", addresses[image.index], timeout_s=self._timeout_s))
        if answer.status != 200:
            raise self._failure(answer, f"image {image.index} of {image.request_id}")
        return answer.body

    def ends(self, since_s: float, is_following: bool, request_id: str) -> AsyncGenerator[End, None]:
        """Raise Unsupported."""
        del since_s, is_following, request_id
        raise Unsupported("how all requests ended is read over Kafka: Client(Kafka(...)).ends()")

    def close(self) -> None:
        """Do nothing: the shell has the connections."""

    async def _asked(
        self, request_id: str, method: str = "GET", more: str = "", *, wait_s: int = 0, left_s: float | None = None
    ) -> Any:
        """Return what the gateway says of a request; it may wait for the end for `wait_s`."""
        from urllib.parse import quote  # takes longer to load than this module

        headers = {**self._key, "prefer": f"wait={wait_s}"} if wait_s else self._key
        limit_s = self._timeout_s if left_s is None else min(self._timeout_s + wait_s, left_s + LATE_S)
        url = f"{self._url}/v1/predictions/{quote(request_id, safe='')}{more}"
        lagging = (404,) if request_id in self.own else ()
        return await self._json(Send(method, url, headers, timeout_s=limit_s), lagging, left_s)

    async def _json(self, send: Send, lagging: Collection[int] = (), left_s: float | None = None) -> Any:
        answer = await self._called(send, lagging, left_s)
        if answer.status not in (200, 201):
            raise self._failure(answer, f"{send.method} {send.url}")
        try:
            return json.loads(answer.body)
        except ValueError:
            raise PochadeError(f"{send.url} answered no JSON: is it Pochade's gateway? {answer.body[:80]!r}") from None

    async def _called(self, send: Send, lagging: Collection[int] = (), left_s: float | None = None) -> Answer:
        """Send until there is an answer that counts. `lagging`: statuses that may be so for LAG_S."""
        begun_s, failures = self._clock_s(), 0
        until_s = begun_s + min(self._retry_s, self._retry_s if left_s is None else left_s)
        while True:
            answer = await self._network.send(send)
            failures += 1
            may_lag = self._clock_s() < begun_s + LAG_S
            if answer.status not in (*REPEATED, *(lagging if may_lag else ())):
                return answer
            wait_s = self._wait_s(answer, failures, until_s, lagging)
            if wait_s is None:
                raise self._failure(answer, f"{send.method} {send.url}")
            await self._network.pause(wait_s)

    def _wait_s(self, answer: Answer, failures: int, until_s: float, also: Collection[int]) -> float | None:
        """Return the seconds until a call is repeated; None if it is not, or its time would be over."""
        is_final = answer.status == 500 and answer.headers.get("x-should-retry") == "false"
        if is_final or answer.status not in (*REPEATED, *also):
            return None
        backoff_s = min(MAX_BACKOFF_S, 0.25 * 2.0 ** min(failures, 10)) * (1 - self._dice() / 4)
        stated_s = retry_after_s(answer.headers)
        wait_s = backoff_s if stated_s is None else max(0.0, stated_s)
        return wait_s if self._clock_s() + wait_s <= until_s else None

    def _failure(self, answer: Answer, what: str) -> PochadeError:
        if not answer.status:
            return Unavailable(f"{what} got no answer though it was repeated: {answer.body.decode()}")
        try:
            error = json.loads(answer.body)["error"]
            message, code, param = str(error["message"]), str(error.get("code") or ""), error.get("param")
        except (ValueError, KeyError, TypeError):
            message, code, param = f"{what}: HTTP {answer.status} {answer.body[:120]!r}", "", None
        if answer.status in REPEATED:
            return Unavailable(message, retry_after_s(answer.headers))
        kind = NotFound if code == "not-found" else Refused
        option = "model" if param == "version" else param and param.removeprefix("input.")
        return kind(answer.status, message, code, option)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds after which an answer asks for a repetition; None if it does not."""
    for name, of in (("retry-after-ms", 1000), ("retry-after", 1)):
        with contextlib.suppress(KeyError, ValueError):
            return float(headers[name]) / of
    with contextlib.suppress(KeyError, ValueError, TypeError):
        from email.utils import parsedate_to_datetime

        return parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time()
    return None


def _form_value(value: Any) -> str | list[str]:
    """Return a field as a form has it: a list is a field for each of its items."""
    if isinstance(value, (list, tuple)):
        return [str(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _end_of(shown: Mapping[str, Any]) -> End | None:
    if shown["status"] in ("starting", "processing"):
        return None
    known = shown["pochade"]
    if "status" not in known:
        raise PochadeError("this gateway is of a release whose answers do not state how a request ended: upgrade it")
    return end_in(known["status"], known, shown["id"], shown["output"] or ())


def _event(line: str, position: str) -> Event:
    """Return the event of a line such as `started level=light stage=0`."""
    kind, *words = line.split(" ")
    return Event(kind, dict(word.partition("=")[::2] for word in words if "=" in word), position)
