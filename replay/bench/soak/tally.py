"""Which requests of a run were sent, acknowledged and answered: by number, not by id."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from replay.bench.soak.numbers import Numbers

MAX_NAMED = 20  # lost and doubled requests that a report names
BLOCK = 1000  # numbers that are reserved in the state before one of them is sent


@dataclass(slots=True)
class Tally:
    """The counts of a run, over all its sessions.

    A number below `reserved` may have been sent. A request that was not known to be acknowledged when a session ended
    is sent again by the next one, under the same id: the pipeline serves an id once.
    """

    name: str  # of the run: ids begin with it
    accepted: Numbers = field(default_factory=Numbers)  # the broker has acknowledged these
    ended: Numbers = field(default_factory=Numbers)  # these have a result
    reserved: int = 0
    repeated: int = 0  # sent again, after an interruption or a refusal
    duplicates: int = 0  # results beyond the first of a request
    doubled: list[int] = field(default_factory=list)  # the first of these
    ends: Counter[str] = field(default_factory=Counter)  # status -> requests
    sent: int = 0  # numbers below it have been sent, but for those in `again`
    again: deque[int] = field(default_factory=deque)  # to be sent again
    is_open: set[int] = field(default_factory=set)  # sent in this session, or acknowledged before, without a result

    @classmethod
    def resumed(cls, kept: dict[str, Any]) -> "Tally":
        """Return the tally that an earlier session kept."""
        tally = cls(
            name=kept["name"], accepted=Numbers(kept["accepted"]), ended=Numbers(kept["ended"]),
            reserved=kept["reserved"], repeated=kept["repeated"], duplicates=kept["duplicates"],
            doubled=kept["doubled"], ends=Counter(kept["ends"]), sent=kept["reserved"],
        )  # fmt: skip
        unknown = (n for n in range(tally.reserved) if n not in tally.ended and n not in tally.accepted)
        tally.again.extend(unknown)
        tally.is_open.update(tally.accepted.but(tally.ended))
        return tally

    def kept(self) -> dict[str, Any]:
        """Return what `resumed` needs."""
        return {
            "name": self.name, "accepted": self.accepted.packed(), "ended": self.ended.packed(),
            "reserved": self.reserved, "repeated": self.repeated, "duplicates": self.duplicates,
            "doubled": self.doubled, "ends": dict(self.ends),
        }  # fmt: skip

    def id_of(self, number: int) -> str:
        """Return the id of a request."""
        return f"{self.name}-{number:08d}"

    def number_of(self, key: bytes) -> int | None:
        """Return the number of a request by its record's key; None if it is no request of this run."""
        start, _, digits = key.rpartition(b"-")
        return int(digits) if start == self.name.encode() and digits.isdigit() else None

    def next(self, most: int) -> int | None:
        """Return the number to send now; None if all below `most` were sent, or the next must be reserved first."""
        if self.again:
            self.repeated += 1
            return self.again.popleft()
        if self.sent >= min(most, self.reserved):
            return None
        self.sent += 1
        return self.sent - 1

    def needs_reserve(self, most: int) -> bool:
        """Whether the next number must be reserved before it is sent."""
        return not self.again and self.reserved <= self.sent < most

    def reserve(self, most: int) -> None:
        """Reserve the next numbers; they may be sent once this is kept."""
        self.reserved = min(most, self.reserved + BLOCK)

    def acknowledged(self, number: int) -> None:
        """Note that the broker has a request."""
        self.accepted.add(number)

    def refused(self, number: int) -> None:
        """Note that the broker may not have a request: it is sent again."""
        if number not in self.ended:
            self.again.append(number)

    def has_ended(self, number: int, status: str) -> None:
        """Count a result."""
        if self.ended.add(number):
            self.ends[status] += 1
            self.is_open.discard(number)
            return
        self.duplicates += 1
        if len(self.doubled) < MAX_NAMED:
            self.doubled.append(number)

    def lost(self) -> list[int]:
        """Return the numbers that were acknowledged and have no result."""
        return list(self.accepted.but(self.ended))
