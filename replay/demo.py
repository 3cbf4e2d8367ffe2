"""The demo: the whole pipeline on this machine, from nothing to a report and a gallery, and all of it stopped again."""

import datetime
import json
import pathlib
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from replay import gallery, report
from replay.demo_options import DemoOptions, due_of
from replay.deployment import child_options, own_deployment, roles_of, settings_shown, versions
from replay.driver import Audit, Driver, Due, audit, drive, schedule
from replay.progress import RunState, Teller
from replay.readiness import PaintedView, Readiness
from replay.supervisor import Supervisor
from schemas.errors import PochadeError
from schemas.topics import FLEET, IMAGES, PLAN
from streams import admin, broker
from streams.client import RequestClient
from streams.producer import KafkaRecordProducer
from streams.reading import Follower
from streams.settings import Settings
from streams.stores import open_store

READY_LIMIT_S = 240.0  # five processes load torch at once: 20 s on two cores
TICK_S = 0.05
PROBE = "a red heart"


class Demo:
    """One run, from `began_s` (epoch seconds when the command began) on. `run` may be called once."""

    def __init__(self, settings: Settings, inherited: Settings, options: DemoOptions, teller: Teller, began_s: float):
        began = datetime.datetime.fromtimestamp(began_s, datetime.UTC)
        self._options, self._teller, self._began_s, self._started = (
            options,
            teller,
            began_s,
            began.isoformat(timespec="seconds"),
        )
        self.settings = own_deployment(
            settings,
            began.strftime("%m%d-%H%M%S"),
            catalog=options.catalog,
            engine=options.engine,
            policy=options.policy,
            workers=options.workers,
        )
        self._worker_ids = [f"worker-{number}" for number in range(1, options.workers + 1)]
        self.options_of_children = child_options(self.settings, inherited)
        folder = self.settings.home / "demo"
        self.report_path = options.report or folder / "report.json"
        self.gallery_path = options.gallery or folder / "gallery.html"

    def run(self, on_end: Callable[[dict[str, Any]], None], keep: Callable[[Callable[[], None]], None]) -> None:
        """Everything. `on_end` gets the report while the roles still run; `keep` is called to wait, if asked for.

        Raises:
            PochadeError: what could not be started or read, and what to do.
        """
        due = due_of(self._options)
        with ExitStack() as stack:
            self._start_broker(stack)
            roles = Supervisor(roles_of(self.options_of_children, self._worker_ids), self.settings.home / "logs")
            stack.enter_context(roles).start()
            ready, painted = Readiness(self._worker_ids), PaintedView()
            for topics, view in (([PLAN, FLEET], ready.on_record), ([IMAGES], painted.on_record)):
                stack.callback(Follower(self.settings, topics, view).start().close)
            self._await_ready(ready, roles)
            ready_s = time.time() - self._began_s
            client = self._client(stack)
            probe, driver = (Driver(each, client.submit, _epoch_ms) for each in (self._probe(), due))
            for each in (probe, driver):
                following = client.follow(each.on_result)
                stack.callback(following.close)
                following.wait_caught_up(60)
            self._warm_up(probe, roles)
            self._drive(driver, roles, painted)
            facts = self._facts(probe, driver, ready, roles, ready_s)
            on_end(self._finish(audit(driver.accepted(), client.results()), facts))
            if self._options.is_kept:
                keep(lambda: self._look_after(roles))
            self._teller.phase("stopping")

    def _start_broker(self, stack: ExitStack) -> None:
        self._teller.phase("starting the broker")
        if broker.find(self.settings) is None:
            stack.callback(broker.stop, self.settings)
        address = broker.ensure(self.settings, self._teller.note)
        self._teller.phase(f"broker at {address.bootstrap}; creating topics {self.settings.kafka.prefix}.*")
        admin.create_topics(self.settings)

    def _await_ready(self, ready: Readiness, roles: Supervisor) -> None:
        end_s = time.monotonic() + READY_LIMIT_S
        while missing := ready.missing():
            self._teller.phase("waiting for " + ", ".join(missing))
            self._look_after(roles, is_starting=True)
            if time.monotonic() > end_s:
                raise PochadeError(
                    f"not ready after {READY_LIMIT_S:g} s: still waiting for {', '.join(missing)}; "
                    f"see the logs in {self.settings.home / 'logs'}"
                )
            time.sleep(TICK_S)

    def _look_after(self, roles: Supervisor, *, is_starting: bool = False) -> None:
        for note in roles.check(is_starting=is_starting):
            self._teller.note(note)

    def _client(self, stack: ExitStack) -> RequestClient:
        producer = KafkaRecordProducer(self.settings)
        stack.callback(producer.close)
        return stack.enter_context(RequestClient(self.settings, producer))

    def _probe(self) -> list[Due]:
        return schedule("warm-up", [PROBE], [0.0], self._options.seed)

    def _warm_up(self, probe: Driver, roles: Supervisor) -> None:
        """One prompt goes all the way first, so that what is measured is serving, not starting."""
        self._teller.phase("waiting for a first picture")
        if not drive(probe, lambda: self._look_after(roles), time.sleep):
            raise PochadeError(
                f"the first prompt has no result after two minutes; see the logs in {self.settings.home / 'logs'}"
            )
        if probe.first_completed_ms is not None:
            self._teller.note(f"first picture after {probe.first_completed_ms / 1000 - self._began_s:.1f} s")

    def _drive(self, driver: Driver, roles: Supervisor, painted: PaintedView) -> None:
        before = painted.counts()

        def on_tick() -> None:
            self._look_after(roles)
            self._teller.state(state_of(driver, painted, before))

        if not drive(driver, on_tick, time.sleep):
            self._teller.note("nothing has moved for two minutes: giving up waiting")
        on_tick()
        self._teller.phase("reading all results again")

    def _facts(
        self, probe: Driver, driver: Driver, ready: Readiness, roles: Supervisor, ready_s: float
    ) -> report.RunFacts:
        first_ms = probe.first_completed_ms or driver.first_completed_ms
        return report.RunFacts(
            started=self._started,
            seconds=time.time() - self._began_s,
            first_picture_s=None if first_ms is None else first_ms / 1000 - self._began_s,
            ready_s=ready_s,
            lateness_ms=tuple(driver.lateness_ms),
            restarts=roles.restarts,
            plans=tuple(ready.plans()),
            versions=versions(),
            settings=settings_shown(self.settings),
        )

    def _finish(self, audited: Audit, facts: report.RunFacts) -> dict[str, Any]:
        store = open_store(self.settings)
        pictures, broken = report.open_pictures(audited.results, store)
        built = report.build(audited, pictures, broken, facts)
        _write(self.report_path, json.dumps(built, indent=2, ensure_ascii=False) + "\n")
        _write(self.gallery_path, gallery.render(built, audited.results, store))
        return built


def _epoch_ms() -> float:
    return time.time() * 1000


def state_of(driver: Driver, painted: PaintedView, before: tuple[int, int]) -> RunState:
    """How far the run is, from what was sent and read; `before`: what was painted before it."""
    sent, ended, newest = driver.counts()
    pictures, escalated = (now - then for now, then in zip(painted.counts(), before, strict=True))
    return RunState(total=driver.total, sent=sent, painted=pictures, escalated=escalated, ended=ended, newest=newest)


def _write(path: pathlib.Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PochadeError(f"cannot write {path}: {error.strerror}; name another place with an option") from error
