"""Arrivals and ends by the second, over the last minutes."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from planner.observation.results import says_nothing_of_the_service
from schemas.messages import Result, Status

SPAN_S: Final = 600  # that is remembered
RECENT_S: Final = 300  # window of shares
DEMAND_S: Final = 30  # window of the demand, as the planner's


@dataclass(slots=True)
class Second:
    """The counts of one second."""

    arrived: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    by_clients: Counter[str] = field(default_factory=Counter)  # of `statuses`: for a fault of the request, or cancelled
    levels: Counter[str] = field(default_factory=Counter)  # of images
    strategies: Counter[str] = field(default_factory=Counter)  # of the plans that images were made by
    in_time: int = 0
    late: int = 0
    escalated: int = 0
    switched: int = 0  # ended, and a switch of the plan fell between their beginning and their end
    reused: int = 0
    work_ms: float = 0.0  # of workers, for what ended
    cost: float = 0.0  # of that time, where prices are stated
    misses: Counter[str] = field(default_factory=Counter)

    @property
    def ours(self) -> Counter[str]:
        """The ends that say something of the service."""
        return self.statuses - self.by_clients


class TrafficCounts:
    """Counts of arrivals and results for each second of the broker's clock. One thread writes, any reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[int, Second] = {}

    def on_arrival(self, at_ms: int) -> None:
        """Count a request."""
        with self._lock:
            self._at(at_ms).arrived += 1

    def on_end(self, result: Result, at_ms: int, *, is_in_time: bool | None, is_switched: bool, strategy: str) -> None:
        """Count an end. `is_in_time`: None if the request had no deadline and there is no SLO."""
        with self._lock:
            second = self._at(at_ms)
            second.statuses[str(result.status)] += 1
            second.by_clients[str(result.status)] += says_nothing_of_the_service(result.status, result.code)
            second.switched += is_switched
            second.escalated += result.escalated
            second.work_ms += result.generate_ms
            second.cost += result.cost or 0.0
            if is_in_time is not None:
                second.in_time += is_in_time
                second.late += not is_in_time
            if result.status is Status.COMPLETED:
                second.levels[result.level or "?"] += 1
                second.strategies[strategy or "?"] += 1
                second.reused += result.reused
                if result.reuse_miss:
                    second.misses[result.reuse_miss] += 1

    def _at(self, at_ms: int) -> Second:
        number = at_ms // 1000
        found = self._seconds.get(number)
        if found is None:
            found = self._seconds[number] = Second()
            if len(self._seconds) > SPAN_S + 60:
                newest = max(self._seconds)
                for old in [each for each in self._seconds if each < newest - SPAN_S]:
                    del self._seconds[old]
        return found

    def demand_rps(self, now_ms: int) -> float:
        """Arrivals a second, over the last DEMAND_S."""
        return sum(self.arrivals(now_ms, DEMAND_S, 1)) / DEMAND_S

    def arrivals(self, now_ms: int, span_s: int, step_s: int) -> list[int]:
        """Return arrivals of the last whole seconds, in steps, the oldest first."""
        end = now_ms // 1000
        with self._lock:
            counts = [self._seconds[n].arrived if n in self._seconds else 0 for n in range(end - span_s, end)]
        return [sum(counts[at : at + step_s]) for at in range(0, span_s, step_s)]

    def total(self, now_ms: int, span_s: int = RECENT_S) -> Second:
        """Return the sums of the last seconds, with this one."""
        begin, total = now_ms // 1000 - span_s, Second()
        with self._lock:
            for number, second in self._seconds.items():
                if number > begin:
                    total.arrived += second.arrived
                    total.in_time += second.in_time
                    total.late += second.late
                    total.escalated += second.escalated
                    total.switched += second.switched
                    total.reused += second.reused
                    total.work_ms += second.work_ms
                    total.cost += second.cost
                    for name in ("statuses", "by_clients", "levels", "strategies", "misses"):
                        getattr(total, name).update(getattr(second, name))
        return total
