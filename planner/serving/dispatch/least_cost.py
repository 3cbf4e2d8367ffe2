"""Chooses the worker of a job that needs components: the one with the least cost to this job and those behind it.

    cost = queued work + load time of the components that it lacks then + run time                                ms
         + load time x jobs that will wait behind it; as many as wait before it: queued work / run time

Jobs behind wait for loads too. If each job minimised its own time alone, it would load components that another worker
holds, and the loads would grow the queues (measured in replay/bench/README.md). At an idle worker no job waits, so the
second line is 0.

Source: MLoRA 6 and 7.2: a router that is "cost-aware", considers "both queue state and cache locality", and minimises
"end-to-end latency rather than merely balancing computational load"; it gives no formula. `dispatch.py` chooses among
workers that all have loaded what a job needs, and looks at few of them; this module looks at each.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from planner.serving.dispatch.free_times import any_of
from schemas.errors import Unknown

KINDS: Final = ("least-cost", "pull", "random", "round-robin")
BY_COST: Final = frozenset({"least-cost", "pull"})  # kinds that look at what workers lack


class Option(NamedTuple):
    """A worker that may get a job."""

    queued_ms: float  # until it has done all that it has; 0: it is idle
    load_ms: float  # then, to load the components of the job that it lacks; what its queued jobs load counts as loaded
    run_ms: float  # then, to generate the image

    @property
    def cost_ms(self) -> float:
        """Time until the job is done there, and what its loading adds to that of the jobs behind it."""
        behind = self.queued_ms / self.run_ms if self.run_ms > 0 else 0.0
        return self.queued_ms + self.load_ms * (1.0 + behind) + self.run_ms


def pick(kind: str, options: Sequence[Option], request_id: str, sent_before: int) -> int | None:
    """Return the place in `options` of the worker for a job; None if there is none, or (pull) none is idle.

    Source of pull: OctoAI, "Pull-based Routing", whose workers take the first request of the queue whenever they are
    idle, and its plan of "cache-aware routing".

    `sent_before`: the sender's jobs to this variant so far. Equal arguments choose equally: ties are drawn by the
    request's own random number. Raises Unknown for a kind that is not in KINDS.
    """
    if kind not in KINDS:
        raise Unknown("dispatch", kind, KINDS)
    if not options:
        return None
    if kind == "round-robin":  # the baseline of MLoRA 7.1 and of OctoAI's push routing
        return sent_before % len(options)
    if kind == "random":  # the other baseline of OctoAI's push routing
        return any_of(range(len(options)), request_id)
    if kind == "pull":  # where no worker is idle, the job waits in the one queue
        idle = [place for place, option in enumerate(options) if option.queued_ms <= 0]
        return _argmin(idle, lambda place: options[place].load_ms, request_id)
    return _argmin(range(len(options)), lambda place: options[place].cost_ms, request_id)


def _argmin(places: Sequence[int], cost: Callable[[int], float], request_id: str) -> int | None:
    if not places:
        return None
    costs = [cost(place) for place in places]
    lowest = min(costs)
    return any_of([place for place, each in zip(places, costs, strict=True) if each == lowest], request_id)
