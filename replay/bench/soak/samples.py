"""What a process holds over a run: its samples, and how much its memory grew after the first tenth.

requests ended in the process's life   0 ....... 1/10 ....... 2/10 ............... 9/10 ....... all
taken for the growth                    left out   the median of these              the median of these
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import psutil

FEWEST: Final = 5  # samples of a tenth: fewer say nothing
MAX_KEPT: Final = 800  # samples of a process; beyond it every second is dropped, and half as many are taken
PERIOD_S: Final = 1.0  # between samples at first


class Sample(NamedTuple):
    """What a process held at a time."""

    ended: int  # requests of the run that had ended
    rss_kb: int
    descriptors: int


class Change(NamedTuple):
    """A figure in the second tenth of a process's life, and in the last: medians."""

    first: float
    last: float

    @property
    def percent(self) -> float:
        """Return how much more the last is than the first, in %."""
        return 100 * (self.last / self.first - 1)


@dataclass(slots=True)
class Life:
    """The samples of one process, from its start to its end."""

    pid: int
    samples: list[Sample] = field(default_factory=list)
    stride: int = 1  # one of so many samples is kept
    seen: int = 0
    cpu_s: float = 0.0  # processor time since the first sample
    begun_cpu_s: float = 0.0  # before it: of a start, or of earlier work

    def add(self, sample: Sample, cpu_s: float) -> None:
        """Add a sample, and the processor time of the process since its start, in s."""
        if not self.seen:
            self.begun_cpu_s = cpu_s
        self.cpu_s = cpu_s - self.begun_cpu_s
        if self.seen % self.stride == 0:
            self.samples.append(sample)
            if len(self.samples) > MAX_KEPT:
                self.samples, self.stride = self.samples[::2], 2 * self.stride
        self.seen += 1

    @property
    def requests(self) -> int:
        """Return how many requests ended in its life."""
        return self.samples[-1].ended - self.samples[0].ended if self.samples else 0

    def change(self, figure: Callable[[Sample], float]) -> Change | None:
        """Return the medians of a figure in the second and the last tenth; None if there are too few samples."""
        if not self.samples:
            return None
        begun, span = self.samples[0].ended, self.requests
        second = [figure(s) for s in self.samples if 0.1 * span <= s.ended - begun < 0.2 * span]
        last = [figure(s) for s in self.samples if s.ended - begun >= 0.9 * span]
        if min(len(second), len(last)) < FEWEST:
            return None
        return Change(statistics.median(second), statistics.median(last))

    def course(self, parts: int, figure: Callable[[Sample], float]) -> list[float]:
        """Return a figure's medians over equal parts of the requests that ended; parts without samples are left out."""
        if not self.samples:
            return []
        begun, span = self.samples[0].ended, max(1, self.requests)
        found: dict[int, list[float]] = {}
        for sample in self.samples:
            found.setdefault(min(parts - 1, parts * (sample.ended - begun) // span), []).append(figure(sample))
        return [statistics.median(found[part]) for part in sorted(found)]


class Watch:
    """The lives of the processes of all roles, over all sessions of a run."""

    def __init__(self, kept: Iterable[Sequence[Any]] = ()) -> None:
        """`kept`: what `kept` returned."""
        self._processes: dict[str, psutil.Process] = {}
        self._lives: dict[str, list[Life]] = {}
        for role, pid, stride, seen, cpu_s, rows in kept:
            samples = [Sample(*row) for row in rows]
            self._lives.setdefault(role, []).append(Life(pid, samples, stride, seen, cpu_s))

    def kept(self) -> list[list[Any]]:
        """Return all samples as lists."""
        return [
            [role, life.pid, life.stride, life.seen, round(life.cpu_s, 2), life.samples]
            for role, lives in self._lives.items()
            for life in lives
        ]

    def look(self, pids: dict[str, int], ended: int) -> None:
        """Take a sample of each role's process; one that has just ended is left out."""
        for role, pid in pids.items():
            known = self._processes.get(role)
            try:
                if known is None or known.pid != pid:
                    known = self._processes[role] = psutil.Process(pid)
                    self._lives.setdefault(role, []).append(Life(pid))
                with known.oneshot():
                    times = known.cpu_times()
                    sample = Sample(ended, known.memory_info().rss // 1024, known.num_fds())
            except psutil.Error:
                continue
            self._lives[role][-1].add(sample, times.user + times.system)

    def cpu_s(self) -> dict[str, float]:
        """Return role -> processor time of all its processes while they were watched, in s."""
        return {role: sum(life.cpu_s for life in lives) for role, lives in self._lives.items()}

    def processes(self) -> dict[str, int]:
        """Return role -> number of processes that it had, one after the other."""
        return {role: len(lives) for role, lives in self._lives.items()}

    def longest(self) -> dict[str, Life]:
        """Return role -> the life in which most requests ended."""
        return {role: max(lives, key=lambda life: life.requests) for role, lives in self._lives.items()}
