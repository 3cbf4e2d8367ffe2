"""Transforms of traces: faster, scaled, repeated, limited, redrawn. They are pure: draws depend on request and seed."""

import dataclasses
import math
from typing import Final

import numpy as np

from replay.simulation.draws.chance import uniform
from replay.traces.trace import MAX_REQUESTS, MAX_SPAN_MS, InvalidTrace, Trace

NEIGHBOURS: Final = 10  # requests before and after, among which a copy comes
RATE_S: Final = 5.0  # over which a recorded rate is counted: shorter than bursts and plans
MAX_RATE_S: Final = 60.0
FEWEST: Final = 20  # requests in such a time, on average: the count of fewer is chance more than rate


def sped(trace: Trace, factor: float) -> Trace:
    """`factor` times as fast: gaps shrink, what is asked for stays. Raises: InvalidTrace."""
    _require(0 < factor < math.inf, f"--speed must be above 0: got {factor:g}")
    _require(trace.arrival_ms[-1] / factor <= MAX_SPAN_MS, f"--speed {factor:g} makes a trace of more than 400 days")
    return dataclasses.replace(trace, arrival_ms=trace.arrival_ms / factor)


def scaled(trace: Trace, factor: float, seed: int) -> Trace:
    """Return `factor` times the requests in equal time: below 1 each stays by its own chance, above 1 it comes again.

    Which stay, and which come once more for a factor that is not whole, is drawn per request: what .3 keeps, .6 keeps
    too. The first of a request is itself; a copy comes anywhere between the tenth request before it and the tenth
    after, so that the rate keeps its shape and copies do not come in pairs. Raises: InvalidTrace.
    """
    _require(0 < factor < math.inf, f"--scale must be above 0: got {factor:g}")
    _require(len(trace) * factor <= MAX_REQUESTS, f"--scale {factor:g} makes more than {MAX_REQUESTS:,} requests")
    if factor == 1:
        return trace
    n = len(trace)
    times = math.floor(factor) + (uniform(seed, "scale", 0, n) < factor % 1)
    _require(bool(times.any()), f"--scale {factor:g} leaves no request of {n}: give a larger one, or a longer trace")
    rows = np.repeat(np.arange(n), times)
    copy = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    early = trace.arrival_ms[np.maximum(rows - NEIGHBOURS, 0)]
    late = trace.arrival_ms[np.minimum(rows + NEIGHBOURS, n - 1)]
    moved = early + uniform(seed, "copies", 0, len(rows)) * (late - early)
    arrival_ms = np.where(copy == 0, trace.arrival_ms[rows], moved)
    order = np.argsort(arrival_ms, kind="stable")
    return trace.take(rows[order], arrival_ms[order])


def looped(trace: Trace, times: int) -> Trace:
    """The trace `times` over; the next round begins one mean gap after the last arrival. Raises: InvalidTrace."""
    _require(times >= 1, f"--loop must be 1 or more: got {times}")
    if times == 1:
        return trace
    _require(len(trace) * times <= MAX_REQUESTS, f"--loop {times} makes more than {MAX_REQUESTS:,} requests")
    period_ms = float(trace.arrival_ms[-1]) + (trace.span_ms / (len(trace) - 1) if len(trace) > 1 else 0.0)
    _require(period_ms * times <= MAX_SPAN_MS, f"--loop {times} makes a trace of more than 400 days")
    starts = np.repeat(np.arange(times) * period_ms, len(trace))
    return trace.take(np.tile(np.arange(len(trace)), times), np.tile(trace.arrival_ms, times) + starts)


def limited(trace: Trace, most: int) -> Trace:
    """Return the first `most` requests. Raises InvalidTrace."""
    _require(most >= 1, f"--limit must be 1 or more: got {most}")
    return trace if most >= len(trace) else trace.take(np.arange(most))


def rate_interval_s(trace: Trace) -> float:
    """Return over how many seconds the rates of a trace are counted: RATE_S, doubled while there are few requests."""
    width_s, rate_rps = RATE_S, 1000 * len(trace) / max(trace.span_ms, 1.0)
    while rate_rps * width_s < FEWEST and 2 * width_s <= MAX_RATE_S:
        width_s *= 2
    return width_s


def redrawn(trace: Trace, seed: int) -> Trace:
    """Another trace that could have come: a Poisson process at the recorded rates, as `rate_interval_s` counts them.

    In each interval as many requests as a Poisson number of the recorded count, at times drawn evenly; each asks for
    what a recorded one of the interval asks for. A seed that draws none at all gets the recorded trace's first request.
    """
    width_ms = 1000 * rate_interval_s(trace)
    end_ms = float(trace.arrival_ms[-1])
    places = (trace.arrival_ms // width_ms).astype(np.int64)
    counts = np.bincount(places)
    widths = np.full(len(counts), width_ms)
    widths[-1] = max(end_ms - (len(counts) - 1) * width_ms, 1.0)  # the last interval ends with the trace
    dice = np.random.default_rng([seed, len(trace)])
    numbers = dice.poisson(counts)
    if not numbers.any():
        return limited(trace, 1)
    own = np.repeat(np.arange(len(counts)), numbers)
    arrival_ms = own * width_ms + dice.random(len(own)) * widths[own]
    first = np.cumsum(counts) - counts
    rows = first[own] + np.floor(dice.random(len(own)) * counts[own]).astype(np.int64)
    order = np.argsort(arrival_ms, kind="stable")
    return trace.take(rows[order], arrival_ms[order])


def _require(is_fit: bool, message: str) -> None:
    if not is_fit:
        raise InvalidTrace(message)
