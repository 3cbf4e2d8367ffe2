"""Lines of a log, such as a web server's: a regular expression says which part of a line is the time, or the prompt."""

import re
from collections.abc import Iterator
from typing import Final

from replay.traces.formats.arrivals_csv import COLUMNS, TIME
from replay.traces.formats.csv_rows import Table
from replay.traces.formats.faults import Faults, quoted
from replay.traces.formats.lines import Lines
from schemas.errors import PochadeError, Unknown
from schemas.vocabulary import ALIASES

ACCESS: Final = re.compile(r'\S+ \S+ \S+ \[(?P<time>[^\]]+)\] "(?:[^"\\]|\\.)*"')
"""The common log format of web servers, and the combined one. Source: Apache HTTP Server, "Log Files"."""
ACCESS_TIME: Final = "%d/%b/%Y:%H:%M:%S %z"


def pattern_of(text: str) -> re.Pattern[str]:
    """Compile the expression that finds a line's parts. Raises PochadeError: it is none, or has no group `time`."""
    try:
        found = re.compile(text)
    except re.error as error:
        raise PochadeError(f"--line-pattern is no regular expression: {error}: got {quoted(text)}") from None
    if TIME not in found.groupindex:
        raise PochadeError(f"--line-pattern needs a group (?P<{TIME}>...), and may have (?P<prompt>...): got {text}")
    if unknown := sorted(found.groupindex.keys() - {*COLUMNS}):
        raise Unknown("group of --line-pattern", unknown[0], COLUMNS, ALIASES)
    return found


def matched(lines: Lines, faults: Faults, pattern: re.Pattern[str]) -> Table:
    """Return the groups of each line as a table; a line in which the pattern is not found is a fault."""

    def rows() -> Iterator[tuple[int, dict[str, str]]]:
        for line in lines:
            if found := pattern.search(line):
                yield lines.number, {name: (text or "").strip() for name, text in found.groupdict().items()}
            elif line.strip():
                faults.found(lines.number, "another line", f"the pattern of lines is not found: {quoted(line)}")

    return Table(tuple(pattern.groupindex), 1, rows())
