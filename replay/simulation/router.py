"""The router: `classified` -> a job on the level that the plan draws. The rules are planner's."""

from planner.backlog import Refused
from planner.catalog import Catalog
from planner.placement import first_fit
from planner.routing import choose_level
from replay.simulation.agenda import Agenda
from replay.simulation.board import Board
from replay.simulation.fleet import Fleet
from replay.simulation.job import Job
from replay.simulation.pulse import Pulse
from replay.simulation.sender import Sender
from replay.simulation.setup import Timing
from replay.simulation.tally import Tally
from replay.simulation.times import Begun, CallTimes, LevelTimes
from schemas.messages import Status

NO_CLASSES: dict[str, str] = {}


class Router(Sender):
    """Requests without wishes: quality `auto`, no options. So the plan's draw is what `wished` comes to."""

    def __init__(
        self, agenda: Agenda, board: Board, fleet: Fleet, pulse: Pulse, timing: Timing, times: CallTimes,
        catalog: Catalog, tally: Tally,
    ) -> None:  # fmt: skip
        super().__init__(agenda, board, fleet, pulse, timing, times)
        pulse.tell(self._view)
        self._tally, self._most_backlog_ms = tally, timing.most_backlog_ms
        self._begun, self._waits = Begun(), Waits(self)
        self._run_ms = LevelTimes(times, self._begun).__getitem__
        self._lower = Lower(catalog, self._begun).__getitem__

    def _serve(self, job: Job) -> bool:
        if not job.variant and not self._decide(job):
            return True
        return self._place(job)

    def _decide(self, job: Job) -> bool:
        """Its level; False: it has ended instead."""
        board, waits = self._board, self._waits
        classes = job.draws.classes[job.row] if board.has_classes else NO_CLASSES
        wanted = choose_level(board.plan, job.id, job.draws.hardness[job.row], classes).level
        waits.clear()
        level = first_fit(
            wanted, self._lower, waits, self._run_ms, job.deadline_ms, self._agenda.now_ms, self._most_backlog_ms
        )  # fmt: skip
        if level is None or isinstance(level, Refused):
            self._tally.ended(Status.EXPIRED if level is None else Status.REJECTED)
            return False
        job.level, (job.variant, job.step) = level, self._begun[level]
        return True

    def wait_ms(self, level: str) -> float:
        """Until the least loaded worker of a level is free, as the router sees it."""
        return self._lineup(self._begun[level][0]).wait_ms(self._agenda.now_ms)


class Waits(dict[str, float]):
    """level -> ms at one moment, looked up only for levels that are asked for."""

    def __init__(self, router: Router) -> None:
        super().__init__()
        self._router = router

    def __missing__(self, level: str) -> float:
        self[level] = self._router.wait_ms(level)
        return self[level]


class Lower(dict[str, list[str]]):
    """level -> the cheaper ones that may stand in for it."""

    def __init__(self, catalog: Catalog, begun: Begun) -> None:
        super().__init__()
        self._catalog, self._begun = catalog, begun

    def __missing__(self, level: str) -> list[str]:
        self[level] = [variant.name for variant in self._catalog.cheaper_than(self._begun[level][0])]
        return self[level]
