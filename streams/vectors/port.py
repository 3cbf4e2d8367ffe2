"""The vector store: rows that name latents which may be reused, found by the nearest vector.

A store may be behind: what was just written may not be found yet, and what was just deleted may still be. No rule may
depend on either. `checking.py` judges again whatever a store returns; whether a latent can be reused is decided by the
object store, which has it or not.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from schemas.errors import PochadeError

ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
MAX_DIMENSION = 4096  # of a vector; prompts' encoders have 64 to 1024
MAX_MATCHES = 100  # of one search


class VectorsUnavailable(PochadeError):
    """The store is away, too slow, or does not let us in: go on without it, and ask again later."""


class WrongCollection(PochadeError):
    """The collection is not there, or holds vectors of another dimension: asking again does not help."""


class UnusableRow(PochadeError):
    """A row that no store could return as it was given: its id, its vector, its times, or its size in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """The object that a row stands for; without it the row is useless."""

    uri: str  # of the object store
    sha256: str  # of its bytes, hexadecimal
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The origin of a latent, with the facts that a guard needs."""

    request_id: str
    image_uri: str  # the image that was made of the latent
    prompt: str
    facts: str = ""  # the prompt's parsed facts in one canonical text; "": it could not be parsed
    score: float = 0.0  # confidence that the image shows what the prompt asks for, 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow:
    """One entry: a prompt's vector, who may reuse the latent, for what, and for how long.

    Raises UnusableRow: an id, a vector, a size or times that cannot be searched by.
    """

    id: str  # as `row_id` makes it: an id that two tenants shared would let one replace the other's row
    vector: tuple[float, ...]  # stored with the precision of float32
    tenant: str  # whatever a producer wrote; rows of other tenants are never returned
    model: str  # digest of what generated the latent and could go on from it
    width: int  # of the image, pixels
    height: int
    created_ms: int  # epoch ms
    expires_ms: int  # epoch ms; from then on the row is not returned
    latent: Latent
    source: Source

    def __post_init__(self) -> None:
        if ID.fullmatch(self.id) is None:
            raise UnusableRow(f"the id of a row has 1 to 128 of the characters a-z A-Z 0-9 . _ -: got {self.id!r:.200}")
        if reason := why_no_vector(self.vector):
            raise UnusableRow(f"row {self.id}: {reason}")
        if self.width < 1 or self.height < 1:
            raise UnusableRow(f"row {self.id}: {self.width}x{self.height} is no size of an image")
        if not 0 <= self.created_ms < self.expires_ms < 2**63:
            raise UnusableRow(f"row {self.id} must expire after it is created: {self.created_ms}, {self.expires_ms}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A job's conditions on a row, besides its vector."""

    tenant: str
    model: str
    width: int
    height: int
    now_ms: int  # epoch ms; what expires then or earlier is not wanted


class Match(NamedTuple):
    """A row, and the cosine between its vector and the one searched for, -1 to 1."""

    row: VectorRow
    similarity: float


class Dropped(StrEnum):
    """Why something that a store returned is not used."""

    TENANT = "tenant"
    MODEL = "model"
    SIZE = "size"
    EXPIRED = "expired"
    DIMENSION = "dimension"
    DAMAGED = "damaged"  # cannot be read, or its numbers are not finite


@dataclass(frozen=True, slots=True)
class Nearest:
    """The answer to a search: matches by falling similarity, and how many rows were dropped for which reason."""

    matches: tuple[Match, ...]
    dropped: Mapping[Dropped, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Rows to delete: those for which everything holds that is given here. Nothing given: all rows."""

    ids: tuple[str, ...] | None = None
    tenant: str | None = None
    model: str | None = None
    expired_ms: int | None = None  # rows that expire at this moment or earlier
    created_before_ms: int | None = None

    def __post_init__(self) -> None:
        if unusable := [each for each in self.ids or () if ID.fullmatch(each) is None]:
            raise UnusableRow(f"no row has the id {unusable[0]!r:.200}")

    def holds(self, row: VectorRow) -> bool:
        """Whether a row is selected."""
        return (
            (self.ids is None or row.id in self.ids)
            and (self.tenant is None or row.tenant == self.tenant)
            and (self.model is None or row.model == self.model)
            and (self.expired_ms is None or row.expires_ms <= self.expired_ms)
            and (self.created_before_ms is None or row.created_ms < self.created_before_ms)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """A store's description of itself. Both fields are None before the first `ensure`."""

    rows: int | None  # roughly: rows just written or deleted may not be counted yet
    dimension: int | None


class VectorStore(Protocol):
    """One collection of rows; any thread may ask.

    Each method returns, or raises VectorsUnavailable, within its `timeout_s`, whatever the store does. WrongCollection
    is raised where the collection is not there or has another dimension, and UnusableRow by `upsert`.
    """

    def ensure(self, dimension: int, timeout_s: float) -> None:
        """Create the collection for vectors of this dimension, and make it searchable. Repeating it changes nothing."""

    def upsert(self, rows: Sequence[VectorRow], timeout_s: float) -> None:
        """Write rows; one with an id that is there replaces it. They are found soon, not at once.

        After an error some of them may have been written, and all may be written again.
        """

    def nearest(self, vector: Sequence[float], wanted: Wanted, limit: int, timeout_s: float) -> Nearest:
        """Find the rows nearest to a vector among those that are wanted, at most `limit` and MAX_MATCHES."""

    def latents(self, ids: Sequence[str], timeout_s: float) -> dict[str, Latent]:
        """Return what the rows with these ids name, by id, as far as they are there and whole; expired ones too."""

    def delete(self, selection: Selection, timeout_s: float) -> None:
        """Remove the selected rows. They stay away soon, not at once."""

    def probe(self, timeout_s: float) -> Probed:
        """Search once, as a job would; what is asked for the first time may take longer than a job's search."""

    def close(self) -> None:
        """Give back connections and files; further calls raise VectorsUnavailable or open them again."""


def row_id(tenant: str, content: str) -> str:
    """The id of a tenant's entry for some content, such as the hash of an image: writing it again changes nothing."""
    return hashlib.sha256(f"{tenant}\0{content}".encode("utf-8", "surrogatepass")).hexdigest()


def why_no_vector(vector: Sequence[float]) -> str:
    """Say why nothing is near to a vector: numbers that are not finite, no direction, no or too many dimensions."""
    if not 1 <= len(vector) <= MAX_DIMENSION:
        return f"a vector has 1 to {MAX_DIMENSION} dimensions, got {len(vector)}"
    length = math.hypot(*vector)
    if not math.isfinite(length) or not 1e-6 < length < 1e6:
        return f"a vector must be finite and have a length between 1e-6 and 1e6, got {length:g}"
    return ""


def check_dimension(vector: Sequence[float], dimension: int, where: str) -> None:
    """Raises WrongCollection: a vector of another dimension than a collection's."""
    if len(vector) != dimension:
        raise WrongCollection(f"{where} holds vectors of {dimension} dimensions, got one of {len(vector)}")
