"""Heartbeats: on a period, and at once before and after every window of work, but never closer than 50 ms.

Of a worker that stays what it is only the last beat counts, so a view takes it in when it is next asked about the
variant. Of a worker that comes, goes or changes every beat is taken in at once, in order. A beat on the period that
says no more than a view knows already, as the worker works off what it had, only counts as a sign of life.
"""

from collections import defaultdict

from planner.observation.workers import SERVING, ReceivedHeartbeat
from planner.serving.dispatch.worker import MIN_BEAT_MS
from replay.simulation.event_queue import EventQueue
from replay.simulation.roles.routing.load_view import SimulatedLoadView
from replay.simulation.roles.workers.group import Group
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.messages import Heartbeat, OwnedPartition

NOTHING: list[int] = []
MAX_PENDING_MS = 60_000.0  # after which a heartbeat is taken in unasked: no view may take its worker for silent


class Heartbeats:
    """Workers' heartbeats, which the senders' load views and the planner read at once."""

    def __init__(self, events: EventQueue, timing: Timing, times: CallTimes) -> None:
        self._events, self._period_ms, self._times = events, timing.beat_ms + MIN_BEAT_MS, times
        self._subscriptions: list[Subscription] = []
        self._caught_up_ms = 0.0
        self.groups: dict[str, Group] = {}
        self.last: dict[str, Worker] = {}  # by id, the process of the newest heartbeat

    def subscribe(self, view: SimulatedLoadView) -> "Subscription":
        """A view that subscribes knows the last beats at once."""
        subscription = Subscription(view, self.groups, self.last)
        self._subscriptions.append(subscription)
        for worker in self.last.values():
            subscription.update_at_once(worker)
        return subscription

    def start(self, worker: Worker) -> None:
        """Send a worker's heartbeats from now on."""
        self._beat(worker)
        self._events.repeat(worker.beaten_ms + self._period_ms, self._on_period, worker)

    def now(self, worker: Worker) -> None:
        """Send a heartbeat at once, as others should know of a change before the next one."""
        if self._events.now_ms - worker.beaten_ms >= MIN_BEAT_MS:
            self._beat(worker)
        elif not worker.beat_is_due:
            worker.beat_is_due = True
            self._events.at(worker.beaten_ms + MIN_BEAT_MS, self._on_change, worker)

    def skip(self, ms: float) -> None:
        """Let a time pass in which workers said nothing new."""
        for worker in self.last.values():
            worker.beaten_ms += ms
        for subscription in self._subscriptions:
            subscription.catch_up()

    def goodbye(self, worker: Worker) -> None:
        """Send the last heartbeat of a worker that ends."""
        self._beat(worker)

    def _on_change(self, worker: Worker) -> None:
        if worker.is_up and worker.beat_is_due:
            self._beat(worker)

    def _on_period(self, worker: Worker) -> None:
        if not worker.is_up:
            return
        now_ms = self._events.now_ms
        if now_ms - self._caught_up_ms >= MAX_PENDING_MS:
            self._caught_up_ms = now_ms
            for subscription in self._subscriptions:
                subscription.catch_up()
        if now_ms >= worker.beaten_ms + self._period_ms:  # the sum that was entered: no rounding apart
            if worker.says_nothing_new(now_ms):
                worker.beaten_ms = now_ms
                if worker.call:
                    worker.heard_remaining_ms = worker.remaining_ms(now_ms)
            else:
                self._beat(worker)
        self._events.repeat(worker.beaten_ms + self._period_ms, self._on_period, worker)

    def _beat(self, worker: Worker) -> None:
        now_ms, variant, member = self._events.now_ms, worker.variant, worker.member
        state = worker.reported_state(now_ms) if worker.call else worker.state
        partitions = member.partitions if member is not None else NOTHING
        stays = (
            variant == worker.heard_variant
            and partitions == worker.heard_partitions
            and (state == worker.heard_state or (state in SERVING and worker.heard_state in SERVING))
            and self.last.get(worker.id) is worker
        )
        worker.beaten_ms, worker.beat_is_due = now_ms, False
        worker.heard_variant, worker.heard_state, worker.heard_remaining_ms = variant, state, 0.0
        if member is not None:
            member.has_news = False
            if partitions and (worker.call or member.waiting or member.coming):
                worker.heard_remaining_ms = worker.remaining_ms(now_ms)
        worker.heard_slowness = worker.logic.slowness if worker.logic is not None else 1.0
        if worker.lookups is not None:
            worker.heard_reuse = worker.lookups.report()
        if worker.components is not None:
            worker.heard_components = worker.components.report()
        if stays:
            for subscription in self._subscriptions:
                subscription.pending[variant][worker.id] = worker
        else:
            self.last[worker.id], worker.heard_partitions = worker, list(partitions)
            for subscription in self._subscriptions:
                subscription.update_at_once(worker)

    def backlog_ms(self) -> float:
        """Return the ms of work that waits per worker, by the newest heartbeats."""
        return sum([worker.heard_remaining_ms for worker in self.last.values()]) / max(1, len(self.last))

    def live_backlog_ms(self, silent_ms: float) -> float:
        """Return the ms of work that waits per live worker, by the newest heartbeats."""
        earliest_ms = int(self._events.now_ms) - int(silent_ms)
        live = [w.heard_remaining_ms for w in self.last.values() if w.beaten_ms >= earliest_ms]
        return sum(live) / max(1, len(live))

    def heartbeats(self) -> dict[str, ReceivedHeartbeat]:
        """The last one of each worker, as the planner and other workers have read it."""
        return {worker_id: _received(worker) for worker_id, worker in self.last.items()}


