"""Computes the figures of a trace: requests, rates, burstiness, prompts and models. The formulas are here."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from replay.traces.ticks import describe_spread
from replay.traces.trace import NOT_GIVEN, Trace
from streams.visible import counted

WINDOWS_S: Final = (1, 10, 60)
MIN_WINDOWS: Final = 10  # for a variance that says something
MAX_BINS: Final = 5_000_000
TOP: Final = 10
UNNAMED: Final = "any"


def inspected(trace: Trace) -> dict[str, Any]:
    """Return the figures of a trace for JSON; null where the trace lacks the data.

    rate: `mean` = (n - 1) / span; `peak` = the most in any window of that length within the span, a second.
    burstiness: index of dispersion = variance / mean of the counts in whole windows of that length (1: Poisson, 0:
    even, above: bursts, or swings over the span; null below 10 windows). gaps_cv = standard deviation / mean of gaps.
    """
    gaps, counts = np.diff(trace.arrival_ms), {seconds: binned(trace.arrival_ms, seconds) for seconds in WINDOWS_S}
    return {
        "trace": trace.name,
        "source": trace.source,
        "requests": len(trace),
        "skipped": dict(trace.skipped),
        "spread_within": trace.spread_within or None,
        "first_s": float(trace.arrival_ms[0]) / 1000,
        "span_s": trace.span_ms / 1000,
        "rate_rps": {
            "mean": _ratio(1000 * (len(trace) - 1), trace.span_ms),
            "peak": {f"{s}s": _peak(trace.arrival_ms, s) for s in WINDOWS_S},
        },
        "burstiness": {
            "index_of_dispersion": {f"{s}s": _dispersion(counts[s]) for s in WINDOWS_S},
            "gaps_cv": _ratio(float(gaps.std()), float(gaps.mean())) if len(gaps) else None,
            "same_instant": int((gaps == 0).sum()),  # requests at the very time of the one before
        },
        "prompts": _prompts(trace),
        "hardness": _spread(trace.hardness),
        "slack_s": _spread(trace.slack_ms / 1000),
        "mix": _mix(trace),
    }


def binned(arrival_ms: np.ndarray, seconds: float) -> np.ndarray:
    """Arrivals in each whole window of this length, from 0 to the last; int64 [k], none where they are too many."""
    whole = math.floor(float(arrival_ms[-1]) / (1000 * seconds))
    if not 1 <= whole <= MAX_BINS:
        return np.zeros(0, dtype=np.int64)
    places = np.floor_divide(arrival_ms, 1000 * seconds).astype(np.int64)
    return np.bincount(places, minlength=whole + 1)[:whole]


def curve(trace: Trace, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Middle in s of each of `points` equal stretches from 0 to the last arrival, and its rate a second.

    There are fewer where a stretch would be shorter than a second: one request in 10 ms is no rate of 100 a second.
    """
    end_s = max(float(trace.arrival_ms[-1]) / 1000, 1.0)
    points = min(points, int(end_s))
    counts, edges = np.histogram(trace.arrival_ms / 1000, bins=points, range=(0, end_s))
    return (edges[1:] + edges[:-1]) / 2, counts / (end_s / points)


def _peak(arrival_ms: np.ndarray, seconds: int) -> float | None:
    """The most arrivals in a window [t, t + seconds) that begins with an arrival: no other window holds more."""
    if float(arrival_ms[-1] - arrival_ms[0]) < 1000 * seconds:
        return None
    ends = np.searchsorted(arrival_ms, arrival_ms + 1000 * seconds, side="left")
    return float((ends - np.arange(len(arrival_ms))).max()) / seconds


def _dispersion(counts: np.ndarray) -> float | None:
    if len(counts) < MIN_WINDOWS:
        return None
    return _ratio(float(counts.var(ddof=1)), float(counts.mean()))


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 0 else None


def _spread(values: np.ndarray) -> dict[str, float] | None:
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    low, middle, high = np.quantile(known, (0.05, 0.5, 0.95)).tolist()
    return {"known": len(known), "mean": float(known.mean()), "p05": low, "p50": middle, "p95": high}


