"""The table of deviations in planner/policies/README.md: each of its switches changes what is decided."""

import dataclasses
import pathlib
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from planner.catalog.entries import DeferralPoint
from planner.catalog.model import Catalog
from planner.control.planning import Order, PlannerLogic
from planner.control.propose import Rules
from planner.observation.deferral import ObservedDeferral
from planner.observation.observation import Observation, Queue, Served
from planner.observation.run_times import ObservedRunTime
from planner.policies import named
from replay.simulation.run import Simulation
from replay.simulation.setup import Setup, Timing
from schemas.messages import ReuseFloor, ReuseGuard, Status
from tests.builders import a_catalog, a_worker, an_observation
from tests.planner.control.test_planning import Plans
from tests.planner.policies.cascades import a_fine_catalog, a_table_catalog
from tests.planner.solvers.levels.builders import a_ladder, a_reuse_ladder, a_reuse_profile

README: Final = pathlib.Path(__file__).parents[3] / "planner" / "policies" / "README.md"
STEEP = tuple(DeferralPoint(t / 10, min(1.0, t / 4)) for t in range(11))
DEFERRED = (ObservedDeferral("light", "look", (0.0, 1.0), (STEEP,), images=1000),)
MEASURED = a_reuse_profile(
    floors=(ReuseFloor(similarity=0.9, share=0.8),), guard=ReuseGuard(equal=0.8, style=0.4), losses={"heavy~k20": 0.01}
)
BUSY = an_observation(8, demand_rps=120.0, slo_ms=1000.0, served=Served(10, in_time=1.0), deferral=DEFERRED,
                      run_times=(ObservedRunTime("heavy", 1.6, 99),), queues=(Queue("heavy", 2.0, 20.0),))  # fmt: skip
BLIND = an_observation(4, demand_rps=30.0, slo_ms=900.0)
SPREAD = an_observation(workers=(a_worker("w-1", "heavy"), a_worker("w-2", "heavy", remaining_ms=9e3)), demand_rps=9.0)
MOVED = an_observation(workers=tuple(a_worker(f"w-{n}", "middle") for n in range(4)), demand_rps=20.0)

# policy -> catalog, observation and parameters under which its switches are shown
SITUATIONS: Final[dict[str, tuple[Catalog, Observation, dict[str, float]]]] = {
    "argus": (a_reuse_ladder(reuse_profile=MEASURED), BLIND, {}),
    "clipper-heavy": (a_catalog(), BUSY, {}),
    "diffserve": (a_fine_catalog(), BUSY, {}),
    "diffserve-static": (a_catalog(), BUSY, {"peak_rps": 60.0}),
    "hadis": (a_table_catalog(), dataclasses.replace(BUSY, demand_rps=35.0, queues=(), workers=BUSY.workers[:4]), {}),
    "nirvana": (a_reuse_ladder(reuse_profile=MEASURED), BLIND, {}),
    "pac": (a_ladder(), BLIND, {"overprovision": 1.0}),
    "proteus": (a_ladder(), dataclasses.replace(BLIND, slo_ms=0.0), {"overprovision": 1.0}),
    "sommelier": (a_ladder(), SPREAD, {}),
}
IN_MODELS = {"argus.hold": (a_ladder(), MOVED)}  # where a switch shows elsewhere


def switches() -> list[str]:
    """The last column of the table, without its marks."""
    rows = re.findall(r"^\| .* \| `([^`]+)` \|$", README.read_text(), re.M)
    return [switch for switch in rows if "=" in switch or switch.startswith("simulate")]


OF_POLICIES = [switch for switch in switches() if switch.split(".")[0] in SITUATIONS]


@pytest.mark.parametrize("switch", OF_POLICIES)
def test_a_policy_s_switch_changes_what_it_proposes(switch: str) -> None:
    name, value = switch.rsplit("=", 1)
    policy, _, parameter = name.partition(".")
    catalog, seen, parameters = SITUATIONS[policy]
    catalog, seen = IN_MODELS.get(name, (catalog, seen))
    published = named(policy)(seen, catalog, {}, parameters)
    ours = named(policy)(seen, catalog, {}, parameters | {parameter: float(value)})
    assert decision(published) != decision(ours)


