"""The demo: the whole pipeline on this machine, from nothing to a report and a gallery, and all of it stopped again."""

import datetime
import json
import pathlib
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final

from planner.policies import JUDGES_ALL
from replay.demo_options import WARM_UPS, DemoOptions, Reuse, due_of, freeze_s_of, parameters_of, reuse_of
from replay.demo_reuse import ReuseShow
from replay.load.driver import Driver, audit, drive
from replay.local.deployment import own_deployment, settings_shown, versions
from replay.local.hosting import LocalDeployment, epoch_ms, follow, open_client
from replay.local.readiness import GeneratedCounter
from replay.reports import demo_report, gallery
from replay.reports.progress import ProgressReporter, RunState
from replay.reports.reuse import Course
from replay.reports.reuse_sources import ReuseSource, sources_of
from schemas.errors import PochadeError
from schemas.messages import Result
from schemas.topics import IMAGES
from streams.catalogs import load as load_catalog
from streams.control.topic import order
from streams.kafka.consumers.consumer import TopicTailer
from streams.operator.client import RequestClient
from streams.settings import Settings
from streams.store.open import open_store

SURE: Final = 0.9  # confidence from which the demo keeps a first image: a fifth of the tiny family's drafts have it


class Demo:
    """One run of the demo; `began_s`: epoch seconds when the command began. `run` may be called once."""

    def __init__(
        self, settings: Settings, inherited: Settings, options: DemoOptions, teller: ProgressReporter, began_s: float
    ):
        began = datetime.datetime.fromtimestamp(began_s, datetime.UTC)
        self._options, self._teller, self._began_s, self._started = (
            options,
            teller,
            began_s,
            began.isoformat(timespec="seconds"),
        )
        reuse = reuse_of(options, settings)
        is_shown = reuse is Reuse.SHOWN
        self._due = due_of(options, reuse, teller.note)
        self.settings = own_deployment(
            settings,
            f"{settings.kafka.prefix}-demo-{began:%m%d-%H%M%S}",
            catalog=options.catalog,
            engine=options.engine,
            policy=options.policy,
            workers=options.workers,
            vectors_url="lite" if is_shown and not settings.vectors.url else None,
            parameters=parameters_of(options, self._due, settings) if is_shown else None,
        )
        worker_ids = [f"worker-{number}" for number in range(1, options.workers + 1)]
        self._hosted = LocalDeployment(self.settings, inherited, worker_ids, teller)
        self._warm_ups = WARM_UPS if is_shown else 1
        self._show = ReuseShow(reuse, self._hosted, freeze_s_of(options), teller.note)
        self._is_switched = bool(options.policy)  # a policy that was asked for stays
        folder = self.settings.home / "demo"
        self.report_path = options.report or folder / "report.json"
        self.gallery_path = options.gallery or folder / "gallery.html"

    def run(self, on_end: Callable[[dict[str, Any]], None], keep: Callable[[Callable[[], None]], None]) -> None:
        """Run the demo. `on_end` gets the report while the roles still run; `keep` is called to wait, if asked for.

        Raises:
            PochadeError: something could not be started or read; the message says what to do.
        """
        hosted, generated = self._hosted, GeneratedCounter()
        with ExitStack() as stack:
            hosted.start(stack)
            stack.callback(TopicTailer(self.settings, [IMAGES], generated.on_record).start().close)
            ready_s = time.time() - self._began_s
            client = open_client(self.settings, stack)
            driver = Driver(self._due, client.submit, epoch_ms)
            follow(client, driver, stack)
            probe = self._warm_up(client)
            self._show.start(stack)
            self._drive(driver, generated)
            facts = self._facts(probe, driver, ready_s, self._show.finish())
            again = list[Result]()
            reading = client.follow(again.append)
            stack.callback(reading.close)
            reading.wait_caught_up(60)
            on_end(self._finish(driver.accepted(), again, facts))
            if self._options.is_kept:
                keep(hosted.supervise)
            self._teller.phase("stopping")

    def _warm_up(self, client: RequestClient) -> Driver:
        probe = self._hosted.warm_up(client, "warm-up", self._options.seed, self._warm_ups)
        if probe.first_completed_ms is not None:
            self._teller.note(f"first image after {probe.first_completed_ms / 1000 - self._began_s:.1f} s")
        return probe

    def _drive(self, driver: Driver, generated: GeneratedCounter) -> None:
        before = generated.counts()

        def on_tick() -> None:
            self._hosted.supervise()
            self._teller.state(state_of(driver, generated, before))
            self._switch(driver)
            self._show.on_tick(driver)

        if not drive(driver, on_tick, time.sleep):
            self._teller.note("nothing has moved for two minutes: giving up waiting")
        on_tick()
        self._teller.phase("reading all results again")

    def _switch(self, driver: Driver) -> None:
        """Order another policy while requests are under way, as an operator could, unless one was asked for."""
        sent, _, _ = driver.counts()
        if not self._is_switched and 3 * sent >= driver.total:
            self._is_switched = True
            order(self.settings, JUDGES_ALL, {"threshold": SURE})
            pinned = f"pochade plan pin {JUDGES_ALL} --parameter threshold={SURE:g}"
            self._teller.note(f"`{pinned}`: from now on every first image is judged, and kept where the judge is sure")

    def _facts(self, probe: Driver, driver: Driver, ready_s: float, course: Course | None) -> demo_report.RunFacts:
        first_ms = probe.first_completed_ms or driver.first_completed_ms
        return demo_report.RunFacts(
            started=self._started,
            seconds=time.time() - self._began_s,
            first_image_s=None if first_ms is None else first_ms / 1000 - self._began_s,
            ready_s=ready_s,
            lateness_ms=tuple(driver.lateness_ms),
            restarts=self._hosted.roles.restarts,
            plans=tuple(self._hosted.ready.plans()),
            versions=versions(),
            settings=settings_shown(self.settings),
            course=course,
        )

    def _finish(
        self, accepted: Sequence[str], results: Sequence[Result], facts: demo_report.RunFacts
    ) -> dict[str, Any]:
        store, audited = open_store(self.settings), audit(accepted, results)
        images, broken = demo_report.open_images(audited.results, store)
        built = demo_report.build(audited, images, broken, facts)
        levels = list(load_catalog(self.settings.catalog).variants)
        write(self.report_path, json.dumps(built, indent=2, ensure_ascii=False) + "\n")
        page = gallery.render(built, audited.results, store, levels, self._sources(audited.results, results, facts))
        write(self.gallery_path, page)
        return built

    def _sources(
        self, results: Sequence[Result], earlier: Sequence[Result], facts: demo_report.RunFacts
    ) -> dict[str, ReuseSource]:
        try:
            return sources_of(results, earlier, facts.plans)
        except PochadeError as error:
            self._teller.note(f"the gallery shows no sources: {error}")
            return {}


def state_of(driver: Driver, generated: GeneratedCounter, before: tuple[int, int]) -> RunState:
    """Return how far the run is, by what was sent and read; `before`: counts of images from before the run."""
    sent, ended, newest = driver.counts()
    images, escalated = (now - then for now, then in zip(generated.counts(), before, strict=True))
    return RunState(total=driver.total, sent=sent, generated=images, escalated=escalated, ended=ended, newest=newest)


def write(path: pathlib.Path, text: str) -> None:
    """A file, with its folder. Raises PochadeError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PochadeError(f"cannot write {path}: {error.strerror}; name another place with an option") from error
