"""An observation in a file: `plan shadow --save` writes it, and it may be changed and planned for again."""

import pathlib

from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from schemas.errors import PochadeError
from streams.parsing.observation import parse, text_of


def idle_workers(count: int, now_ms: int) -> tuple[WorkerView, ...]:
    """Workers that serve nothing yet."""
    width = len(str(count))
    return tuple(WorkerView(f"worker-{n:0{width}}", "", "ready", now_ms, 0.0) for n in range(1, count + 1))


def read(path: pathlib.Path) -> Observation:
    """The observation in a JSON file. Raises PochadeError with what is wrong, and what to do."""
    try:
        return parse(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise PochadeError(
            f"observation {path} cannot be read: {error}; `pochade plan shadow POLICY --save FILE` writes one"
        ) from None


def write(observation: Observation, path: pathlib.Path) -> None:
    """Write an observation to a file for `read`. Raises PochadeError."""
    try:
        path.write_text(text_of(observation) + "\n")
    except OSError as error:
        raise PochadeError(f"cannot write {path}: {error.strerror}; name another place") from error
