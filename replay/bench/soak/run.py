"""Runs one session of a long run: a closed loop of requests, until all have ended or the session is stopped."""

import contextlib
import os
import pathlib
import shutil
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, Final

from replay.bench.environment.figures import Conditions
from replay.bench.soak import state
from replay.bench.soak.options import (
    IMAGES_KEPT_MS,
    RETENTION,
    SoakOptions,
    announced,
    bound_disk,
    deployment_of,
    processes_of,
    worker_ids,
)
from replay.bench.soak.report import BROKER, Session, build
from replay.bench.soak.results import Results
from replay.bench.soak.samples import PERIOD_S, Watch
from replay.bench.soak.tally import Tally
from replay.load.presence import require
from replay.load.prompts import builtin_prompts
from replay.local.hosting import LocalDeployment, open_client
from replay.reports.progress import ProgressReporter, RunState
from replay.verify.chaos.options import share_jars
from schemas.errors import PochadeError
from schemas.messages import GenerateRequest
from schemas.record import Delivered
from streams.broker import address, embedded, java, record
from streams.broker.process import Process
from streams.clock import now_ms
from streams.operator.client import RequestClient
from streams.settings import Settings
from streams.store.open import open_store

TICK_S: Final = 0.02
SAVE_S: Final = 15.0
SWEEP_S: Final = 120.0  # between two looks at the disk
STUCK_S: Final = 600.0  # without a result for so long, what is open will not end; a starved machine took minutes
LEAVE_S: Final = 30.0  # for what is open to end once the session is asked to stop
PROMPTS: Final = 500
ENDLESS: Final = 2**40  # requests of a run that hours end
SELF: Final = "soak"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakState(RunState):
    """How far a long run is."""

    text: str

    def words(self) -> str:
        """Return the counts as one line."""
        return self.text


class Stop:
    """Whether the session is to stop, as a signal asked it to."""

    is_asked = False
    is_heeded = False  # the session looks at `is_asked`: it serves