def decision(proposal: Any) -> tuple[Any, ...]:
    return proposal.routes, proposal.cascades, proposal.allocation, proposal.batch, proposal.reuse


def plan_of(seen: Observation, **rules: Any) -> Any:
    before = PlannerLogic(a_catalog(), named, Order("random-split"), period_ms=5000, silent_ms=3000).decide(
        seen, Plans(None)
    )
    order = Order("random-split", {"heavy_share": 0.0})
    logic = PlannerLogic(a_catalog(), named, order, period_ms=5000, silent_ms=3000, rules=Rules(**rules))
    return logic.decide(seen, Plans(before.plan)).plan


def forecast_changes_a_plan() -> bool:
    counts = (60,) * 50 + (60, 90, 20, 80, 30, 100, 40, 110, 30, 90)
    seen = dataclasses.replace(BUSY, demand_rps=20.0, counts=counts, deferral=(), run_times=())
    plans = [
        PlannerLogic(
            a_fine_catalog(), named, Order("diffserve"), period_ms=5000, silent_ms=3000, rules=Rules(forecast=kind)
        ).decide(seen, Plans(None)).plan
        for kind in ("policy", "trend")
    ]  # fmt: skip
    return decision(plans[0]) != decision(plans[1])


def by_the_second_argus_plans_otherwise() -> bool:
    seen = dataclasses.replace(MOVED, demand_rps=30.0, counts=(30,) * 55 + (90,) * 5)
    plans = [
        PlannerLogic(
            a_ladder(), named, Order("argus"), period_ms=60_000, silent_ms=3000,
            rules=Rules(forecast=kind, horizon_s=60),
        ).decide(seen, Plans(None)).plan
        for kind in ("policy", "ewma")
    ]  # fmt: skip
    return decision(plans[0]) != decision(plans[1])


def hysteresis_changes_a_plan() -> bool:
    workers = tuple(a_worker(f"w-{n}", v := "heavy" if n else "light", allocated=v) for n in range(4))
    seen = an_observation(workers=workers, demand_rps=1.0)
    return (plan_of(seen, hysteresis="policy") is None) != (plan_of(seen, hysteresis="always") is None)


def shedding_changes_a_plan() -> bool:
    seen = an_observation(2, demand_rps=900.0)
    return plan_of(seen, sheds=True).admission != plan_of(seen, sheds=False).admission


def a_backlog_limit_changes_a_run() -> bool:
    setup = Setup(catalog=a_catalog(), policy="clipper-heavy", workers=1, slo_ms=60_000, parameters={"batch": 1.0})
    limited = dataclasses.replace(setup, timing=Timing(most_backlog_ms=2000))
    arrivals_ms = np.arange(0, 20_000, 50.0)
    free, refused = (Simulation(each, arrivals_ms).run().tally.ends[Status.REJECTED] for each in (setup, limited))
    return free == 0 < refused


OTHERS: Final[dict[str, Callable[[], bool]]] = {
    "planner.forecast=trend": forecast_changes_a_plan,
    "planner.forecast=ewma": by_the_second_argus_plans_otherwise,
    "planner.hysteresis=always": hysteresis_changes_a_plan,
    "planner.load_shedding=true": shedding_changes_a_plan,
    "simulate --shed": a_backlog_limit_changes_a_run,
}


@pytest.mark.parametrize("switch", OTHERS)
def test_a_deployment_s_switch_changes_what_is_decided(switch: str) -> None:
    assert OTHERS[switch]()


def test_every_switch_of_the_table_is_run() -> None:
    assert len(switches()) >= 18
    assert set(switches()) == set(OF_POLICIES) | OTHERS.keys()
