"""Compares two reports: differences by policy and metric, and whether they can be distinguished from chance."""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from replay.reports.intervals import Difference, difference
from replay.reports.metrics import HIGHER, METRICS, NEITHER, QUALITY, Metric
from schemas.errors import PochadeError
from streams.visible import counted

BETTER, WORSE, SAME, CANNOT_TELL, NO_JUDGEMENT = "better", "worse", "same", "cannot tell", ""
NOT_COMPARABLE = "not comparable"  # the qualities are on different scales, such as FID and shares of facts
DECIDING = ("catalog", "slo_s")  # of the setup: where they differ, figures are not of the same question
PER_POLICY = "parameters"  # of the setup, by policy
MAX_LISTED = 8  # differences within one setting that are listed; of more their number is said
MAX_VALUE = 60  # characters of a value that is shown
COUNTED = ("seeds", "first_seed")  # keys of the setup that are not compared: the pairing of seeds shows them

Report = Mapping[str, Any]


class Row(NamedTuple):
    """One metric of one policy in both reports."""

    policy: str
    metric: str
    first: float
    second: float
    difference: float | None  # second - first; None: they are not comparable
    interval: list[float] | None  # 95 %, of the difference; None: one seed gives no interval
    is_paired: bool
    verdict: str  # of the second report


class Comparison(NamedTuple):
    """The differences of two reports, and warnings about what makes them hard to compare."""

    rows: list[Row]
    warnings: list[str]


def about_baseline(report: Report) -> str:
    """Say what the baseline's row is; "" where a report has none."""
    name = report["baseline"]
    what = "the baseline of every comparison: it sends requests to the best or the cheapest level at random"
    gain = "a policy that is no better gains nothing by judging prompts and images"
    return f"{name} is {what}, whatever the prompt; {gain}." if name in report["policies"] else ""


def compare(first: Report, second: Report) -> Comparison:
    """The second report against the first. Raises PochadeError where they have no policy in common."""
    policies = [name for name in first["policies"] if name in second["policies"]]
    if not policies:
        raise PochadeError(
            f"the reports have no policy in common: {', '.join(first['policies'])} in the first, "
            f"{', '.join(second['policies'])} in the second; simulate one of them in both"
        )
    rows = [row for policy in policies for row in _rows(policy, first, second)]
    return Comparison(rows, list(_warnings(first, second)))


def _rows(policy: str, first: Report, second: Report) -> Iterator[Row]:
    old, new = first["policies"][policy]["by_seed"], second["policies"][policy]["by_seed"]
    for metric in METRICS:
        if metric.key in old and metric.key in new:
            before, after = old[metric.key], new[metric.key]
            means = statistics.fmean(before), statistics.fmean(after)
            if metric.unit == QUALITY and scale_of(first) != scale_of(second):
                yield Row(policy, metric.key, *means, None, None, False, NOT_COMPARABLE)
                continue
            apart = difference(before, after, seeds_of(first), seeds_of(second))
            word = verdict(metric, apart)
            yield Row(policy, metric.key, *means, apart.mean, apart.interval, apart.is_paired, word)


def scale_of(report: Report) -> str:
    """Return the scale of quality of the catalog that a report was made with."""
    return str(report["setup"]["scale"])


def seeds_of(report: Report) -> range:
    """Return the seeds that every policy of a report was run with."""
    setup = report["setup"]
    return range(setup["first_seed"], setup["first_seed"] + setup["seeds"])


def verdict(metric: Metric, apart: Difference) -> str:
    """Return the verdict on a difference; none for a metric of which neither direction is better."""
    if metric.better == NEITHER:
        return NO_JUDGEMENT
    if apart.mean == 0 and apart.interval in (None, [0.0, 0.0]):
        return SAME
    if apart.interval is None or apart.interval[0] <= 0 <= apart.interval[1]:
        return CANNOT_TELL
    return BETTER if (apart.mean > 0) == (metric.better == HIGHER) else WORSE


def _warnings(first: Report, second: Report) -> Iterator[str]:
    if first["trace"]["sha256"] != second["trace"]["sha256"]:
        names = f"{first['trace']['file']} and {second['trace']['file']}"
        yield f"different traces ({names}): the differences are also those of the demand"
    old, new = first["setup"], second["setup"]
    for key in DECIDING:
        for line in _differing(key, old.get(key), new.get(key)):
            yield f"{line}; the figures answer different questions"
    for key in sorted((old.keys() | new.keys()) - {*DECIDING, *COUNTED, PER_POLICY}):
        yield from _differing(key, old.get(key), new.get(key))
    if seeds_of(first) != seeds_of(second):
        seeds = ", ".join(_describe_seeds(seeds_of(report)) for report in (first, second))
        yield f"different seeds ({seeds}): not compared in pairs"
    yield from _of_policies(first, second)


def _of_policies(first: Report, second: Report) -> Iterator[str]:
    for name in first["policies"]:
        if name in second["policies"]:
            ours, theirs = (report["setup"][PER_POLICY].get(name, {}) for report in (first, second))
            yield from _differing(f"parameters.{name}", ours, theirs)
    for where, (some, others) in {"first": (first, second), "second": (second, first)}.items():
        missing = [name for name in some["policies"] if name not in others["policies"]]
        if missing:
            yield f"only in the {where}: {', '.join(missing)}"


def _differing(name: str, first: Any, second: Any) -> Iterator[str]:
    """Yield a line for each value of a setting that differs, under its name in report.json with dots."""
    pairs = list(_leaves(name, first, second))
    for path, old, new in pairs[:MAX_LISTED]:
        yield f"different {path}: {' and '.join(_values(old, new))}"
    if len(pairs) > MAX_LISTED:
        yield f"different {name}: {len(pairs) - MAX_LISTED} more values differ, listed under setup in each report.json"


def _leaves(path: str, first: Any, second: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs, as (name with dots, in the first, in the second); a mapping is compared key by key."""
    if first == second:
        return
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in sorted(first.keys() | second.keys()):
            yield from _leaves(f"{path}.{key}", first.get(key), second.get(key))
    else:
        yield path, first, second


def _values(first: Any, second: Any) -> tuple[str, str]:
    """Format two values that differ in a few words, in full where the few words are the same."""
    short = _value(first), _value(second)
    return short if short[0] != short[1] else (repr(first), repr(second))


def _value(value: Any) -> str:
    """Format a value of a setup in a few words."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return counted(len(value), "value") if value else "no values"
    text = f"{value:.6g}" if isinstance(value, float) and value != round(value, 6) else str(value)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 3]}..."


def _describe_seeds(seeds: range) -> str:
    return str(seeds.start) if len(seeds) == 1 else f"{seeds.start} to {seeds.stop - 1}"
