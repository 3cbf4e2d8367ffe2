"""`VectorStore` by exact search in memory: the reference in tests, and a setting for one machine.

Processes share one file of lines, which each of them reads on from where it stopped:

    {"dimension": 128}
    {"row": "...", "vector": "BASE64 of float32"}
    {"deleted": ["id", ...]}

Who writes holds the file's lock; who reads needs none, and takes whole lines only. A file with many dead lines is
replaced by a shorter one, which readers notice by its inode.
"""

import base64
import contextlib
import json
import os
import pathlib
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from schemas.errors import PochadeError
from streams.locks import try_lock
from streams.security.private_folder import create_private
from streams.vectors.port import (
    MAX_MATCHES,
    Latent,
    Match,
    Nearest,
    Probed,
    Selection,
    VectorRow,
    VectorsUnavailable,
    Wanted,
    WrongCollection,
    check_dimension,
)
from streams.vectors.row_text import as_row, as_text

POLL_S = 0.01
LINES_BETWEEN_CLOCK_CHECKS = 64  # at the clock, while a file is read
DEAD_LINES = 1000  # that a file may have, beside as many as there are rows

NO_SCOPE = -2

Line = dict[str, Any]
Floats = NDArray[np.float32]
Slots = NDArray[np.intp]


class ExactVectorStore:
    """Compares a vector with every row: 0.1 ms for 10,000 rows of 128 dimensions. Beyond `max_rows` the oldest go."""

    def __init__(self, file: pathlib.Path | None = None, *, max_rows: int = 10_000) -> None:
        """`file`: shared by all processes of a machine; None to keep rows in this object only."""
        self._file = _File(file) if file else None
        self._max_rows = max_rows
        self._lock = threading.Lock()
        self._table: _Table | None = None

    def ensure(self, dimension: int, timeout_s: float) -> None:
        with self._locked(timeout_s, is_writing=True):
            if self._table is None:
                self._write([{"dimension": dimension}])
            elif self._table.dimension != dimension:
                raise WrongCollection(f"{self._where} holds {self._table.dimension} dimensions, not {dimension}")

    def upsert(self, rows: Sequence[VectorRow], timeout_s: float) -> None:
        lines = [{"row": as_text(row), "vector": _as_base64(row.vector)} for row in rows]
        with self._locked(timeout_s, is_writing=True):
            table = self._existing()
            for row in rows:
                check_dimension(row.vector, table.dimension, self._where)
            self._write(lines)
            if excess := table.oldest(len(table) - self._max_rows):
                self._write([{"deleted": excess}])

    def nearest(self, vector: Sequence[float], wanted: Wanted, limit: int, timeout_s: float) -> Nearest:
        with self._locked(timeout_s):
            table = self._existing()
            check_dimension(vector, table.dimension, self._where)
            return Nearest(tuple(table.nearest(vector, wanted, min(limit, MAX_MATCHES))))

    def latents(self, ids: Sequence[str], timeout_s: float) -> dict[str, Latent]:
        with self._locked(timeout_s):
            return {row.id: row.latent for row in self._existing().get(ids)}

    def delete(self, selection: Selection, timeout_s: float) -> None:
        with self._locked(timeout_s, is_writing=True):
            if selected := self._existing().selected(selection):
                self._write([{"deleted": selected}])

    def probe(self, timeout_s: float) -> Probed:
        with self._locked(timeout_s):
            if self._table is None:
                return Probed(rows=None, dimension=None)
            return Probed(rows=len(self._table), dimension=self._table.dimension)

    def close(self) -> None:
        with self._lock:
            if self._file:
                self._file.close()
                self._table = None  # the next call reads the file from its beginning

    @property
    def _where(self) -> str:
        return str(self._file.path) if self._file else "this store"

    def _existing(self) -> "_Table":
        if self._table is None:
            raise WrongCollection(f"{self._where} is no collection yet: ensure it")
        return self._table

    @contextlib.contextmanager
    def _locked(self, timeout_s: float, *, is_writing: bool = False) -> Iterator[None]:
        until_s = time.monotonic() + timeout_s
        if not self._lock.acquire(timeout=timeout_s):
            raise VectorsUnavailable(f"{self._where} was busy for {timeout_s:g} s")
        try:
            with self._file.available(until_s, is_writing) if self._file else contextlib.nullcontext():
                if self._file:
                    self._read_on(self._file, until_s)
                yield
        finally:
            self._lock.release()

    def _read_on(self, file: "_File", until_s: float) -> None:
        if file.is_new():
            self._table = None
        for number, line in enumerate(file.new_lines(), 1):
            self._apply(line)
            if number % LINES_BETWEEN_CLOCK_CHECKS == 0 and time.monotonic() > until_s:
                raise VectorsUnavailable(f"{file.path} has more new rows than can be read in time: later calls go on")

    def _write(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self._apply(line)
        if self._file:
            self._file.append(lines)
            if self._table is not None and self._file.lines > 2 * len(self._table) + DEAD_LINES:
                self._file.replace(self._table.lines())

    def _apply(self, line: Line) -> None:
        with contextlib.suppress(
            PochadeError, KeyError, TypeError, ValueError
        ):  # a line of another release, or damaged
            if self._table is None:
                self._table = _Table(int(line["dimension"]))
            elif "row" in line:
                self._table.put(as_row(line["row"], _from_base64(line["vector"])))
            else:
                self._table.drop(line["deleted"])


class _Table:
    """Rows in slots of arrays, so that neither a write nor a search walks them in Python."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._slots: dict[str, int] = {}  # id -> slot
        self._rows: list[VectorRow | None] = []  # slot -> row; None: free
        self._free: list[int] = []
        self._scopes: dict[tuple[str, str, int, int], int] = {}
        self._units = np.zeros((0, dimension), np.float32)
        self._scope_of = np.zeros(0, np.int64)  # slot -> number of its scope, -1: free
        self._expires_ms = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._slots)

    def put(self, row: VectorRow) -> None:
        check_dimension(row.vector, self.dimension, "this table")
        slot = self._slots.get(row.id)
        if slot is None:
            slot = self._slots[row.id] = self._free.pop() if self._free else self._new_slot()
        unit = np.asarray(row.vector, np.float64)
        self._units[slot] = unit / np.linalg.norm(unit)
        self._scope_of[slot] = self._scopes.setdefault(_scope(row), len(self._scopes))
        self._expires_ms[slot] = row.expires_ms
        self._rows[slot] = row

    def drop(self, ids: Sequence[str]) -> None:
        for each in ids:
            slot = self._slots.pop(each, None)
            if slot is not None:
                self._scope_of[slot], self._rows[slot] = -1, None
                self._free.append(slot)

    def nearest(self, vector: Sequence[float], wanted: Wanted, limit: int) -> Iterator[Match]:
        scope = self._scopes.get(_scope(wanted), NO_SCOPE)
        (slots,) = np.nonzero((self._scope_of == scope) & (self._expires_ms > wanted.now_ms))
        unit = np.asarray(vector, np.float64)
        similarities = self._products(slots, (unit / np.linalg.norm(unit)).astype(np.float32))
        near = np.argpartition(-similarities, limit)[:limit] if limit < len(slots) else np.arange(len(slots))
        for index in near[np.argsort(-similarities[near], kind="stable")]:
            row = self._rows[slots[index]]
            assert row is not None, f"slot {slots[index]} is free and was searched"
            yield Match(row, float(similarities[index]))

    def _products(self, slots: Slots, unit: Floats) -> Floats:
        """The products with some rows; where most are wanted, all are multiplied, as copying costs more.

        Not `@`: BLAS takes a thread a core, which wait for one another where the cores are busy with images (on two
        such cores, 16,384 rows of 96 and of 768 dimensions: 24 and 24 ms at the median; this 0.2 and 10).
        """
        if 2 * len(slots) > len(self._units):
            products = np.einsum("ij,j->i", self._units, unit)[slots]
        else:
            products = np.einsum("ij,j->i", self._units[slots], unit)
        return np.asarray(products, np.float32)

    def get(self, ids: Sequence[str]) -> Iterator[VectorRow]:
        for each in dict.fromkeys(ids):
            slot = self._slots.get(each)
            row = None if slot is None else self._rows[slot]
            if row is not None:
                yield row

    def selected(self, selection: Selection) -> list[str]:
        return [row.id for row in self._rows if row is not None and selection.holds(row)]

    def oldest(self, count: int) -> list[str]:
        if count <= 0:
            return []
        rows = sorted((row for row in self._rows if row is not None), key=lambda row: (row.created_ms, row.id))
        return [row.id for row in rows[:count]]

    def lines(self) -> Iterator[Line]:
        yield {"dimension": self.dimension}
        for row in self._rows:
            if row is not None:
                yield {"row": as_text(row), "vector": _as_base64(row.vector)}

    def _new_slot(self) -> int:
        slot = len(self._rows)
        self._rows.append(None)
        if slot == len(self._units):
            size = max(64, 2 * slot)
            more = size - slot
            self._units = np.concatenate([self._units, np.zeros((more, self.dimension), np.float32)])
            self._scope_of = np.concatenate([self._scope_of, np.full(more, -1, np.int64)])
            self._expires_ms = np.concatenate([self._expires_ms, np.zeros(more, np.int64)])
        return slot


class _File:
    """The lines of all processes, in the order in which they were written."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.lines = 0  # read or written
        self._offset = 0  # behind the last whole line
        self._opened: BinaryIO | None = None  # stays open, so that no later file has its inode

    @contextlib.contextmanager
    def available(self, until_s: float, is_writing: bool) -> Iterator[None]:
        """Hold the lock of who writes; raises VectorsUnavailable where it is taken for too long, or the disk fails."""
        try:
            with self._write_lock(until_s) if is_writing else contextlib.nullcontext():
                yield
        except OSError as error:
            raise VectorsUnavailable(f"cannot use {self.path}: {error.strerror or error}") from error

    def is_new(self) -> bool:
        """Whether another file than the one that was read lies there now, or none; it is read from its beginning."""
        if self._opened is not None and self._is_there(self._opened):
            return False
        was_open = self._opened is not None
        self.close()
        with contextlib.suppress(FileNotFoundError):
            self._opened = open(self.path, "rb")  # noqa: SIM115  closed by `close`
        return was_open or self._opened is not None

    def new_lines(self) -> Iterator[Line]:
        if self._opened is None or os.fstat(self._opened.fileno()).st_size <= self._offset:
            return
        self._opened.seek(self._offset)
        for text in self._opened:
            if not text.endswith(b"\n"):
                return  # it is being written, or who wrote it was killed
            self._offset += len(text)
            self.lines += 1
            with contextlib.suppress(ValueError):
                if isinstance(line := json.loads(text), dict):
                    yield line

    def append(self, lines: Sequence[Line]) -> None:
        """Write after the last whole line; what a killed process left behind it is cut off."""
        data = b"".join(map(_as_bytes, lines))
        with open(self.path, "ab") as file:
            file.truncate(self._offset)
            file.write(data)
        self._opened = self._opened or open(self.path, "rb")  # noqa: SIM115  closed by `close`
        self._offset += len(data)
        self.lines += len(lines)

    def replace(self, lines: Iterable[Line]) -> None:
        """Put another file in the place of this one. It appears whole or not at all."""
        written = [_as_bytes(line) for line in lines]
        part = self.path.with_suffix(".part")
        part.write_bytes(b"".join(written))
        os.replace(part, self.path)
        self.close()
        self._opened = open(self.path, "rb")  # noqa: SIM115  closed by `close`
        self._offset, self.lines = sum(map(len, written)), len(written)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._opened, self._offset, self.lines = None, 0, 0

    @contextlib.contextmanager
    def _write_lock(self, until_s: float) -> Iterator[None]:
        create_private(self.path.parent)
        with open(self.path.with_suffix(".lock"), "w") as lock:
            while not try_lock(lock.fileno()):
                if time.monotonic() > until_s:
                    raise VectorsUnavailable(f"another process has been writing {self.path} for too long")
                time.sleep(POLL_S)
            yield

    def _is_there(self, opened: BinaryIO) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(opened.fileno()), self.path.stat())
        return False


def _scope(of: VectorRow | Wanted) -> tuple[str, str, int, int]:
    return of.tenant, of.model, of.width, of.height


def _as_bytes(line: Line) -> bytes:
    return json.dumps(line).encode() + b"\n"


def _as_base64(vector: Sequence[float]) -> str:
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def _from_base64(text: str) -> list[float]:
    return [float(number) for number in np.frombuffer(base64.b64decode(text), "<f4")]
