"""A record as it is read from a topic and as it is to be written: the edge type of every role."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Headers = Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A record that was read. `topic` has no prefix; `value` None is a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to write. `topic` has no prefix; `partition` None: by the key's hash."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = field(default_factory=dict)
    partition: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The partition and offset of a written record."""

    partition: int
    offset: int
