"""The files of a long run: its report, and beside it the state from which an interrupted run goes on."""

import json
import os
import pathlib
from typing import Any, Final

from schemas.errors import PochadeError

VERSION: Final = 1


def state_file(report: pathlib.Path) -> pathlib.Path:
    """Return the file of a run's state."""
    return report.with_name(report.name + ".state")


def read(path: pathlib.Path) -> dict[str, Any] | None:
    """Return what a file of ours has; None if there is none. Raises PochadeError: it is damaged."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise PochadeError(f"{path} cannot be read ({error}): move it away, or name another --report") from None
    return found


def write(path: pathlib.Path, content: dict[str, Any], indent: int | None = None) -> None:
    """Replace a file at once, so that a reader, or a run after a kill, never sees half of it. Raises PochadeError."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=indent, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise PochadeError(f"cannot write {path}: {error.strerror}; name another --report") from error
