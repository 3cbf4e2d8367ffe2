"""A Faust stream of events that a test wrote, as the host meets it."""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from types import SimpleNamespace

from schemas.topics import PROMPTS

Pairs = list[tuple[str, bytes | None]]  # headers as aiokafka hands them over; Faust makes a dict of them


class Event:
    """One record, and whether it was acked."""

    def __init__(
        self,
        offset: int,
        value: bytes | None,
        headers: Mapping[str, bytes] | Pairs | None = None,
        *,
        key: bytes | None = b"k",
        timestamp_s: float = 1.001,
    ) -> None:
        self.is_acked = False
        self.message = SimpleNamespace(
            topic=f"pochade.{PROMPTS}", partition=0, offset=offset, timestamp=timestamp_s, key=key, value=value,
            headers=headers,
        )  # fmt: skip

    def ack(self) -> None:
        self.is_acked = True


class Stream:
    """The events in order, then the end."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._fetched = deque(events)
        self.channel = SimpleNamespace(queue=SimpleNamespace(_queue=self._fetched))  # as Faust has what is to come

    def noack(self) -> "Stream":
        return self

    async def events(self) -> AsyncIterator[Event]:
        while self._fetched:
            yield self._fetched.popleft()
