"""The state of one simulated worker process."""

from collections.abc import Sequence

from planner.serving.dispatch.worker import (
    WorkerLogic,
    attempts_before,
    counted_attempts,
    remaining_ms,
    reported_state,
)
from planner.serving.generating.window import WindowLogic
from replay.simulation.job import Job
from replay.simulation.roles.workers.component_state import ComponentState
from replay.simulation.roles.workers.group import Member
from replay.simulation.roles.workers.worker_lookups import WorkerLookups
from schemas.messages import ReuseHealth, WorkerComponents


class Worker:
    """The state of a worker, as in `agents/worker/role.py`. A process that comes back is a new one with an equal id."""

    __slots__ = (
        "beat_is_due", "beaten_ms", "busy_ms", "call", "call_ms", "components", "heard_components",
        "heard_partitions", "heard_remaining_ms", "heard_reuse", "heard_slowness", "heard_state", "heard_variant",
        "id", "is_absolved", "is_probing", "is_up", "load_ms", "loads_beside", "logic", "lookups", "member",
        "open_id", "resident", "sent", "since_ms", "speed", "started_ms", "state", "stopped_ms", "taken",
        "variant", "window",
    )  # fmt: skip

    def __init__(self, worker_id: str, now_ms: float) -> None:
        self.id, self.is_up = worker_id, True
        self.speed = 1.0  # of its calls; 1: as profiled
        self.state = "starting"  # as in Heartbeat
        self.variant = ""  # that it serves or loads
        self.resident: list[str] = []  # variants whose models it holds, the one served last at the end
        self.loads_beside = ""  # a variant whose model it loads while it serves
        self.member: Member | None = None  # of the variant's group; None: none yet
        self.taken: list[Job] = []  # at once: its window
        self.is_absolved = False  # the window waited for the store: should the worker die, that counts against no job
        self.call: list[Job] = []  # what it works at: being fetched for, looked up, or generated
        self.sent: Sequence[Job] = ()  # the last call whose images are on their way
        self.open_id = -1  # of the effect that it waits for
        self.call_ms = 0.0  # that it takes
        self.load_ms = 0.0  # that its jobs wait for components, of the call's time
        self.since_ms = 0.0
        self.window: WindowLogic[Job] | None = None  # of its variant
        self.logic: WorkerLogic | None = None  # the window's: what the worker reckons with
        self.lookups: WorkerLookups | None = None  # of stored latents; None: no plan has asked it for any
        self.components: ComponentState | None = None  # None: none are simulated
        self.is_probing = False  # a test of the vector store in the background is under way
        self.beaten_ms = now_ms
        self.beat_is_due = False  # sooner than the period says
        self.heard_variant, self.heard_state, self.heard_remaining_ms = "", "", 0.0
        self.heard_slowness = 1.0
        self.heard_partitions: list[int] = []
        self.heard_reuse: ReuseHealth | None = None
        self.heard_components: WorkerComponents | None = None
        self.started_ms, self.stopped_ms = now_ms, -1.0
        self.busy_ms = 0.0

    def suspects(self) -> list[Job]:
        """Return the jobs that a dead worker had begun, with their deaths; none if it waited for the store."""
        taken = self.window.in_hand() if self.window is not None else []
        in_hand = [job for job in taken if job not in self.sent]
        if not self.is_absolved:
            attempts = counted_attempts([(job.deaths or 0) + 1 for job in self.taken])
            for job in in_hand:
                job.deaths = attempts_before(attempts or job.deaths or 0)
        return in_hand

    def reported_state(self, now_ms: float) -> str:
        """Return the state, as in `Heartbeat`."""
        if not self.call or self.logic is None:
            return self.state
        return reported_state(self.state, self.logic.in_hand_ms, now_ms - self.since_ms)

    def says_nothing_new(self, now_ms: float) -> bool:
        """Whether a heartbeat would say what follows from the last one, as the worker does what it predicted."""
        member = self.member
        return (
            member is not None
            and not member.has_news
            and not self.beat_is_due
            and self.lookups is None
            and self.state == self.heard_state
            and self.variant == self.heard_variant
            and (self.logic is None or self.logic.slowness == self.heard_slowness)
            and member.partitions == self.heard_partitions
            and (not self.call or (self.logic is not None and now_ms - self.since_ms <= self.logic.in_hand_ms))
        )

    def remaining_ms(self, now_ms: float) -> float:
        """The work that its heartbeat reports, in ms."""
        assert self.member is not None
        assert self.logic is not None
        left = remaining_ms(self.logic.in_hand_ms, now_ms - self.since_ms) if self.call else 0.0
        waiting = len(self.member.waiting) + self.member.coming
        return self.logic.waiting_ms(waiting) + left if waiting else left
