"""Levels that requests name are served under every policy, and take no more workers than their work needs."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from planner.catalog.model import Catalog
from replay.simulation.run import Ran
from replay.simulation.session import simulate
from replay.traces.trace import Overrides, Trace
from schemas.messages import GenerateOptions, Status
from tests.builders import a_catalog, a_variant
from tests.replay.simulation.runs import a_setup, arrivals, timed

NAMES = tuple(f"rare-{n}" for n in range(7))
LOAD_MS = 500.0
PLAIN = Overrides()


def a_wide_catalog() -> Catalog:
    rare = {name: a_variant(name=name, latency_ms={1: 200.0}, quality=0.85, load_ms=LOAD_MS) for name in NAMES}
    light = a_variant(name="light", latency_ms={1: 50.0}, quality=0.8, load_ms=LOAD_MS)
    heavy = a_variant(name="heavy", latency_ms={1: 400.0}, quality=0.9, load_ms=LOAD_MS)
    return a_catalog(variants={"light": light, **rare, "heavy": heavy})


def mixed(*parts: tuple[np.ndarray, Overrides]) -> Trace:
    """A trace of requests with these wishes, each with arrivals of its own."""
    times = np.concatenate([times for times, _ in parts])
    rows = np.repeat(np.arange(len(parts), dtype=np.int32), [len(times) for times, _ in parts])
    order = np.argsort(times, kind="stable")
    trace, wishes = timed(times[order]), tuple(wish for _, wish in parts)
    slack_ms = np.full(len(times), np.nan)
    return dataclasses.replace(trace, wishes=wishes, wish=rows[order], slack_ms=slack_ms)


def served(trace: Trace, **changes: Any) -> Ran:
    values: dict[str, Any] = {"catalog": a_wide_catalog(), "workers": 8, "drops": False, "slo_ms": 5000.0}
    return simulate(a_setup(**(values | changes)), trace, 1, lambda _requests: None)[0]


def naming(level: str, **asked: Any) -> Overrides:
    return Overrides(options=GenerateOptions(model=level, **asked))


@pytest.mark.parametrize("policy", ["clipper-light", "diffserve"])
def test_seven_names_at_one_request_a_minute_take_one_worker_by_turns_beside_a_hundred_a_second(policy: str) -> None:
    minutes = 3
    busy = (arrivals(100, 100 * 60 * minutes), PLAIN)
    rare = [(1000.0 * np.arange(8 * n, 60 * minutes, 60), naming(name)) for n, name in enumerate(NAMES)]
    run = served(mixed(busy, *rare), policy=policy)
    assert min(run.tally.levels[name] for name in NAMES) > minutes, "a reserved worker serves others as well"
    taken = [sum(variant in NAMES for variant in plan.allocation.values()) for plan in run.plans]
    assert max(taken) == 1
    assert run.tally.ends == {Status.COMPLETED: len(busy[0]) + minutes * len(NAMES)}
    assert run.tally.late / run.tally.requests < 0.01
