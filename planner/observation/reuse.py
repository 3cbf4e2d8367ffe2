"""Observes reuse: results of lookups, from heartbeats, and the steps that they save, from results."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from planner.catalog.entries import reuse_step, variant_of
from planner.catalog.model import Catalog
from planner.catalog.validate import is_amount, is_share
from planner.observation.workers import ReceivedHeartbeat
from planner.reuse.lookups.health import FAILING
from schemas.messages import ReuseHealth

MAX_JOBS: Final = 200  # of each level, the newest: few enough that a change of how prompts repeat is soon seen
UNANSWERED: Final = frozenset({"timeout", "failed", "breaker", "absent"})  # these say nothing of how prompts repeat


class ObservedHits(NamedTuple):
    """The steps that a level's recent jobs saved."""

    jobs: int  # that were answered, or not asked for
    rate: float  # steps saved / steps that the level lets be saved, [0, 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReuse:
    """The lookups of live workers that report any, each worker weighted by its lookups."""

    lookups: int = 0  # looked back on, probes in the background included
    unanswered: float = 0.0  # share of them that failed or were cut by their deadline
    failing: float = 0.0  # share of the workers whose breaker is open as the stores do not answer
    p50_ms: float = 0.0  # of a lookup
    p95_ms: float = 0.0
    hits: dict[str, ObservedHits] = field(default_factory=dict)  # level -> what it saved


class ReuseLog:
    """The steps that jobs of reuse levels saved, by the ends of their requests."""

    def __init__(self) -> None:
        self._saved: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MAX_JOBS))

    def clear(self) -> None:
        """A reader begins again with the window."""
        self._saved.clear()

    def add(self, level: str, step: int, steps: int, miss: str, catalog: Catalog) -> None:
        """Add a job of a level, such as "heavy~k4", that began at `step` of `steps`.

        One that no store answered is left out, as is one of a level that the catalog does not hold (any more), or that
        lets nothing be saved.
        """
        variant = catalog.variants.get(variant_of(level))
        most = reuse_step(level)
        if variant is None or not most or not steps or miss.partition("/")[0] in UNANSWERED:
            return
        self._saved[level].append(max(0.0, min(1.0, step / steps * variant.steps / most)))

    def observed(self, heartbeats: Mapping[str, ReceivedHeartbeat], live: Iterable[str]) -> ObservedReuse | None:
        """Return the live workers' reports and the steps saved; None without any lookup.

        A report with impossible figures is ignored, so that no heartbeat can keep the planner from planning.
        """
        received = (heartbeats.get(worker_id) for worker_id in live)
        stated = (each.heartbeat.reuse for each in received if each is not None)
        reports = [report for report in stated if report is not None and _is_possible(report)]
        if not reports and not self._saved:
            return None
        hits = {level: ObservedHits(len(jobs), sum(jobs) / len(jobs)) for level, jobs in sorted(self._saved.items())}
        return _together(reports, hits)


def _is_possible(report: ReuseHealth) -> bool:
    return is_share(report.unanswered) and all(map(is_amount, (report.lookups, report.p50_ms, report.p95_ms)))


def _together(reports: list[ReuseHealth], hits: dict[str, ObservedHits]) -> ObservedReuse:
    lookups = sum(report.lookups for report in reports)
    failing = sum(report.breaker == FAILING for report in reports) / max(1, len(reports))
    if not lookups:
        return ObservedReuse(failing=failing, hits=hits)
    unanswered, p50_ms, p95_ms = (
        sum(report.lookups * getattr(report, name) for report in reports) / lookups
        for name in ("unanswered", "p50_ms", "p95_ms")
    )
    return ObservedReuse(
        lookups=lookups,
        unanswered=min(1.0, unanswered),
        failing=failing,
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        hits=hits,
    )
