"""What a report says that a policy did."""

import numpy as np

from planner.catalog.model import classes_of
from replay.simulation.draws.classes import classes_at
from replay.simulation.results.planned import planned_of
from replay.simulation.results.tables import did
from schemas.messages import Admission, Cascade, Expected, Plan
from tests.builders import a_catalog
from tests.replay.simulation.runs import a_setup, arrivals, down, ran


def a_plan(at_s: float, heavies: int, threshold: float, **changes: object) -> Plan:
    allocation = {f"w-{n}": "heavy" if n < heavies else "light" for n in range(4)}
    cascades = (Cascade(level="light", next_level="heavy", discriminator="look", threshold=threshold),)
    values = {
        "version": 1, "policy": "p", "strategy": "models", "created_ms": int(1000 * at_s), "reason": "",
        "allocation": allocation, "batch": {"light": 4}, "cascades": cascades, "routes": (),
        "expected": Expected(demand_rps=1, utilization=0.5, heavy_share=threshold / 2),
    }  # fmt: skip
    return Plan(**(values | changes))  # type: ignore[arg-type]


def test_workers_are_reported_by_time_in_force_and_thresholds_by_their_range() -> None:
    reported = planned_of([a_plan(-1, 1, 0.2), a_plan(30, 3, 0.6)], 40_000)
    assert reported["workers"]["heavy"] == {"mean": 1.5, "least": 1, "most": 3}
    assert reported["thresholds"] == {"light": {"least": 0.2, "most": 0.6}}
    assert reported["heavy_share"] == {"least": 0.1, "most": 0.3}
    assert reported["batch"] == {"light": {"least": 4, "most": 4}}
    assert "admitted" not in reported


def test_what_was_shed_is_reported() -> None:
    shed = Admission(shares={"standard": 0.4}, reason="full", retry_after_ms=1)
    reported = planned_of([a_plan(-1, 1, 0.2, admission=shed), a_plan(5, 1, 0.2)], 10_000)
    assert reported["admitted"] == {"least": 0.4, "most": 1.0}


def test_a_line_says_what_a_policy_did() -> None:
    run = ran(a_setup(policy="diffserve-static", parameters={"threshold": 0.4}), arrivals(20, 200))
    line = did("static", planned_of(run.plans, run.ended_ms))
    assert line.startswith("static: workers heavy ")
    assert "kept from light 0.4" in line
    assert "expected heavy 40%" in line
    assert did("idle", {}) == "idle: no plan"


def test_a_lost_worker_shows_in_the_workers_over_time() -> None:
    run = ran(a_setup(policy="clipper-light", workers=2, outages=(down(10, "w-1"),)), arrivals(10, 300))
    light = planned_of(run.plans, run.ended_ms)["workers"]["light"]
    assert (light["least"], light["most"]) == (1, 2)
    assert 1 < light["mean"] < 2


def test_classes_of_many_are_those_of_each() -> None:
    catalog, hardness = a_catalog(), np.array([0.0, 0.2499, 0.25, 0.5, 0.75, 0.9999, 1.0])
    assert classes_at(catalog, hardness) == [classes_of(catalog, value) for value in hardness.tolist()]
