"""Short simulations for tests."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from planner.catalog.model import Catalog
from replay.simulation.run import Ran, Simulation
from replay.simulation.setup import Outage, Setup
from replay.traces import Trace, poisson
from replay.traces.trace import Overrides, of_arrivals
from tests.builders import a_catalog, a_variant

SERVICE_MS = 20.0


def one_level() -> Catalog:
    """A catalog of one level that generates in SERVICE_MS, one by one."""
    light = a_variant(latency_ms={1: SERVICE_MS})
    return a_catalog(variants={"light": light}, discriminators={}, cascades=(), class_cuts={})


def a_setup(**changes: Any) -> Setup:
    values: dict[str, Any] = {
        "catalog": a_catalog(), "policy": "random-split", "workers": 4, "slo_ms": 1000.0, "seed": 3,
    }  # fmt: skip
    return Setup(**(values | changes))


def arrivals(rate_rps: float, count: int, seed: int = 1) -> np.ndarray:
    return np.array(poisson(rate_rps, count, seed))


def timed(arrivals_ms: np.ndarray) -> Trace:
    """A trace of these arrivals and nothing else."""
    return of_arrivals(arrivals_ms, "test", "test")


def ran(setup: Setup, trace: np.ndarray) -> Ran:
    return Simulation(setup, trace).run()


def down(at_s: float, worker_id: str) -> Outage:
    return Outage(at_ms=1000 * at_s, worker_id=worker_id, is_up=False)


def up(at_s: float, worker_id: str) -> Outage:
    return Outage(at_ms=1000 * at_s, worker_id=worker_id, is_up=True)


def asking(arrivals_ms: np.ndarray, wishes: Sequence[Overrides], slack_ms: float = np.nan) -> Trace:
    """A trace whose requests have these wishes in turn."""
    n = len(arrivals_ms)
    rows = np.arange(n, dtype=np.int32) % len(wishes)
    return dataclasses.replace(timed(arrivals_ms), wishes=tuple(wishes), wish=rows, slack_ms=np.full(n, slack_ms))
