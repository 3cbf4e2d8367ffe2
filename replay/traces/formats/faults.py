"""Faults of lines: an error that names the line, or, where the reader is lenient, a count of skipped lines."""

from collections import Counter

from replay.traces.trace import InvalidTrace
from schemas.errors import PochadeError

QUOTED = 80  # characters of bad input that a message quotes


class Faults:
    """Lines of one source that were skipped, by kind."""

    def __init__(self, source: str, *, is_lenient: bool, error: type[PochadeError] = InvalidTrace) -> None:
        self.source, self._is_lenient, self._error = source, is_lenient, error
        self.skipped: Counter[str] = Counter()

    def found(self, where: int | str, kind: str, message: str) -> None:
        """A fault of one line: it is counted and the caller goes on, or it ends the reading. Raises: `error`."""
        if not self._is_lenient:
            raise self._error(f"{self.source}:{where}: {message}")
        self.skipped[kind] += 1

    def describe(self) -> str:
        """`, 3 lines skipped: 2 falling, 1 not a number`; nothing where nothing was."""
        if not self.skipped:
            return ""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.skipped.most_common())
        return f", {self.skipped.total()} skipped: {kinds}"


def quoted(text: str) -> str:
    """Quote a text for a message."""
    return repr(text[:QUOTED])
