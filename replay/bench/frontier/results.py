"""Results of cells, kept on disk line by line as they come, so that a run can be broken off and taken up again.

A folder holds `results.jsonl`, `state.json` and the traces. Results of another state of the code are never taken for
those of this one: `state.json` has a digest of what all cells share, and each line one of its policy's own code. Lines
of another state of their policy are passed over, so that their cells run again.
"""

import json
import pathlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from replay.bench.frontier.cells import Figures
from replay.bench.frontier.code_state import policy_digest
from replay.bench.frontier.grid import GridCell
from schemas.errors import PochadeError

RESULTS, STATE = "results.jsonl", "state.json"


class LineStore:
    """A context: values by key in a folder's file, to which new ones are added line by line."""

    def __init__(self, folder: pathlib.Path, digest: str, file: str, digest_of_key: Callable[[str], str]) -> None:
        """Open a folder, which is made where it is missing. Raises PochadeError: it is of another state of the code.

        `digest`: of the code that all values share; `digest_of_key`: of what belongs to one key alone.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._file, self._digest_of_key = folder, folder / file, digest_of_key
        _check_state(folder / STATE, digest)
        self.known = self._read()
        self._out = self._file.open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.close()

    def add(self, key: str, figures: dict[str, Any]) -> None:
        """Keep the value of a key; it is on disk when this returns."""
        self.known[key] = figures
        row = {"cell": key, "policy": self._digest_of_key(key), "figures": figures}
        self._out.write(json.dumps(row) + "\n")
        self._out.flush()

    def _read(self) -> dict[str, dict[str, Any]]:
        """key -> value of a file. A last line that was broken off is cut away, so that its cell runs again."""
        if not self._file.is_file():
            return {}
        data = self._file.read_bytes()
        known, whole = _parse(data, self._digest_of_key)
        if whole < len(data):
            self._file.write_bytes(data[:whole])
        return known


class ResultStore(LineStore):
    """A context: the figures of the grid's cells in a folder, to which new ones are added."""

    known: dict[str, Figures]

    def __init__(self, folder: pathlib.Path, digest: str) -> None:
        """Open a folder, which is made where it is missing. Raises PochadeError: it is of another state of the code."""
        super().__init__(folder, digest, RESULTS, _policy_digest)


def read_results(folder: pathlib.Path, digest: str) -> dict[str, Figures]:
    """Return key -> figures of a folder, which is left as it is. Raises PochadeError: it has none, or other code's."""
    if not (folder / STATE).is_file():
        raise PochadeError(f"{folder} is no folder of results: give one that `pochade bench frontier --out` wrote")
    _check_state(folder / STATE, digest)
    return _parse((folder / RESULTS).read_bytes(), _policy_digest)[0] if (folder / RESULTS).is_file() else {}


def _parse(data: bytes, digest_of_key: Callable[[str], str]) -> tuple[dict[str, dict[str, Any]], int]:
    """Return key -> value of the whole lines by this state of what is theirs, and how many bytes all lines are."""
    known, whole = dict[str, dict[str, Any]](), 0
    for line in data.splitlines(keepends=True):
        try:
            row = json.loads(line)
            key, figures, digest = row["cell"], row["figures"], row["policy"]
        except (ValueError, KeyError, TypeError):
            break
        if not line.endswith(b"\n"):
            break
        whole += len(line)
        if digest == digest_of_key(key):
            known[key] = figures
    return known, whole


def _policy_digest(key: str) -> str:
    return policy_digest(GridCell.of_key(key).policy)


def _check_state(file: pathlib.Path, digest: str) -> None:
    if not file.is_file():
        file.write_text(json.dumps({"digest": digest}) + "\n", encoding="utf-8")
        return
    if json.loads(file.read_text(encoding="utf-8")).get("digest") != digest:
        raise PochadeError(
            f"{file.parent} has results of another state of the code, catalogs or traces: give another folder, or "
            "remove it"
        )
