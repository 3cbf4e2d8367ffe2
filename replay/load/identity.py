"""The ids of a replay's requests: a function of the trace, the run's name and the request's number.

So the topics themselves show what was published, and a resumed run publishes nothing a second time.
"""

import hashlib
import re
from functools import cached_property

from replay.traces.trace import Trace
from schemas.errors import PochadeError

DIGITS = 16  # of the trace's digest, 64 bit
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # also part of a topic's name


def digest(trace: Trace) -> str:
    """Digest of all that is asked for and when; where a trace came from, and the order of its tables, do not matter."""
    assert trace.has_prompts, "a trace without prompts cannot be published"
    found = hashlib.sha256()
    for column in (trace.arrival_ms, trace.slack_ms, trace.seed):
        found.update(column.tobytes())
    texts, wishes = trace.texts, [repr(wish).encode() for wish in trace.wishes]
    for prompt, wish in zip(trace.prompt.tolist(), trace.wish.tolist(), strict=True):
        found.update(texts[prompt].encode() + b"\0" + wishes[wish])
    return found.hexdigest()[:DIGITS]


class Ids:
    """Request ids of one run of one trace."""

    def __init__(self, name: str, trace_digest: str, count: int) -> None:
        if not NAME.fullmatch(name):
            raise PochadeError(f"--name must be letters, digits, '.', '_' and '-', at most 64: got {name!r}")
        self.start, self.count = f"{name}-{trace_digest}-", count

    def __getitem__(self, number: int) -> str:
        """Id of request `number`, from 0."""
        return f"{self.start}{number:07d}"

    def number(self, request_id: str) -> int | None:
        """Return the request's number; None if the id is not of this run."""
        tail = request_id.removeprefix(self.start)
        if tail == request_id or not tail.isdecimal():
            return None
        number = int(tail)
        return number if number < self.count and self[number] == request_id else None

    @cached_property
    def all(self) -> list[str]:
        """Return all ids, in the order of the trace."""
        return [self[number] for number in range(self.count)]
