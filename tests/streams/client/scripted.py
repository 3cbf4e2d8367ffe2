"""Drives a transport without a socket: answers follow a script, and pauses move the only clock that there is."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from pochade import Gateway
from pochade.network import Answer, Network, Send, iterated, run

Step = Answer | Callable[[Send], Answer]
DEAF = Answer(0, {}, b"no answer")


def answer(body: Any = None, status: int = 200, **headers: str) -> Answer:
    """An answer in JSON; `retry_after="2"` is the header retry-after."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, json.dumps(body).encode())


def refusal(
    status: int, code: str = "busy", message: str = "not now", param: str | None = None, **headers: str
) -> Answer:
    """An error in the gateway's shape."""
    return answer({"error": {"message": message, "code": code, "param": param}}, status, **headers)


def shown(request_id: str = "r-1", word: str = "starting", **pochade: Any) -> dict[str, Any]:
    """What the gateway says of a prediction; ended as COMPLETED with one image if `word` is succeeded."""
    ended = {"status": "COMPLETED", "level": "light", "reason": "", "code": ""} if word == "succeeded" else {}
    output = ["http://gateway/v1/files/one"] if word == "succeeded" else None
    urls = {"stream": f"http://gateway/v1/streams/{request_id}"}
    return {"id": request_id, "status": word, "output": output, "urls": urls, "pochade": {**ended, **pochade}}


class Script(Network):
    """A gateway that answers by a script. What was sent is kept; `now_s` is the clock of the transport."""

    def __init__(self, *steps: Step, taking_s: float = 0.0, **options: Any) -> None:
        """`taking_s`: that each answer takes. `options`: of the transport."""
        self.now_s, self.paused = 0.0, list[float]()
        self.sent, self.streamed = list[Send](), list[Send]()
        self._steps, self._taking_s = list(steps), taking_s
        gateway = Gateway("http://gateway", clock_s=lambda: self.now_s, dice=lambda: 0.0, **options)
        self.gateway = gateway.over(self)

    def run(self, call: Any) -> Any:
        """Make a call; return its result, or a list of its events."""
        return list(iterated(call)) if isinstance(call, AsyncGenerator) else run(call)

    async def send(self, send: Send) -> Answer:
        return self._answered(send)

    async def stream(self, send: Send) -> AsyncGenerator[Answer | str, None]:
        self.streamed.append(send)
        given = self._answered(send)
        yield given
        for line in given.body.decode().split("\n")[:-1] if given.status == 200 else ():
            yield line

    async def pause(self, seconds: float) -> None:
        self.paused.append(seconds)
        self.now_s += seconds

    def _answered(self, send: Send) -> Answer:
        self.sent.append(send)
        self.now_s += self._taking_s
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]  # the last one is for ever
        return step if isinstance(step, Answer) else step(send)


def stream(*events: tuple[str, str, str] | str) -> Answer:
    """A stream of (id, name, data), or of comments; it is cut behind them."""
    form = "id: {}\nevent: {}\ndata: {}\n\n"
    blocks = [f": {each}\n\n" if isinstance(each, str) else form.format(*each) for each in events]
    return Answer(200, {}, "".join(blocks).encode())


def bodies(sent: Sequence[Send]) -> list[Mapping[str, Any]]:
    """The JSON bodies of what was sent."""
    return [json.loads(each.content or b"{}") for each in sent]
