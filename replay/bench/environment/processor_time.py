"""Processor time of processes."""

from collections.abc import Iterable

import psutil


def processor_s(processes: Iterable[psutil.Process]) -> float:
    """Return the user and system time of processes so far, in s; one that is gone counts nothing."""
    return sum(_time_s(each) for each in processes)


def _time_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
