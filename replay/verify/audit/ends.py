"""Counts how requests ended, from `results`: the first result of each, and how many more there were."""

from collections import Counter
from collections.abc import Iterable

from schemas.messages import Result


class Ends:
    """Takes in results in any order of requests, and in each request's own order."""

    def __init__(self, results: Iterable[Result] = ()) -> None:
        self.first: dict[str, Result] = {}
        self._seen: Counter[str] = Counter()
        for result in results:
            self.add(result)

    def add(self, result: Result) -> None:
        """Add a result, as a reader of committed transactions sees it."""
        self.first.setdefault(result.request_id, result)
        self._seen[result.request_id] += 1

    def count(self, name: str) -> int:
        """Return the number of results of a request."""
        return self._seen[name]

    def doubled(self, accepted: Iterable[str]) -> dict[str, int]:
        """Doubled ends of the accepted requests: id -> results beyond its first, where there are any."""
        return {name: self._seen[name] - 1 for name in accepted if self._seen[name] > 1}

    def open(self, accepted: Iterable[str]) -> tuple[str, ...]:
        """The accepted requests without a result."""
        return tuple(name for name in accepted if name not in self.first)
