"""Rows of the table of metrics: each metric is declared once, with its unit, its labels and who exposes it.

Code, documentation, dashboards and alert rules go by these rows. Labels have few values: those that are listed, or
names that an operator chose (variants, tenants never).
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from prometheus_client import REGISTRY, Counter, Gauge, Summary

from streams.observing.timings import Histogram

Values = tuple[str, ...] | str  # every value, or in words where they come from

STREAM_ROLES: Final = ("classifier", "classifier-batch", "router", "discriminator")
ROLES: Final = (*STREAM_ROLES, "forwarder", "worker", "ledger", "planner", "indexer", "gateway", "console")
EVERY: Final = ("every role",)

# From the fastest hop to the longest job. Adjacent bounds differ by a factor of 2 to 2.5: a quantile is known to that.
SECONDS: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip
LEFT_SECONDS: Final = (*(-bound for bound in reversed(SECONDS[6:])), 0.0, *SECONDS[6:])  # until a deadline


class Metric(NamedTuple):
    """One metric as the table has it."""

    name: str  # as Prometheus exposes it, a counter's with _total
    kind: str  # counter | gauge | histogram | summary
    unit: str  # of its values; "": a number of things
    labels: Mapping[str, Values]
    text: str
    roles: Sequence[str]  # that expose it


TABLE: dict[str, Metric] = {}  # by name, in the order of declaration


def _declared(
    name: str, kind: str, unit: str, text: str, labels: Mapping[str, Values] | None, roles: Sequence[str]
) -> tuple[str, str, list[str]]:
    assert name not in TABLE, f"{name} is declared twice"
    TABLE[name] = Metric(name, kind, unit, labels or {}, text, roles)
    return name, text, list(labels or {})


def counter(
    name: str, text: str, labels: Mapping[str, Values] | None = None, *, unit: str = "", of: Sequence[str] = EVERY
) -> Counter:
    """Declare a counter of things that happened since the process began."""
    return Counter(*_declared(name, "counter", unit, text, labels, of))


def gauge(
    name: str, text: str, labels: Mapping[str, Values] | None = None, *, unit: str = "", of: Sequence[str] = EVERY
) -> Gauge:
    """Declare a gauge: what is true now."""
    return Gauge(*_declared(name, "gauge", unit, text, labels, of))


def summary(
    name: str, text: str, labels: Mapping[str, Values] | None = None, *, unit: str, of: Sequence[str] = EVERY
) -> Summary:
    """Declare a summary: number and sum of what was observed."""
    return Summary(*_declared(name, "summary", unit, text, labels, of))


def histogram(
    name: str,
    text: str,
    labels: Mapping[str, Values] | None = None,
    *,
    unit: str = "seconds",
    of: Sequence[str] = EVERY,
    buckets: Sequence[float] = SECONDS,
) -> Histogram:
    """Declare a histogram, whose `observe` is cheap enough for every record."""
    made = Histogram(*_declared(name, "histogram", unit, text, labels, of), buckets)
    REGISTRY.register(made)
    return made
