"""A trace: timed requests in order of arrival, as columns. What the simulator runs and the live driver publishes."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from schemas.errors import PochadeError
from schemas.ids import seed_of
from schemas.messages import GenerateOptions, GenerateRequest

MAX_SPAN_MS: Final = (
    400 * 24 * 3_600_000.0
)  # a trace lasts no longer: what is later is an epoch time or a slip of the pen
MAX_REQUESTS: Final = 20_000_000  # about 1 GB of columns
NOT_GIVEN: Final = -1  # in `prompt` and `seed`
_PLAIN: Final = GenerateRequest(request_id="", prompt="", created_ms=0)


class InvalidTrace(PochadeError):
    """A trace that cannot be replayed; the message names file and line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """A request's fields beside its prompt; few differ, so that a trace keeps each once."""

    options: GenerateOptions = _PLAIN.options
    tier: str = _PLAIN.tier
    quality: str = _PLAIN.quality
    tenant: str = _PLAIN.tenant


class Row(NamedTuple):
    """One timed request of a trace."""

    arrival_ms: float  # since the start of the trace
    prompt: str | None = None  # None: none is known
    prompt_index: int | None = None  # of its prompt, in the trace's own texts or in a file that is given beside it
    wish: Overrides = Overrides()
    slack_ms: float | None = None  # from arrival to deadline; None: no deadline
    seed: int | None = None  # of the noise; None: derived from the request's id
    request_id: str = ""  # that it had when it was recorded; "": none is known
    hardness: float | None = None  # [0, 1]; None: not known


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """A trace of n timed requests. Every array has one entry per request."""

    name: str
    source: str  # the file, the topic with its window, or the generator with its parameters
    arrival_ms: np.ndarray  # float64 [n], since the start, never falling
    texts: Sequence[str] = ()  # prompts that occur, each once
    prompt: np.ndarray  # int64 [n]: row of `texts`; where there are none, of a prompt file; NOT_GIVEN: no prompt known
    wishes: Sequence[Overrides] = (Overrides(),)  # that occur
    wish: np.ndarray  # int32 [n]: row of `wishes`
    slack_ms: np.ndarray  # float64 [n]; nan: no deadline
    seed: np.ndarray  # int64 [n]; NOT_GIVEN: not given
    hardness: np.ndarray  # float64 [n]; nan: not known
    ids: Sequence[str] = ()  # [n], as recorded; or none
    skipped: Mapping[str, int] = field(default_factory=dict)  # what was left out, by kind
    spread_within: str = (
        ""  # unit of the recorded times, within which arrivals were drawn (`ticks.py`); "": as recorded
    )

    def __post_init__(self) -> None:
        columns = (self.prompt, self.wish, self.slack_ms, self.seed, self.hardness)
        assert all(len(column) == len(self.arrival_ms) for column in columns), "columns of a trace differ in length"
        assert len(self.ids) in (0, len(self.arrival_ms)), f"{len(self.ids)} ids for {len(self.arrival_ms)} requests"
        assert bool((np.diff(self.arrival_ms) >= 0).all()), "arrivals must not fall"

    def __len__(self) -> int:
        return len(self.arrival_ms)

    @property
    def span_ms(self) -> float:
        """Time from the first arrival to the last, in ms."""
        return float(self.arrival_ms[-1] - self.arrival_ms[0]) if len(self) else 0.0

    @property
    def lacks_prompt(self) -> np.ndarray:
        """Whether the text of each request is unknown, bool [n]."""
        return np.asarray((self.prompt == NOT_GIVEN) | (not len(self.texts)))

    @property
    def has_prompts(self) -> bool:
        """Whether every request has its text."""
        return not self.lacks_prompt.any()

    def row(self, number: int) -> Row:
        """Return one request by its number."""
        index, slack, hardness = int(self.prompt[number]), self.slack_ms[number], self.hardness[number]
        return Row(
            arrival_ms=float(self.arrival_ms[number]),
            prompt=self.texts[index] if index != NOT_GIVEN and len(self.texts) else None,
            prompt_index=None if index == NOT_GIVEN else index,
            wish=self.wishes[int(self.wish[number])],
            slack_ms=None if np.isnan(slack) else float(slack),
            seed=None if self.seed[number] == NOT_GIVEN else int(self.seed[number]),
            request_id=self.ids[number] if len(self.ids) else "",
            hardness=None if np.isnan(hardness) else float(hardness),
        )

    def rows(self) -> Iterator[Row]:
        """Return an iterator over all requests, each built as it is asked for."""
        return (self.row(number) for number in range(len(self)))

    def take(self, rows: np.ndarray, arrival_ms: np.ndarray | None = None) -> "Trace":
        """The requests of these rows in this order, at these times where given; ids that repeat get a number behind."""
        ids = _apart([self.ids[row] for row in rows.tolist()]) if len(self.ids) else ()
        return dataclasses.replace(
            self,
            arrival_ms=self.arrival_ms[rows] if arrival_ms is None else arrival_ms,
            prompt=self.prompt[rows],
            wish=self.wish[rows],
            slack_ms=self.slack_ms[rows],
            seed=self.seed[rows],
            hardness=self.hardness[rows],
            ids=ids,
        )


def of_arrivals(arrival_ms: Sequence[float] | np.ndarray, name: str, source: str) -> Trace:
    """A trace of which only the times are known; they must rise."""
    n = len(arrival_ms)
    return Trace(
        name=name,
        source=source,
        arrival_ms=np.asarray(arrival_ms, dtype=np.float64),
        prompt=np.full(n, NOT_GIVEN, dtype=np.int64),
        wish=np.zeros(n, dtype=np.int32),
        slack_ms=np.full(n, np.nan),
        seed=np.full(n, NOT_GIVEN, dtype=np.int64),
        hardness=np.full(n, np.nan),
    )


def request_of(row: Row, request_id: str, created_ms: int) -> GenerateRequest:
    """Return the request that a live replay publishes for a row, with a new id, as an id with a result is dead."""
    assert row.prompt is not None, f"request {request_id} has no prompt: give the trace a prompt file"
    return GenerateRequest(
        request_id=request_id,
        prompt=row.prompt,
        created_ms=created_ms,
        deadline_ms=None if row.slack_ms is None else created_ms + round(row.slack_ms),
        seed=seed_of(request_id) if row.seed is None else row.seed,
        tenant=row.wish.tenant,
        quality=row.wish.quality,
        tier=row.wish.tier,
        options=row.wish.options,
    )


def _apart(ids: Sequence[str]) -> tuple[str, ...]:
    last: dict[str, int] = {}
    used: set[str] = set()
    apart = []
    for name in ids:
        own = name
        while own and own in used:
            last[name] = last.get(name, 1) + 1
            own = f"{name}~{last[name]}"
        used.add(own)
        apart.append(own)
    return tuple(apart)
