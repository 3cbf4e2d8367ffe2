"""The rows of a CSV file: quoted fields, CRLF and byte order marks are read; a row of another width is a fault."""

import csv
from collections.abc import Iterator
from typing import NamedTuple

from replay.traces.formats.faults import Faults, quoted
from replay.traces.formats.lines import Lines

Fields = list[str]


class Table(NamedTuple):
    """A header and what is below it."""

    columns: tuple[str, ...]  # lower case
    line: int  # of the header
    rows: Iterator[tuple[int, dict[str, str]]]  # line, column -> text without blanks around it


def table(lines: Lines, faults: Faults) -> Table:
    """A CSV file; its header must be the first line that is not blank, and may leave a column unnamed.

    Cells are separated by the first of comma, semicolon and tab that the header has.
    """
    first = lines.peek()
    separator = next((each for each in ",;\t" if each in first), ",")
    rows = _rows(lines, faults, separator)
    line, header = next(rows, (1, []))
    columns = tuple(name.lower() for name in header)
    return Table(columns, line, _named(rows, columns, faults))


def _named(
    rows: Iterator[tuple[int, Fields]], columns: tuple[str, ...], faults: Faults
) -> Iterator[tuple[int, dict[str, str]]]:
    for number, fields in rows:
        if len(fields) == len(columns):
            yield number, dict(zip(columns, fields, strict=True))
        else:
            message = f"expected {len(columns)} fields ({','.join(columns)}), got {len(fields)}: "
            faults.found(number, "wrong fields", message + quoted(",".join(fields)))


def _rows(lines: Lines, faults: Faults, separator: str) -> Iterator[tuple[int, Fields]]:
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        first = lines.number + 1
        try:
            fields = [field.strip() for field in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            faults.found(first, "not CSV", f"not a row of CSV: {error}")
            continue
        if any(fields):
            yield first, fields
