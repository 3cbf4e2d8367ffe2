"""Sends dead letters again, at a rate, one for each request; tells of each letter what became of it."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from schemas.record import Outgoing
from streams.operator.dead_letters import Letter, NothingToDo, NotRedrivable, again


def redriven(
    letters: Iterable[Letter], ended: Mapping[str, str], send: Callable[[Outgoing], object] | None, rate: float
) -> Iterator[dict[str, Any]]:
    """A row a letter: where it went, or why not. `send` None: nothing is sent. `rate` is in records a second."""
    sent: set[tuple[str, bytes | None]] = set()
    begun_s = time.monotonic()
    for number, letter in enumerate(letters):
        try:
            record = again(letter, ended)
            if (record.topic, record.key) in sent and letter.request_id in ended:
                raise NothingToDo("the same request as a letter before")
        except (NotRedrivable, NothingToDo) as reason:
            is_refused = isinstance(reason, NotRedrivable)
            yield {"position": letter.position, "sent": False, "to": None, "reason": str(reason), "refused": is_refused}
            continue
        sent.add((record.topic, record.key))
        if send is not None:
            threading.Event().wait(max(0.0, begun_s + number / rate - time.monotonic()))
            send(record)
        key = (record.key or b"").decode(errors="replace")
        yield {"position": letter.position, "sent": send is not None, "to": record.topic, "request_id": key}
