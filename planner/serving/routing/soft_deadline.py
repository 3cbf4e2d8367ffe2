"""The time by which a request should be answered, and what is done about one that would be later.

A request's own deadline is hard: nothing is begun that would miss it, and past it the request is EXPIRED. Without one,
interactive and standard requests have a soft deadline, the time of their record on `prompts` and the SLO: it decides
between a draft, a cheaper level and an escalation, and nothing is EXPIRED by it. Work that no client waits for goes
on although it is late, so that requests that an outage held up are served as any other once it is over. Batch requests
wait for hours at their gate, and have none.

The router (`routing.py`), the discriminator (`escalation.py`), the worker (`refuge.py`) and the simulator's ask
`Deadlines.of`; `joint` values its plans as they decide.
"""

from typing import NamedTuple

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.catalog.option_limits import BATCH_TIER
from planner.catalog.options import AS_IT_IS, resolve_options, resolved_ms
from planner.serving.deadlines import can_meet
from planner.serving.requests import ClassifiedValues, RequestValues


class Due(NamedTuple):
    """The time by which a request should be answered."""

    at_ms: float | None  # on the clock of `now_ms`; None: any time will do
    is_soft: bool = False  # nothing ends with it

    @property
    def name(self) -> str:
        """What it is, in reasons."""
        return "the SLO's end at" if self.is_soft else "deadline_ms"

    def allows(self, finish_ms: float, wait_ms: float) -> bool:
        """Whether work that begins after `wait_ms` and ends at `finish_ms` is worth beginning.

        Past a soft deadline it is where no work waits before it.
        """
        return can_meet(self.at_ms, finish_ms) or (self.is_soft and wait_ms <= 0)


WHENEVER = Due(None)


def soft_slo_ms(asked_s: float, catalog: Catalog, max_backlog_s: float, interactive_headroom: float) -> float:
    """Return the SLO of requests without a deadline, in ms. `asked_s`: 0: none is asked for.

    The one asked for, else the catalog's, else the longest wait to which standard requests are admitted: no escalation
    is without a bound, and a draft is kept rather than a request rejected. The planner plans for the same one: with a
    shorter one it reckons that drafts are kept, while routers wait for the next level and reject what has no room.
    """
    return 1000 * (asked_s or catalog.slo_s or max_backlog_s * (1 - interactive_headroom))


class Deadlines:
    """The deadlines of requests, hard and soft."""

    def __init__(self, catalog: Catalog, slo_ms: float) -> None:
        """`slo_ms`: that requests without a deadline should be answered within; 0: they have no soft one."""
        self._best, self._slo_ms = catalog.best(), slo_ms

    def of(self, classified: ClassifiedValues) -> Due:
        """Return the deadline of a request: its own, else a soft one, else none.

        The SLO is of a plain request: one whose options take the best level k times as long has k times the SLO.
        """
        request = classified.request
        if request.deadline_ms is not None:
            return Due(request.deadline_ms)
        if self._slo_ms <= 0 or request.tier == BATCH_TIER:
            return WHENEVER
        return Due(classified.received_ms + self._slo_ms * self._times_plain(request), is_soft=True)

    def _times_plain(self, request: RequestValues) -> float:
        """Run time of the request on the best level as a multiple of a plain one's, at least 1."""
        options = request.options
        if options is AS_IT_IS or options == AS_IT_IS:
            return 1.0
        return max(1.0, resolved_ms(self._best, resolve_options(options, self._best)) / run_ms(self._best, 1))
