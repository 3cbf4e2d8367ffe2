"""Results of cells, kept on disk line by line as they come, so that a run can be broken off and taken up again.

A folder holds `results.jsonl`, `state.json` and the traces. Results of another state of the code are never taken for
those of this one: `state.json` has a digest of what decides them.
"""

import hashlib
import json
import pathlib
from types import TracebackType
from typing import Final, Self

from replay.bench.frontier.cells import Figures
from schemas.errors import PochadeError
from streams.shipped import INFRA

RESULTS, STATE = "results.jsonl", "state.json"
SOURCES: Final = (
    "planner",
    "replay/simulation",
    "replay/traces",
    "schemas",
    "streams/catalogs.py",
    "streams/settings.py",
)


class ResultStore:
    """A context: the results of a folder, to which new ones are added."""

    def __init__(self, folder: pathlib.Path, digest: str) -> None:
        """Open a folder, which is made where it is missing. Raises PochadeError: it is of another state of the code."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._file = folder, folder / RESULTS
        _check_state(folder / STATE, digest)
        self.known = _read(self._file)
        self._out = self._file.open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.close()

    def add(self, key: str, figures: Figures) -> None:
        """Keep a cell's figures; they are on disk when this returns."""
        self.known[key] = figures
        self._out.write(json.dumps({"cell": key, "figures": figures}) + "\n")
        self._out.flush()


def read_results(folder: pathlib.Path, digest: str) -> dict[str, Figures]:
    """Return key -> figures of a folder, which is left as it is. Raises PochadeError: it has none, or other code's."""
    if not (folder / STATE).is_file():
        raise PochadeError(f"{folder} is no folder of results: give one that `pochade bench frontier --out` wrote")
    _check_state(folder / STATE, digest)
    return _parse((folder / RESULTS).read_bytes())[0] if (folder / RESULTS).is_file() else {}


def _read(file: pathlib.Path) -> dict[str, Figures]:
    """key -> figures. A last line that was broken off is cut away, so that its cell runs again."""
    if not file.is_file():
        return {}
    data = file.read_bytes()
    known, whole = _parse(data)
    if whole < len(data):
        file.write_bytes(data[:whole])
    return known


def _parse(data: bytes) -> tuple[dict[str, Figures], int]:
    """Return key -> figures of the whole lines, and how many bytes they are."""
    known, whole = dict[str, Figures](), 0
    for line in data.splitlines(keepends=True):
        try:
            row = json.loads(line)
            known[row["cell"]] = row["figures"]
        except (ValueError, KeyError, TypeError):
            break
        if not line.endswith(b"\n"):
            break
        whole += len(line)
    return known, whole


def _check_state(file: pathlib.Path, digest: str) -> None:
    if not file.is_file():
        file.write_text(json.dumps({"digest": digest}) + "\n", encoding="utf-8")
        return
    if json.loads(file.read_text(encoding="utf-8")).get("digest") != digest:
        raise PochadeError(
            f"{file.parent} has results of another state of the code, catalogs or traces: give another folder, or "
            "remove it"
        )


def digest_of(limit: int | None, folder: pathlib.Path | None = None) -> str:
    """Return a digest of the code and catalogs that decide results, and of which traces they are of.

    `limit`: first requests that traces are cut to; `folder`: of the published traces; None: made ones.
    """
    root, found = pathlib.Path(__file__).parents[3], hashlib.sha256(f"{limit} {folder is None}".encode())
    paths = [path for source in SOURCES for path in _files(root / source)]
    for path in [*paths, *_files(INFRA / "catalogs"), *_files(INFRA / "profiles")]:
        found.update(path.name.encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def _files(place: pathlib.Path) -> list[pathlib.Path]:
    if place.is_file():
        return [place]
    return sorted(path for path in place.rglob("*") if path.suffix in (".py", ".toml", ".json", ".npz"))