class SoakRun:
    """One session of a run. `run` may be called once."""

    def __init__(
        self,
        settings: Settings,
        inherited: Settings,
        options: SoakOptions,
        report: pathlib.Path,
        teller: ProgressReporter,
        stop: Stop,
    ) -> None:
        """Raises PochadeError: the state beside the report is of another run, or damaged."""
        self._options, self._report, self._teller, self._stop, self._usual = options, report, teller, stop, settings
        kept = state.read(state.state_file(report))
        self._kept: dict[str, Any] = kept or {}
        if kept is not None and (kept["version"], kept["asked"]) != (state.VERSION, options.asked()):
            raise PochadeError(
                f"{state.state_file(report)} is of a run with other options ({kept['asked']}): give the same options "
                "to go on with it, or name another --report"
            )
        name = f"soak-{time.strftime('%m%d-%H%M%S', time.gmtime())}"
        self._tally = Tally.resumed(kept["tally"]) if kept is not None else Tally(name)
        self._session = Session(**kept["session"]) if kept is not None else Session(0)
        self._session.number += 1
        self._watch = Watch(self._kept.get("samples", ()))
        self.settings = deployment_of(settings, options, self._tally.name)
        self._hosted: LocalDeployment | None = None
        if not options.is_here:
            self._hosted = LocalDeployment(self.settings, inherited, worker_ids(options), teller, processes_of)
        self._most = options.requests or ENDLESS
        self._results: Results | None = None
        self._delivered: deque[tuple[int, bool]] = deque()  # number, whether the broker has it
        self._conditions = Conditions()

    def run(self) -> dict[str, Any]:
        """Return the report of the run so far. Raises PochadeError where something cannot be started or read."""
        with ExitStack() as stack:
            self._save()
            if self._hosted is not None:
                self.settings.home.mkdir(parents=True, exist_ok=True)
                self._prepare_jars()
                os.environ.setdefault(java.JVM_VARIABLE, java.HEAP)  # with C2: half the processor in hours
                stack.callback(embedded.stop, self.settings)  # also one that a killed session has left
                self._hosted.start(stack)
                bound_disk(self.settings)
            else:
                require(self.settings)
            client = open_client(self.settings, stack)
            results = Results(self.settings, self._place(), is_from_end=self._hosted is None)
            stack.callback(results.close)
            self._results, self._stop.is_heeded = results, True
            is_over = self._drive(client, results)
            self._stop.is_heeded = False
            self._sweep()
            self._save()
            self._teller.phase("stopping")
        self._take_deliveries()  # of the last requests: the client has closed
        return self._save(is_over=is_over)

    def _place(self) -> dict[str, int]:
        kept: dict[str, int] = self._kept.get("results", {})
        return kept if self._results is None else self._results.place()

    def _prepare_jars(self) -> None:
        """Fetch Kafka's jars to the usual home, where later runs find them, and use them from there."""
        usual = address.kafka_home(self._usual)
        with contextlib.suppress(java.JavaMissing), record.locked(usual):
            java.prepare(usual, self._teller.note)
        share_jars(self._usual, self.settings)

    def _drive(self, client: RequestClient, results: Results) -> bool:
        """Send and read until the run is over (True), or is to stop."""
        prompts = cycle(builtin_prompts(PROMPTS))
        began_s, before_s = time.monotonic(), self._session.seconds
        moved_s = began_s
        stop_s: float | None = None
        looks = [Every(PERIOD_S, self._look), Every(SAVE_S, self._save), Every(SWEEP_S, self._sweep)]
        self._look()
        while True:
            now_s = time.monotonic()
            self._session.seconds = before_s + now_s - began_s
            if self._stop.is_asked and stop_s is None:
                stop_s = now_s + LEAVE_S
                self._teller.note(f"stopping: waiting up to {LEAVE_S:g} s for {len(self._tally.is_open)} open requests")
            is_sending = stop_s is None and not self._is_late()
            if is_sending:
                self._send(client, prompts)
            self._take_deliveries()
            for key, result in results.take(TICK_S):
                if (number := self._tally.number_of(key)) is not None:
                    self._tally.has_ended(number, str(result.status))
                    moved_s = now_s
            for look in looks:
                look.due(now_s)
            self._supervise()
            self._tell()
            if stop_s is not None and (now_s > stop_s or not self._tally.is_open):
                return False
            has_sent_all = (self._is_late() or self._tally.sent >= self._most) and not self._tally.again
            if has_sent_all and not self._tally.is_open:
                return True
            if now_s - moved_s > STUCK_S and self._tally.is_open:
                self._teller.note(f"no result has come for {STUCK_S:g} s: {len(self._tally.is_open)} requests are open")
                return has_sent_all  # else the run may go on

    def _is_late(self) -> bool:
        return self._options.hours is not None and self._session.seconds >= 3600 * self._options.hours

    def _send(self, client: RequestClient, prompts: "cycle[str]") -> None:
        tally = self._tally
        while len(tally.is_open) < self._options.outstanding:
            if tally.needs_reserve(self._most):
                tally.reserve(self._most)
                self._save()
            number = tally.next(self._most)
            if number is None:
                return
            if number in tally.ended:
                continue
            tally.is_open.add(number)
            request = GenerateRequest(request_id=tally.id_of(number), prompt=next(prompts), created_ms=now_ms())
            client.submit(request).add_done_callback(partial(self._on_delivery, number))

    def _take_deliveries(self) -> None:
        while self._delivered:
            number, has_it = self._delivered.popleft()
            (self._tally.acknowledged if has_it else self._tally.refused)(number)

    def _on_delivery(self, number: int, done: Future[Delivered]) -> None:
        self._delivered.append((number, done.exception() is None))

    def _supervise(self) -> None:
        if self._hosted is None:
            return
        for note in self._hosted.roles.check():
            self._session.notes.append(note)
            self._teller.note(note)

    def _look(self) -> None:
        """Take a sample of every process."""
        pids = {SELF: os.getpid()}
        if self._hosted is None:
            pids |= announced(self.settings.home, self.settings.kafka.prefix)
        else:
            roles = {each.name: self._hosted.roles.child(each.name) for each in self._hosted.processes}
            pids |= {name: child.pid for name, child in roles.items() if child is not None}
        known = address.record(self.settings)
        if known is not None and isinstance(known.broker, Process):
            pids[BROKER] = known.broker.pid
        self._watch.look(pids, len(self._tally.ended))

    def _sweep(self) -> None:
        """Delete images that nothing needs any more, of a deployment of its own, and look at the disk."""
        if self._hosted is None:
            return
        store = open_store(self.settings)
        for stored in store.list(now_ms() - IMAGES_KEPT_MS):
            store.delete(stored.uri)
        self._session.disk_bytes = max(self._session.disk_bytes, size_of(address.kafka_home(self.settings) / "data"))

    def _tell(self) -> None:
        tally, options, ended = self._tally, self._options, len(self._tally.ended)
        sent = tally.sent - len(tally.again)
        text = (
            f"sent {sent}, ended {ended}, open {len(tally.is_open)}, twice {tally.duplicates}; "
            f"{ended / max(0.001, self._session.seconds):.1f} a second over {self._session.seconds:.0f} s"
        )
        total, done = options.requests or 0, ended
        if options.hours is not None:
            total, done = round(3600 * options.hours), round(self._session.seconds)
        self._teller.state(
            SoakState(
                total=total,
                sent=sent,
                generated=0,
                escalated=0,
                ended=done,
                newest=(),
                text=text,
            )
        )

    def _save(self, *, is_over: bool = False) -> dict[str, Any]:
        """Write state and report, and return the report; once the run is over there is no state."""
        file = state.state_file(self._report)
        kept = {
            "version": state.VERSION, "asked": self._options.asked(), "tally": self._tally.kept(),
            "results": self._place(), "session": self._session.kept(), "samples": self._watch.kept(),
        }  # fmt: skip
        state.write(file, kept)
        facts = {"retention": None if self._hosted is None else RETENTION, **self._conditions.as_table(self.settings)}
        report = build(self._tally, self._watch, self._session, self._options.asked(), facts, is_over=is_over)
        state.write(self._report, report, indent=2)
        if is_over:
            file.unlink()
        return report

    def clear(self) -> None:
        """Delete what a finished run of a deployment of its own left on the disk."""
        if self._hosted is not None:
            shutil.rmtree(self.settings.home, ignore_errors=True)


class Every:
    """Something that is done each so many seconds."""

    def __init__(self, period_s: float, act: Callable[[], object]) -> None:
        self._period_s, self._act, self._due_s = period_s, act, time.monotonic() + period_s

    def due(self, now_s: float) -> None:
        """Do it if it is due."""
        if now_s >= self._due_s:
            self._act()
            self._due_s = now_s + self._period_s


def size_of(folder: pathlib.Path) -> int:
    """Return the bytes on the disk of all files below a folder; what is deleted meanwhile counts nothing."""
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += 512 * file.stat().st_blocks  # indices are made larger than they are
    return total
