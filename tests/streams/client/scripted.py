"""Drives a transport without a socket: answers follow a script, and pauses move the only clock that there is."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pochade import Event, Gateway
from pochade.exchange import Answer, Lost, NextLine, Pause, Send

Step = Answer | Lost | Callable[[Send], Answer | Lost]
DEAF = Lost("no answer")


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


class Script:
    """A gateway that answers by a script. What was sent is kept; `now_s` is the clock of the transport."""

    def __init__(self, *steps: Step, taking_s: float = 0.0, **options: Any) -> None:
        """`taking_s`: that each answer takes. `options`: of the transport."""
        self.now_s, self.sent, self.paused = 0.0, list[Send](), list[float]()
        self._steps, self._taking_s = list(steps), taking_s
        self.gateway = Gateway("http://gateway", clock_s=lambda: self.now_s, dice=lambda: 0.0, **options)

    def run(self, exchange: Any) -> Any:
        """Carry out an exchange; return its result, or a list of its events if it has some."""
        events = list(self.events(exchange))
        return events or self._result

    def events(self, exchange: Any) -> Iterator[Event]:
        """Carry out an exchange of events."""
        lines: Iterator[str] = iter(())
        given: Any = None
        while True:
            try:
                effect = exchange.send(given)
            except StopIteration as stop:
                self._result = stop.value
                return
            given = None
            if isinstance(effect, Event):
                yield effect
            elif isinstance(effect, NextLine):
                given = next(lines, None)
            elif isinstance(effect, Pause):
                self.paused.append(effect.seconds)
                self.now_s += effect.seconds
            else:
                given = self._answered(effect)
                if effect.is_streamed and isinstance(given, Answer):
                    lines = iter(given.body.decode().split("\n"))

    def _answered(self, send: Send) -> Answer | Lost:
        self.sent.append(send)
        self.now_s += self._taking_s
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]  # the last one is for ever
        return step if isinstance(step, (Answer, Lost)) else step(send)


def stream(*events: tuple[str, str, str] | str) -> Answer:
    """A stream of (id, name, data), or of comments; it is cut behind them."""
    form = "id: {}\nevent: {}\ndata: {}\n\n"
    blocks = [f": {each}\n\n" if isinstance(each, str) else form.format(*each) for each in events]
    return Answer(200, {}, "".join(blocks).encode())


def bodies(sent: Sequence[Send]) -> list[Mapping[str, Any]]:
    """The JSON bodies of what was sent."""
    return [json.loads(each.content or b"{}") for each in sent]