def _prompts(trace: Trace) -> dict[str, Any] | None:
    chosen = trace.prompt[trace.prompt != NOT_GIVEN]
    if not len(chosen):
        return None
    uses = np.bincount(chosen)
    found: dict[str, Any] = {
        "known": len(chosen),
        "distinct": int((uses > 0).sum()),
        "most_used_share": float(uses.max()) / len(chosen),
    }
    if len(trace.texts):
        words = np.array([len(text.split()) for text in trace.texts])[chosen]
        found["words"] = {"p50": float(np.median(words)), "p95": float(np.quantile(words, 0.95))}
    return found


def _mix(trace: Trace) -> dict[str, dict[str, float]]:
    """Shares of requests: the ten most frequent and the rest. A part in which all are plain is left out."""
    uses = np.bincount(trace.wish, minlength=len(trace.wishes)).tolist()
    parts: dict[str, Counter[str]] = {}
    for wish, count in zip(trace.wishes, uses, strict=True):
        options = wish.options
        rows = {
            "model": options.model or UNNAMED,
            "loras": str(len(options.adapters)),
            "lora": ", ".join(options.adapters) or "none",
            "steps": str(options.steps or UNNAMED),
            "pictures": str(options.n),
            "tier": wish.tier,
            "tenant": wish.tenant,
        }
        for part, value in rows.items():
            parts.setdefault(part, Counter())[value] += count
    plain = {"model": UNNAMED, "loras": "0", "lora": "none", "steps": UNNAMED, "pictures": "1"}
    return {part: _shares(uses) for part, uses in parts.items() if set(uses) != {plain.get(part, next(iter(uses)))}}


def _shares(uses: Counter[str]) -> dict[str, float]:
    total, top = uses.total(), uses.most_common(TOP)
    rest = total - sum(count for _, count in top)
    shares = {name: count / total for name, count in top}
    return shares | ({counted(len(uses) - TOP, "other"): rest / total} if rest else {})


def lines(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The figures in a dozen lines of name and value."""
    rate, bursts = found["rate_rps"], found["burstiness"]
    rows = [
        ("requests", f"{found['requests']:,}" + "".join(f", {n:,} skipped: {k}" for k, n in found["skipped"].items())),
        ("span", f"{_time(found['span_s'])}, the first after {found['first_s']:.3g} s"),
        ("rate", f"{_number(rate['mean'])}/s on average; at most {_each(rate['peak'], '/s')}"),
        ("index of dispersion", _each(bursts["index_of_dispersion"])),
        ("gaps", f"cv {_number(bursts['gaps_cv'])}; {bursts['same_instant']:,} at the instant of the one before"),
    ]
    if unit := found["spread_within"]:
        rows.insert(2, ("arrivals", describe_spread(unit)))
    if prompts := found["prompts"]:
        words = f", {prompts['words']['p50']:g} words" if "words" in prompts else ""
        share = f"{prompts['most_used_share']:.2%}"
        rows.append(("prompts", f"{prompts['distinct']:,} distinct{words}; the most used in {share} of requests"))
    spreads = [(name, found[name]) for name in ("hardness", "slack_s") if found[name] is not None]
    rows += [(name, f"mean {s['mean']:.3g}, 5 to 95 %: {s['p05']:.3g} to {s['p95']:.3g}") for name, s in spreads]
    return rows + [(part, _describe_shares(shares)) for part, shares in found["mix"].items()]


def _describe_shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.1%}" for name, share in list(shares.items())[:5])


def _each(values: Mapping[str, float | None], unit: str = "") -> str:
    known = [f"{value:.3g}{unit} in {window}" for window, value in values.items() if value is not None]
    return ", ".join(known) or "unknown: the trace is too short"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _time(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def bars(rates: Sequence[float], height: int) -> list[str]:
    """A plot for a terminal: rows from the top, one column a rate, in eighths of a row."""
    most = max(rates, default=0.0) or 1.0
    eighths = [round(8 * height * rate / most) for rate in rates]
    blocks = " ▁▂▃▄▅▆▇█"
    return ["".join(blocks[min(8, max(0, full - 8 * row))] for full in eighths) for row in reversed(range(height))]
