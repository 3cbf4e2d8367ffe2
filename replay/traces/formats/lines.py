"""The lines of a text file, plain or gzip whatever its name, one at a time: a file may be larger than memory."""

import contextlib
import gzip
import pathlib
import zlib
from collections.abc import Iterator
from typing import Final, Protocol

from replay.traces.formats.faults import Faults
from schemas.errors import PochadeError

GZIP_MAGIC: Final = b"\x1f\x8b"
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
LONGEST: Final = 1 << 20  # bytes of a line; a record on `prompts` may be no larger
BROKEN = (OSError, EOFError, zlib.error)


class Stream(Protocol):
    """Port of a stream that lines are read from."""

    def readline(self, size: int, /) -> bytes:
        """Up to the end of the line, or `size` bytes."""


class Lines(Iterator[str]):
    """Iterates over lines with their line ends; `number` is that of the last line returned, from 1."""

    def __init__(self, stream: Stream, faults: Faults) -> None:
        self._stream, self._faults = stream, faults
        self._held: list[str] = []
        self._read = self.number = 0

    def __next__(self) -> str:
        line = self._held.pop() if self._held else self._next()
        self.number = self._read
        return line

    def peek(self) -> str:
        """The first line that is not blank, which stays the next one; "" where there is none."""
        for line in self:
            if line.strip():
                self._held.append(line)
                self.number = self._read - 1
                return line
        return ""

    def _next(self) -> str:
        while raw := self._raw():
            self._read += 1
            if len(raw) > LONGEST:
                self._finish_line(raw)
                self._faults.found(self._read, "too long", f"a line has at most {LONGEST} bytes: break it up")
                continue
            try:
                return (raw.removeprefix(BYTE_ORDER_MARK) if self._read == 1 else raw).decode()
            except UnicodeDecodeError as error:
                self._faults.found(self._read, "not UTF-8", f"not UTF-8 text: {error.reason} at byte {error.start}")
        raise StopIteration

    def _raw(self) -> bytes:
        try:
            return self._stream.readline(LONGEST + 1)
        except BROKEN as error:
            message = f"cannot be read on, plain or gzip: {error}; is it whole?"
            self._faults.found(self._read + 1, "unreadable rest", message)
            return b""

    def _finish_line(self, part: bytes) -> None:
        while part and not part.endswith(b"\n"):
            part = self._raw()


@contextlib.contextmanager
def open_lines(path: pathlib.Path, faults: Faults, error: type[PochadeError], what: str) -> Iterator[Lines]:
    """Open the lines of a file, or for - of standard input; `what` names what it should hold.

    Raises: `error`, also for lines that are no text.
    """
    try:
        file = open(0 if str(path) == "-" else path, "rb", closefd=str(path) != "-")  # noqa: SIM115
        is_packed = file.peek(2)[:2] == GZIP_MAGIC
    except FileNotFoundError:
        raise error(f"no file at {path}: give {what}") from None
    except (OSError, ValueError) as fault:  # ValueError: a name with a NUL
        raise error(f"{path} cannot be read: {fault}; give {what}") from None
    with file:
        yield Lines(gzip.GzipFile(fileobj=file) if is_packed else file, faults)
