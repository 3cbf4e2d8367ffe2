"""Workers that are told what to hold, and jobs that go where it lies, against a fleet that is told nothing."""

from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from planner.components.tiers import Budgets
from planner.serving.dispatch.worker_loads import LoadView
from replay.simulation.run import Ran
from replay.traces import Trace
from replay.traces.trace import Overrides
from schemas.messages import GenerateOptions
from tests.replay.simulation.runs import asking
from tests.replay.simulation.test_components import catalog_of, ran, setup_of

BASES = ("a", "b", "c")
ROOM = Budgets(volume=10_000, host=3_000, device=1_200)  # one base with adapters on a device


def a_skewed_trace(count: int = 600) -> Trace:
    """Three requests a second, 7 of 10 for one base; adapters come with it."""
    dice = np.random.default_rng(5)
    wishes = []
    for base in dice.choice(BASES, count, p=(0.7, 0.2, 0.1)).tolist():
        adapters = ("x",) if base == "a" and dice.random() < 0.5 else ()
        wishes.append(Overrides(options=GenerateOptions(model=base, adapters=adapters), tenant=f"u{dice.integers(40)}"))
    return asking(np.cumsum(dice.exponential(1000 / 3, count)), wishes)


def run_of(policy: str, trace: Trace) -> Ran:
    held = {"budgets": ROOM, "eviction": "utility" if policy == "mlora" else "lru"}
    return ran(trace, setup_of(catalog_of(), workers=8, policy=policy, held=held))


def test_mlora_loads_less_than_half_as_often_as_its_baseline_and_answers_sooner() -> None:
    trace = a_skewed_trace()
    placing, baseline = (run_of(policy, trace) for policy in ("mlora", "lru-round-robin"))
    loads = [run.components["loads"] for run in (placing, baseline)]
    assert loads[0] < loads[1] / 2, loads
    late_ms = [run.tally.latencies.quantile(0.99) or 0.0 for run in (placing, baseline)]
    assert late_ms[0] < late_ms[1], late_ms
    assert placing.components["prefetches"], "idle workers load what the plan lists for them"
    assert not baseline.components["prefetches"]


def test_senders_hear_by_heartbeats_what_each_worker_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: dict[str, set[str]] = {}
    take = LoadView.on_components

    def on_components(view: LoadView, worker_id: str, held: Mapping[str, Iterable[str]], seen_ms: float) -> None:
        heard.setdefault(worker_id, set()).update(held.get("device", ()))
        take(view, worker_id, held, seen_ms)

    monkeypatch.setattr(LoadView, "on_components", on_components)
    run_of("mlora", a_skewed_trace(60))
    assert sum("base:a" in held for held in heard.values()) >= 3
