"""Points at which a worker stops while it fetches, loads or fuses, so that a fault can kill it there and not by chance.

    fault     puts the file FOLDER/POINT there
    worker    the first one that comes to the point renames it to POINT.PID, and waits until that is gone
    fault     finds the file, kills the process of this id, and removes the file

A worker looks for the file with one rename that fails, once for each part, file or component that it moves.
"""

import functools
import importlib
import os
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

POLL_S: Final = 0.02


class Point(NamedTuple):
    """A point: a function, by module and qualified name, and whether to stop before it or after it."""

    where: str  # MODULE:NAME or MODULE:CLASS.NAME
    is_after: bool
    meaning: str  # ends the sentence "a worker was killed when ..."


POINTS: Final[Mapping[str, Point]] = {
    "fetch-part": Point("streams.weights.draft:Draft.write", True, "a part of a file lay on the volume"),
    "fetch-file": Point("streams.weights.draft:Draft.finish", True, "a file of a component lay on the volume, whole"),
    "fetch-all": Point("streams.weights.volume:Volume._publish", False, "all files were fetched and none was ready"),
    "load-read": Point("streams.weights.loader:read_file", False, "it held a component to read it into memory"),
    "load-put": Point("agents.engines.composing:Resident.put", False, "a component was in memory, on its way"),
    "fuse": Point("agents.engines.low_rank:FusedWeights._fused", True, "a combination was fused and not yet kept"),
}
FETCH: Final = ("fetch-part", "fetch-file", "fetch-all")
LOAD: Final = ("load-read", "load-put")
FUSE: Final = ("fuse",)


def stop_at_all(folder: pathlib.Path, points: Mapping[str, Point] = POINTS) -> None:
    """Let this process stop at each point whose file is in the folder."""
    for name, point in points.items():
        module, _, path = point.where.partition(":")
        owner: Any = importlib.import_module(module)
        *classes, attribute = path.split(".")
        for each in classes:
            owner = getattr(owner, each)
        setattr(owner, attribute, stopping_at(getattr(owner, attribute), folder / name, is_after=point.is_after))


def stopping_at(function: Callable[..., Any], armed: pathlib.Path, *, is_after: bool) -> Callable[..., Any]:
    """Return a function that stops before it begins, or once it is done, where the file `armed` is there."""

    @functools.wraps(function)
    def stopping(*arguments: Any, **named: Any) -> Any:
        if not is_after:
            stop(armed)
        done = function(*arguments, **named)
        if is_after:
            stop(armed)
        return done

    return stopping


def stop(armed: pathlib.Path) -> None:
    """Wait, where the file is there and no other process was first, until it is removed."""
    mine = armed.with_name(f"{armed.name}.{os.getpid()}")
    try:
        armed.rename(mine)
    except FileNotFoundError:
        return
    while mine.exists():
        time.sleep(POLL_S)


class Ambush:
    """Arms one point until the block ends; processes that wait there then go on."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self._folder, self._name = folder, name

    def __enter__(self) -> "Ambush":
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / self._name).touch()
        return self

    def __exit__(self, *_of: object) -> None:
        for each in (self._folder / self._name, *self._waiting()):
            each.unlink(missing_ok=True)

    def caught(self) -> int | None:
        """Return the id of the process that waits there, or None."""
        return next((int(each.suffix[1:]) for each in self._waiting()), None)

    def _waiting(self) -> list[pathlib.Path]:
        return [each for each in self._folder.glob(f"{self._name}.*") if each.suffix[1:].isdecimal()]


def is_armed(folder: pathlib.Path, name: str) -> bool:
    """Whether a fault waits at a point already."""
    return (folder / name).exists() or any(folder.glob(f"{name}.*"))
