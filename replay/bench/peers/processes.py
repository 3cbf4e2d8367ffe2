"""The processes of one side: their processor time, and the end of those that outlive their parents."""

import pathlib
from collections.abc import Iterable
from typing import Final

import psutil

TERMINATION_TIMEOUT_S: Final = 10.0  # from SIGTERM to SIGKILL


def processes_of(home: pathlib.Path, roots: Iterable[int]) -> list[psutil.Process]:
    """Return some processes, those that name a folder in their command, and the children of all of these."""
    named = [each for each in psutil.process_iter(["cmdline"]) if str(home) in " ".join(each.info["cmdline"] or ())]
    return _with_children([*named, *(psutil.Process(pid) for pid in roots if psutil.pid_exists(pid))])


def descendants_of(roots: Iterable[int]) -> list[psutil.Process]:
    """Return the children of some processes, and theirs."""
    begun = [psutil.Process(pid) for pid in roots if psutil.pid_exists(pid)]
    return [each for each in _with_children(begun) if each not in begun]


def end(processes: Iterable[psutil.Process]) -> None:
    """End what still runs of these: by SIGTERM, and after TERMINATION_TIMEOUT_S by SIGKILL."""
    left = [each for each in processes if each.is_running()]
    for each in left:
        _signal(each, is_killed=False)
    _, left = psutil.wait_procs(left, TERMINATION_TIMEOUT_S)
    for each in left:
        _signal(each, is_killed=True)
    psutil.wait_procs(left, TERMINATION_TIMEOUT_S)


def _with_children(roots: Iterable[psutil.Process]) -> list[psutil.Process]:
    found: dict[int, psutil.Process] = {}
    for root in roots:
        found[root.pid] = root
        try:
            found |= {child.pid: child for child in root.children(recursive=True)}
        except psutil.NoSuchProcess:
            continue
    return list(found.values())


def _signal(process: psutil.Process, *, is_killed: bool) -> None:
    try:
        process.kill() if is_killed else process.terminate()
    except psutil.NoSuchProcess:
        return
