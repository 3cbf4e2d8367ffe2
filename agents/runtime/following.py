"""Follows the topics of a process's views, and feeds `views.py` record by record."""

from agents.runtime.request_views import InFlightView, PoisonView
from agents.runtime.views import ENDED_WINDOW_MS, EndedView, FleetView, PlanView
from planner.catalog.model import Catalog
from planner.serving.poison import REMEMBERED_MS
from planner.serving.requests import OPEN_MS
from schemas import topics
from schemas.messages import Plan
from schemas.record import Incoming
from streams.clock import now_ms
from streams.control.tail import ControlLog, plan_of, tail
from streams.control.topic import read_plans
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.transactions.barrier import Barrier
from streams.settings import Settings

START_TIMEOUT_S = 60


class Followed:
    """A view that follows its topic from `start` to `close`."""

    def __init__(self, settings: Settings, topic: str, since_ms: int = 0) -> None:
        """`since_ms`: the moment (epoch ms) from which on the topic is read; 0: the beginning."""
        self._follower = TopicTailer(settings, [topic], self.on_record, since_ms=since_ms)

    def on_record(self, record: Incoming) -> None:
        """Take in a record of the topic."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin to follow the topic."""
        self._follower.start()

    def wait_caught_up(self) -> None:
        """Block until the part of the past that the view needs is read. Raises PochadeError: not in time, or denied."""
        self._follower.wait_caught_up(START_TIMEOUT_S)

    def close(self) -> None:
        """Stop following the topic."""
        self._follower.close()


class FollowedPlans(PlanView, Followed):
    """The plan view of a process, with what a planner needs of the control topic besides."""

    def __init__(self, settings: Settings, role: str, catalog: Catalog) -> None:
        PlanView.__init__(self, role, catalog)
        Followed.__init__(self, settings, topics.PLAN)
        self._settings = settings

    def catch_up(self, barrier: Barrier) -> None:
        """Read the plans that former leaders wrote, before writing one after them.

        Those that were handed over are known, and all of them would take longer than a leader may be silent. The end
        that a reader is told may be an old one: that of the barrier is not.
        """
        read_plans(self._settings, self.obey, self.place.read_to, barrier)

    def find(self, version: int) -> Plan | None:
        """Return the first plan of this version, which readers obeyed; None if there was none."""
        with ControlLog(self._settings) as log:
            return plan_of(log, version)

    def start(self) -> None:
        """Begin to follow the topic from the plan and the order in force on; older ones stay unread."""
        with ControlLog(self._settings, START_TIMEOUT_S) as log:
            begin = tail(log, self.fits)
        if begin.pin is not None:
            self.on_record(begin.pin)
        self._follower.start(begin.start)


class FollowedEnds(EndedView, Followed):
    """The ended requests of the last hour, and those that end from now on."""

    def __init__(self, settings: Settings) -> None:
        EndedView.__init__(self)
        Followed.__init__(self, settings, topics.RESULTS, now_ms() - ENDED_WINDOW_MS)


class FollowedPoison(PoisonView, Followed):
    """The marks of requests that ended their workers, of the last hour and those that come."""

    def __init__(self, settings: Settings) -> None:
        PoisonView.__init__(self)
        Followed.__init__(self, settings, topics.POISON, now_ms() - REMEMBERED_MS)


class FollowedInFlight(InFlightView, Followed):
    """The requests that are in flight, whichever process has classified them."""

    def __init__(self, settings: Settings, ended: EndedView) -> None:
        InFlightView.__init__(self, ended)
        Followed.__init__(self, settings, topics.CLASSIFIED, now_ms() - OPEN_MS)


class FollowedFleet(FleetView, Followed):
    """The fleet by its recent heartbeats and those that come."""

    def __init__(self, settings: Settings) -> None:
        silent_ms = settings.planner.worker_timeout_ms
        FleetView.__init__(self, silent_ms, settings.kafka.session_timeout_ms)
        Followed.__init__(self, settings, topics.FLEET, now_ms() - 10 * silent_ms)