class Subscription:
    """The beats that a view has not taken in yet."""

    def __init__(self, view: SimulatedLoadView, groups: dict[str, Group], last: dict[str, Worker]) -> None:
        """`groups`: by variant; `last`: by id, the process of the newest heartbeat."""
        self.pending: defaultdict[str, dict[str, Worker]] = defaultdict(dict)  # variant -> id -> its worker
        self._view, self._groups, self._last = view, groups, last

    def catch_up(self) -> None:
        """Take in all heartbeats."""
        for variant in list(self.pending):
            self.listen(variant)
        self.take_in_signs_of_life()

    def take_in_signs_of_life(self) -> None:
        """Read when each worker sent its newest heartbeat, to find silent workers."""
        for worker_id, worker in self._last.items():
            self._view.on_sign_of_life(worker_id, worker.beaten_ms)

    def listen(self, variant: str) -> None:
        """Take in the beats of a variant's workers."""
        pending = self.pending[variant]
        if pending:
            for worker in pending.values():
                self._pass_on(worker)
            pending.clear()

    def update_at_once(self, worker: Worker) -> None:
        """Take in the beat of a worker that is not what it was; its earlier beats count no more.

        First those that others of its variant have sent before: they may claim partitions that are this one's now, and
        the newest claim holds.
        """
        for pending in self.pending.values():
            pending.pop(worker.id, None)
        self.listen(worker.heard_variant)
        self._pass_on(worker)

    def _pass_on(self, worker: Worker) -> None:
        variant, state, remaining_ms = worker.heard_variant, worker.heard_state, worker.heard_remaining_ms
        partitions = worker.heard_partitions
        ends = self._groups[variant].ends if partitions else NOTHING
        self._view.update_from_heartbeat(
            worker.id, variant, state, partitions, ends, remaining_ms, worker.beaten_ms, worker.heard_slowness
        )
        if worker.heard_components is not None:
            self._view.on_components(worker.id, worker.heard_components.held, worker.beaten_ms)


def _received(worker: Worker) -> ReceivedHeartbeat:
    at_ms = int(worker.beaten_ms)
    owned = (OwnedPartition(partition=0, end_offset=0, remaining_ms=round(worker.heard_remaining_ms)),)
    heartbeat = Heartbeat(
        worker_id=worker.id, state=worker.heard_state, variant=worker.heard_variant, plan_version=0, sent_ms=at_ms,
        partitions=owned, reuse=worker.heard_reuse, components=worker.heard_components,
        slowness=worker.heard_slowness,
    )  # fmt: skip
    return ReceivedHeartbeat(heartbeat, at_ms)
