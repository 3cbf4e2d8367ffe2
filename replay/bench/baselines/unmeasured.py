"""A `pochade` process whose metrics count nothing, the baseline for the cost of metrics.

python -m replay.bench.baselines.unmeasured OPTIONS serve ROLE...
"""

from typing import Any

from prometheus_client import Counter, Gauge, Summary

from streams.cli import main
from streams.observing.timings import Histogram, Timings


class Nothing:
    """Stands in for every metric and each of its children."""

    def ignore(self, *_arguments: Any, **_named: Any) -> "Nothing":
        """Do nothing."""
        return self

    inc = dec = set = observe = labels = ignore


NOTHING = Nothing()


def silence() -> None:
    """Have all metrics of this process count nothing."""
    ignore = NOTHING.ignore
    for kind in (Counter, Gauge, Summary, Histogram, Timings):
        for name in ("labels", "inc", "dec", "set", "observe"):
            if hasattr(kind, name):
                setattr(kind, name, ignore)


if __name__ == "__main__":
    silence()
    main(prog_name="pochade")
