"""`pochade scale`: starts and drains worker processes on this machine as the plan in force says.

    plan, heartbeats  --`planner.scaling.supply.orders`-->  start: forked from a server that has the libraries imported
                                                            end: SIGTERM to one that serves nothing and gets nothing

A worker that dies is started again after a backoff. Workers outlive their supervisor (`owned_worker.py`): one that
starts anew goes on with them.
"""

import pathlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from planner.observation.workers import WorkerView
from planner.scaling.supply import CALM_MS, backoff_ms, next_ids, orders, wanted_workers_of
from replay.local.owned_worker import RUNS_ALREADY, SUFFIX, FoundWorker, holder
from replay.local.supervisor import ending
from schemas.messages import Plan
from streams import metrics
from streams.processes.children import Child, end_all
from streams.visible import counted

MODULES: Final = ("replay.local.owned_worker", "agents.commands.serve", "agents.runtime.assembly", "agents.worker.role")
"""What the fork server imports, beside the library of an engine."""

FORGET_MS: Final = 60_000.0  # after the end of a worker, until a heartbeat of its id is somebody else's

Start = Callable[[str, pathlib.Path], Child]
"""(worker id, the file that it locks) -> its process."""


@dataclass(slots=True)
class _Owned:
    """A worker of this supervisor."""

    child: Child | None  # None: it died, and is due again
    started_ms: float
    deaths: int = 0  # in a row
    again_ms: float = 0.0  # when a dead one is started again
    is_ending: bool = False


class SupplyState(NamedTuple):
    """Running and wanted workers of a supervisor, for a line of status."""

    wanted: int | None  # workers, with the pool; None: the plan does not scale
    running: int
    ending: int
    waiting: int  # dead, and due again

    def words(self) -> str:
        """Return the state in words."""
        wanted = "the plan scales no workers" if self.wanted is None else f"{counted(self.wanted, 'worker')} wanted"
        parts = [f"{self.running} running", f"{self.ending} draining" * bool(self.ending)]
        parts.append(f"{self.waiting} to be started again" * bool(self.waiting))
        return f"{wanted}, " + ", ".join(part for part in parts if part)


class WorkerSupply:
    """The workers of one supervisor. `step` is called a few times a second, by one thread."""

    def __init__(
        self, folder: pathlib.Path, prefix: str, start: Start, clock_ms: Callable[[], float] | None = None,
        places: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`folder`: of the files that workers lock; `prefix`: of their ids.

        `places`: the ids of the only workers that there may be, all of them unless the plan scales; (): any number.
        """
        self._folder, self._prefix, self._start, self._places = folder, prefix, start, places
        self._clock_ms = clock_ms or (lambda: 1000 * time.monotonic())
        self._workers: dict[str, _Owned] = {}
        self._gone: dict[str, float] = {}  # worker -> when it ended: its last heartbeat may count as life for a while
        self.counts: Counter[str] = Counter()  # started | found | drained | died | restarted -> workers

    @property
    def ids(self) -> list[str]:
        """The ids of its workers, dead ones that are due again among them."""
        return sorted(self._workers)

    def find(self) -> list[str]:
        """Take over the workers that an earlier supervisor left running; a sentence for each."""
        notes = []
        own = [self._folder / f"{place}{SUFFIX}" for place in self._places]
        for file in own or sorted(self._folder.glob(f"{self._prefix}-*{SUFFIX}")):
            name, pid = file.name.removesuffix(SUFFIX), holder(file)
            if pid is not None and name not in self._workers:
                try:
                    self._workers[name] = _Owned(FoundWorker(pid), self._clock_ms())
                except ProcessLookupError:
                    continue
                self._count("found")
                notes.append(f"worker {name} runs already, as process {pid}: taken over")
        return notes

    def step(self, plan: Plan | None, live: Mapping[str, WorkerView]) -> list[str]:
        """Bury the dead, start and end what the plan calls for; a sentence for each change."""
        notes = [note for name in self.ids if (note := self._check(name))]
        staying = [name for name, each in self._workers.items() if not each.is_ending]
        gone = {name for name, at_ms in self._gone.items() if self._clock_ms() - at_ms < FORGET_MS} - set(staying)
        leaving = {name for name, each in self._workers.items() if each.is_ending}
        counted = {name: view for name, view in live.items() if name not in gone | leaving}
        found = orders(plan, staying, counted)
        for name in self._new(plan, found.start, {*self._workers, *live}):
            self._workers[name] = _Owned(self._begin(name), self._clock_ms())
            self._count("started")
            notes.append(f"worker {name} started")
        return notes + [self._end(name) for name in found.end]

    def _new(self, plan: Plan | None, count: int, taken: Collection[str]) -> list[str]:
        """Return the ids of workers to start. `count`: as the plan asks; `taken`: ids that live or are due again."""
        if not self._places:
            return next_ids(count, taken, self._prefix)
        free = [place for place in self._places if place not in taken]
        return free if wanted_workers_of(plan) is None else free[:count]

    def state(self, plan: Plan | None) -> SupplyState:
        """Return what there is and what is wanted."""
        each, wanted = list(self._workers.values()), wanted_workers_of(plan)
        return SupplyState(
            wanted=len(self._places) or None if wanted is None else wanted,
            running=sum(one.child is not None and not one.is_ending for one in each),
            ending=sum(one.is_ending for one in each),
            waiting=sum(one.child is None for one in each),
        )

    def close(self, limit_s: float) -> None:
        """End all workers: SIGTERM, so that they finish what they have, and SIGKILL after `limit_s`."""
        end_all([each.child for each in self._workers.values() if each.child is not None], limit_s)
        self._workers.clear()

    def _count(self, event: str) -> None:
        self.counts[event] += 1
        metrics.SCALE_EVENTS.labels(event).inc()

    def _begin(self, name: str) -> Child:
        return self._start(name, self._folder / f"{name}{SUFFIX}")

    def _end(self, name: str) -> str:
        each = self._workers[name]
        if each.child is None:
            del self._workers[name]
            return f"worker {name} is not started again: the plan wants fewer"
        each.child.terminate()
        each.is_ending = True
        return f"worker {name} is drained and ended: the plan wants fewer"

    def _check(self, name: str) -> str | None:
        each, now_ms = self._workers[name], self._clock_ms()
        if each.child is None:
            return self._restart(name, each) if now_ms >= each.again_ms else None
        status = each.child.poll()
        if status is None:
            if now_ms - each.started_ms > CALM_MS:
                each.deaths = 0
            return None
        self._gone[name] = now_ms
        if each.is_ending:
            del self._workers[name]
            self._count("drained")
            return f"worker {name} has ended"
        pid = holder(self._folder / f"{name}{SUFFIX}") if status == RUNS_ALREADY else None
        if pid is not None:
            each.child = FoundWorker(pid)
            return f"worker {name} runs already, as process {pid}: taken over"
        each.child, each.deaths = None, each.deaths + 1
        each.again_ms = now_ms + backoff_ms(each.deaths)
        self._count("died")
        return f"worker {name} died, {ending(status)}; started again in {backoff_ms(each.deaths) / 1000:g} s"

    def _restart(self, name: str, each: _Owned) -> str:
        each.child, each.started_ms = self._begin(name), self._clock_ms()
        self._count("restarted")
        return f"worker {name} started again after {each.deaths} deaths in a row"
