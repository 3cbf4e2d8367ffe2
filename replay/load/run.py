"""A live replay from its trace to its report: publish at the trace's pace, follow results, read everything again."""

import pathlib
import time
from contextlib import ExitStack
from typing import Any

from replay.load.driver import Driver, drive
from replay.load.due import Left
from replay.load.identity import Ids, digest
from replay.load.options import LiveOptions, deployment_of, slo_ms
from replay.load.presence import require
from replay.load.record.folder import SEEN_NAME, TRACE_NAME
from replay.load.record.history import AHEAD_MS, Published, read_history, read_published
from replay.load.record.outcome import Facts, outcome
from replay.load.record.request_records import request_records
from replay.load.record.request_records import write as write_seen
from replay.load.speed import SpeedProbe
from replay.local.hosting import LocalDeployment, epoch_ms, follow, open_client
from replay.local.readiness import GeneratedCounter
from replay.reports.progress import ProgressReporter, RunState
from replay.traces.trace import Trace
from replay.traces.writing import write
from schemas.topics import IMAGES
from streams.catalogs import measured
from streams.kafka.consumers.consumer import TopicTailer
from streams.parsing.scale_rules import scale_rules_of
from streams.settings import Settings


class LiveRun:
    """One session of a run: the whole run, or what earlier sessions left of it. `run` may be called once."""

    def __init__(
        self, settings: Settings, inherited: Settings, options: LiveOptions, trace: Trace, teller: ProgressReporter
    ) -> None:
        self.settings = deployment_of(settings, options)
        self.folder = options.report or self.settings.home / "replay" / options.name
        self.ids = Ids(options.name, digest(trace), len(trace))
        self._catalog = measured(self.settings.catalog)
        self._slo_ms = slo_ms(self.settings, self._catalog)
        self._options, self._trace, self._teller = options, trace, teller
        self._scale = scale_rules_of(self.settings)
        self._hosted: LocalDeployment | None = None
        if options.serves:
            workers = [f"worker-{number}" for number in range(1, options.serves + 1)]
            self._hosted = LocalDeployment(self.settings, inherited, workers, teller)

    @property
    def trace_path(self) -> pathlib.Path:
        """Path of the stored trace as it is published, whatever file it was read from."""
        return self.folder / TRACE_NAME

    def run(self) -> dict[str, Any]:
        """The report but for how it was made. Raises PochadeError: what could not be started or read, what to do."""
        write(self._trace, self.trace_path)
        with ExitStack() as stack:
            if self._hosted is not None:
                self._hosted.start(stack)
            workers = self._options.serves or len(require(self.settings))
            before = read_published(self.settings, self.ids)
            driver = self._driver(before, stack)
            probe = stack.enter_context(SpeedProbe()) if self._options.probes else None
            self._drive(driver, stack)
            speed_ms = probe.stop() if probe else ()
            self._teller.phase("reading everything again")
            history = read_history(self.settings, self.ids)
        facts = Facts(
            name=self._options.name,
            settings=self.settings,
            catalog=self._catalog,
            slo_ms=self._slo_ms,
            drops=self._options.drops,
            workers=workers,
            scale=self._scale,
            before=len(before.created_ms),
            lateness_ms=driver.lateness_ms,
            refused=driver.total - len(driver.accepted()) - len(before.created_ms),
            speed_ms=speed_ms,
        )
        seen = request_records(history, self.ids.all)
        write_seen(seen, self.folder / SEEN_NAME)
        return outcome(facts, self._trace, self.ids, history, seen)

    def _driver(self, before: Published, stack: ExitStack) -> Driver:
        deadline_ms = self._slo_ms if self._options.drops else None
        left = Left(self._trace, self.ids, before.created_ms, deadline_ms)
        client = open_client(self.settings, stack)
        driver = Driver(left, client.submit, epoch_ms, [self.ids[number] for number in before.created_ms])
        follow(client, driver, stack, before.since_ms or int(epoch_ms()) - AHEAD_MS)
        if before.created_ms:
            self._teller.note(f"{len(before.created_ms)} of {driver.total} were published before; {len(left)} are left")
        if self._hosted is not None and len(left):
            self._hosted.warm_up(client, f"warm-up-{int(epoch_ms())}", 0)
        return driver

    def _drive(self, driver: Driver, stack: ExitStack) -> None:
        start, generated = self.ids.start.encode(), GeneratedCounter()
        since_ms = int(epoch_ms()) - AHEAD_MS
        follower = TopicTailer(
            self.settings,
            [IMAGES],
            lambda record: generated.on_record(record) if (record.key or b"").startswith(start) else None,
            since_ms=since_ms,
        )
        stack.callback(follower.start().close)

        def on_tick() -> None:
            if self._hosted is not None:
                self._hosted.supervise()
            sent, ended, newest = driver.counts()
            images, again = generated.counts()
            self._teller.state(
                RunState(total=driver.total, sent=sent, generated=images, escalated=again, ended=ended, newest=newest)
            )

        if not drive(driver, on_tick, time.sleep):
            self._teller.note("nothing has moved for two minutes: giving up waiting")
        on_tick()
