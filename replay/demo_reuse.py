"""The part of a demo that shows reuse: it freezes the vector store for a while, and notes the plans' strategies.

A switch is noted only if a plan shows it.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from planner.policies import SWITCHES_STRATEGY
from replay.demo_options import Reuse
from replay.load.driver import Driver
from replay.local.freezing import StoreFreezer, lite_pid
from replay.local.hosting import LocalDeployment, epoch_ms
from replay.reports.reuse import REUSE, Course, describe_switch, switches
from schemas.messages import Plan

Note = Callable[[str], None]

MIN_HITS = 5  # images that began from earlier ones before the store is frozen: without any there is nothing to leave
GUARDED = (
    "images are reused within the measured floors, where the guard finds the same facts (planner.parameters.guarded)"
)
AS_PUBLISHED = (
    "the nearest stored image is used whatever it shows, as ARGUS publishes it: images may show facts of others"
)
NO_PROFILE = "nothing will be reused: the catalog has no measurements of reuse (`pochade profile --reuse` makes them)"
NOT_OURS = "the vector store will not be frozen: this demo did not start it"


class ReuseShow:
    """The part of a run that is about reuse. `on_tick` is called often, by the thread that drives the run."""

    def __init__(self, reuse: Reuse, hosted: LocalDeployment, freeze_s: float, note: Note) -> None:
        """`freeze_s`: how long the vector store is frozen; 0: never."""
        self._reuse, self._hosted, self._note = reuse, hosted, note
        self._freezer = StoreFreezer(lambda: lite_pid(hosted.settings), freeze_s, epoch_ms)
        self._noted = 0  # changes of strategy
        self._began_ms = 0.0

    def start(self, stack: ExitStack) -> None:
        """Say what will not be shown; whatever happens, the store goes on as `stack` closes."""
        stack.callback(self._freezer.close)
        self._began_ms = epoch_ms()
        planner = self._hosted.settings.planner
        peak = planner.parameters.get("overprovision")
        if self._reuse is Reuse.SHOWN and peak is not None:
            self._note(f"planned for {peak:g} times the demand (planner.parameters.overprovision), as at a peak")
        if self._reuse is Reuse.SHOWN and planner.policy in SWITCHES_STRATEGY:
            self._note(GUARDED if planner.parameters.get("guarded", 0) > 0 else AS_PUBLISHED)
        if self._reuse is Reuse.UNMEASURED:
            self._note(NO_PROFILE)
        elif self._reuse is Reuse.SHOWN and self._freezer.is_to_come and not self._hosted.owns_vectors:
            self._note(NOT_OURS)

    def on_tick(self, driver: Driver) -> None:
        """Freeze the store after a fifth of the requests, once some were reused; note new strategies."""
        if self._reuse is not Reuse.SHOWN:
            return
        plans = self._hosted.ready.plans()
        self._note_switches(plans)
        sent, _, _ = driver.counts()
        is_due = self._freezer.is_to_come and self._hosted.owns_vectors and 5 * sent >= driver.total
        if is_due and plans and plans[-1].strategy == REUSE and self._hosted.ready.reused() >= MIN_HITS:
            self._freezer.begin()
            self._note("the vector store is frozen (SIGSTOP): lookups get no answer, and images begin from noise")
        elif self._freezer.check():
            self._note("the vector store goes on (SIGCONT): workers test it in the background before they use it")

    def _note_switches(self, plans: Sequence[Plan]) -> None:
        changes = switches(plans)
        for before, after in changes[self._noted :]:
            self._note(describe_switch(before, after))
        self._noted = len(changes)

    def finish(self) -> Course | None:
        """Let the store go on, and return the course of the run; None where no plan could reuse images."""
        self._freezer.close()
        if self._reuse is not Reuse.SHOWN:
            return None
        plans = tuple(self._hosted.ready.plans())
        return Course(plans=plans, frozen=self._freezer.frozen, began_ms=self._began_ms, ended_ms=epoch_ms())
