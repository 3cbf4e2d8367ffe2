"""Published CSV texts line by line; what is wrong is told with file and line."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.errors import PochadeError


class InvalidPublished(PochadeError):
    """A published file that does not hold what it should; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line below the header."""

    where: str  # FILE:LINE
    cells: Mapping[str, str]

    def number(self, column: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A cell as a finite number in [low, high]. Raises InvalidPublished."""
        return number(self.cells[column], f"{self.where}: {column}", low, high)

    def whole(self, column: str, low: int = 0) -> int:
        """A cell as a whole number of at least `low`. Raises InvalidPublished."""
        value = self.number(column, low)
        if value != int(value):
            raise InvalidPublished(f"{self.where}: {column} must be a whole number: got {self.cells[column]!r}")
        return int(value)


def lines(text: str, file: str, columns: Sequence[str]) -> Iterator[Line]:
    """The lines of a CSV text that has at least these columns, blank ones left out.

    Raises InvalidPublished: no header, a missing column, a line of another length, no line at all.
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    header = next(reader, [])
    missing = [column for column in columns if column not in header]
    if missing:
        raise InvalidPublished(f"{file}:1: no column {', '.join(missing)}: got {', '.join(header) or 'nothing'}")
    found = False
    for cells in reader:
        where = f"{file}:{reader.line_num}"
        if not any(cells):
            continue
        if len(cells) != len(header):
            raise InvalidPublished(f"{where}: {len(header)} columns are needed: got {len(cells)}")
        found = True
        yield Line(where, dict(zip(header, cells, strict=True)))
    if not found:
        raise InvalidPublished(f"{file} has a header and no line below it")


def number(text: str, where: str, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number in [low, high]. Raises InvalidPublished."""
    try:
        value = float(text)
    except ValueError:
        raise InvalidPublished(f"{where} must be a number: got {text[:80]!r}") from None
    if not (math.isfinite(value) and low <= value <= high):
        raise InvalidPublished(f"{where} must be a finite number in [{low:g}, {high:g}]: got {text[:80]}")
    return value


def grouped(values: Sequence[float], size: int, file: str) -> tuple[tuple[float, ...], ...]:
    """Values by prompt: row `size` i + j is image j of prompt i. Raises InvalidPublished for a rest."""
    if not values or len(values) % size:
        told = f"a multiple of {size} rows above 0, images of one prompt together"
        raise InvalidPublished(f"{file} must have {told}: got {len(values)}")
    return tuple(tuple(values[at : at + size]) for at in range(0, len(values), size))
