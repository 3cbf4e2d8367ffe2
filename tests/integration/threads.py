"""The threads of a process by the names that they give themselves, those of librdkafka's clients among them."""

import contextlib
import pathlib

CLIENT = "rdk:main"  # one thread of each client


def thread_names(pid: int) -> list[str]:
    """Return the names of a process's threads, without those that end meanwhile."""
    names = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            names.append((task / "comm").read_text().strip())
    return names
