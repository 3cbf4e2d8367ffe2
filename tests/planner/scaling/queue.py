"""A queue with a changing number of servers, to try out what scales them: one period at a time, without a clock."""

import random
from collections import deque
from heapq import heappop, heappush


class ServerQueue:
    """Poisson arrivals, exponential service, first come first served; times in s."""

    def __init__(self, servers: int, service_s: float, dice: random.Random) -> None:
        self.servers = servers
        self._service_s = service_s
        self._dice = dice
        self._waiting: deque[float] = deque()  # when each arrived
        self._running: list[float] = []  # when each ends
        self._now_s = 0.0
        self.waits_s: list[float] = []

    def run(self, arrivals_per_s: float, period_s: float) -> float:
        """Serve for a period; return the mean number in flight."""
        end_s, area = self._now_s + period_s, 0.0
        arrival_s = self._next(arrivals_per_s)
        while True:
            ends_s = self._running[0] if self._running else float("inf")
            at_s = min(arrival_s, ends_s, end_s)
            area += (at_s - self._now_s) * (len(self._waiting) + len(self._running))
            self._now_s = at_s
            if at_s == end_s:
                return area / period_s
            if at_s == ends_s:
                heappop(self._running)
            else:
                self._waiting.append(at_s)
                arrival_s = self._next(arrivals_per_s)
            self._start()

    def scale(self, servers: int) -> None:
        """Change the number of servers; what runs on one that leaves ends there."""
        self.servers = servers
        self._start()

    def _start(self) -> None:
        while self._waiting and len(self._running) < self.servers:
            self.waits_s.append(self._now_s - self._waiting.popleft())
            heappush(self._running, self._now_s + self._dice.expovariate(1 / self._service_s))

    def _next(self, arrivals_per_s: float) -> float:
        return self._now_s + self._dice.expovariate(arrivals_per_s) if arrivals_per_s > 0 else float("inf")
