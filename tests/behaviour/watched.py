"""`python -m tests.behaviour.watched OUT WINDOW ARGUMENTS...`: runs `pochade ARGUMENTS...`, and writes what it loaded.

OUT gets the project's files that were loaded, and by window those in which a function ran. The file WINDOW has the name
of the window that is open; it is empty or missing while none is.
"""

import json
import pathlib
import sys
import threading
import time
from types import FrameType

from tests.behaviour.tree import ROOT
from tests.imports import ROOMS, project_modules

OURS = tuple(f"{ROOT / room}/" for room in ROOMS)
LOOK_S = 0.02  # between two looks at the file WINDOW


class Windows:
    """The files in which functions ran, by window."""

    def __init__(self) -> None:
        self.files: dict[str, set[str]] = {}
        self._open: set[str] | None = None

    def follow(self, window: pathlib.Path) -> None:
        """Open and close windows as the file says, for as long as the process runs."""
        while True:
            name = window.read_text() if window.exists() else ""
            self._open = self.files.setdefault(name, set()) if name else None
            time.sleep(LOOK_S)

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note a call; `sys.setprofile` calls this in each thread."""
        if self._open is not None and event == "call" and frame.f_code.co_filename.startswith(OURS):
            self._open.add(frame.f_code.co_filename.removeprefix(f"{ROOT}/"))


def main(out: str, window: str, *arguments: str) -> None:
    """Run the command with these arguments, and write OUT when it ends."""
    windows = Windows()
    threading.Thread(target=windows.follow, args=(pathlib.Path(window),), daemon=True).start()
    threading.setprofile(windows.note)
    sys.setprofile(windows.note)
    from streams.cli import main as pochade

    sys.argv = ["pochade", *arguments]
    try:
        pochade()
    finally:
        sys.setprofile(None)
        write(out, windows)


def write(out: str, windows: Windows) -> None:
    """Write OUT: the project's files that this process has loaded, and the windows."""
    files = {str(path): str(path.relative_to(ROOT)) for path in project_modules().values()}
    places = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    ran = {name: sorted(found) for name, found in windows.files.items()}
    loaded = sorted(files[each] for each in places & files.keys())
    pathlib.Path(out).write_text(json.dumps({"loaded": loaded, "windows": ran}))


if __name__ == "__main__":
    main(*sys.argv[1:])
