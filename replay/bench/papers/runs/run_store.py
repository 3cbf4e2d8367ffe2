"""Results of the questions' cells, kept in a folder of `pochade bench frontier` beside the grid's results."""

import json
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final, Self

import pydantic

from replay.bench.frontier.code_state import ROOT, digest_of_files, policy_digest
from replay.bench.frontier.results import LineStore
from replay.bench.papers.runs.cells import Cell, Found

RUNS: Final = "runs.jsonl"
OWN: Final = ("arrivals", "cells", "names", "scaling", "tiers")  # modules beside this one that decide what a cell is
_FOUND: Final = pydantic.TypeAdapter(Found, config=pydantic.ConfigDict(ser_json_inf_nan="constants"))


class RunStore:
    """Results of cells by their key. Those of another state of the code are left out, so that these cells run again."""

    def __init__(self, store: LineStore | None = None) -> None:
        """`store`: key -> result of a cell, as JSON has it; None if nothing is kept."""
        self._store = store

    @classmethod
    @contextmanager
    def open(cls, folder: pathlib.Path, digest: str) -> Iterator[Self]:
        """Open a folder's runs. Raises PochadeError: it is of another state of the code."""
        with LineStore(folder, digest, RUNS, _digest_of_key) as store:
            yield cls(store)

    def of(self, cell: Cell) -> Found | None:
        """Return the result of a cell; None if it is not kept."""
        values = None if self._store is None else self._store.known.get(_key(cell))
        return None if values is None else _FOUND.validate_python(values)

    def add(self, cell: Cell, found: Found) -> None:
        """Keep the result of a cell; it is on disk when this returns."""
        if self._store is not None:
            self._store.add(_key(cell), json.loads(_FOUND.dump_json(found)))


def _key(cell: Cell) -> str:
    return f"{cell.policy} {cell!r}"


def _digest_of_key(key: str) -> str:
    return policy_digest(key.partition(" ")[0]) + _own_digest()


@cache
def _own_digest() -> str:
    folder = ROOT / "replay" / "bench" / "papers" / "runs"
    return digest_of_files(folder / f"{name}.py" for name in OWN)
