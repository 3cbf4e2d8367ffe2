"""Processes that belong to a folder: none may be left when a test, or all of them, are over."""

import contextlib
import pathlib
import re

import psutil

ENDING_S = 5.0  # that a process may take which has been told to end


def left_over(folder: pathlib.Path) -> list[psutil.Process]:
    """Processes that name a folder on their command line or work in it; neither this one nor those that it runs in."""
    own = {psutil.Process().pid, *(each.pid for each in psutil.Process().parents())}
    return [each for each in psutil.process_iter() if each.pid not in own and _belongs(each, folder)]


def _belongs(process: psutil.Process, folder: pathlib.Path) -> bool:
    with contextlib.suppress(psutil.Error):
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        whole_name = rf"{re.escape(str(folder))}(?!\w)"  # the folder of session 1 is not that of session 12
        named = re.search(whole_name, " ".join(process.cmdline()))
        return named is not None or pathlib.Path(process.cwd()).is_relative_to(folder)
    return False  # it has ended, or is another user's


def end_left_over(folder: pathlib.Path) -> list[str]:
    """The command lines of processes that belong to a folder and did not end in time; they are killed."""
    _, late = psutil.wait_procs(left_over(folder), timeout=ENDING_S)
    told = []
    for process in late:
        with contextlib.suppress(psutil.Error):
            told.append(" ".join(process.cmdline()))
            process.kill()
    return told
