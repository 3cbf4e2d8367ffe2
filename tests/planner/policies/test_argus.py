"""`argus`: any fleet gets a plan; the demand sets the levels, the class the route, the store the strategy."""

import math
from collections import Counter

import pulp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog.measured import Measured
from planner.catalog.model import Catalog, Cut
from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.validity import check
from planner.observation.reuse import ObservedReuse
from planner.policies.argus import plan
from planner.solvers.levels.strategy_switch import STAGES
from tests.builders import NO_ANSWER, NOW_MS, a_catalog, a_variant, a_worker, an_observation, lookups
from tests.planner.solvers.levels.builders import a_ladder, a_reuse_ladder, three_variants

CLASSES = {"light": 0.6, "heavy": 0.4}


def drafted(demand: float, n_workers: int = 4, catalog: Catalog | None = None, **parameters: float) -> PlanProposal:
    observation = an_observation(n_workers, demand_rps=demand, classes={"models": CLASSES})
    return checked(plan(observation, catalog or a_ladder(), {}, {"overprovision": 1, **parameters}), catalog)


def checked(draft: PlanProposal, catalog: Catalog | None = None) -> PlanProposal:
    check(publish(draft, None, "argus", NOW_MS), catalog or a_ladder())
    return draft


def counts(draft: PlanProposal) -> dict[str, int]:
    return dict(Counter(draft.allocation.values()))


def rows(draft: PlanProposal) -> dict[str, dict[str, float]]:
    return {route.label: route.levels for route in draft.routes}


SHARES = st.dictionaries(
    st.sampled_from(("", "light", "middle", "heavy", "heavy~k20", "unheard of")), st.floats(0.01, 1), max_size=6
).map(lambda d: {label: share / sum(d.values()) for label, share in d.items()})


@settings(max_examples=40)
@given(
    n_workers=st.integers(0, 9), demand=st.one_of(st.just(0.0), st.floats(1e-6, 1e6)), classes=SHARES,
    stage=st.sampled_from((*STAGES, "elsewhere")), seen=st.sampled_from((None, lookups(0.0), lookups(80.0), NO_ANSWER)),
    homes=st.lists(st.sampled_from(("", "light", "middle", "heavy", "gone")), min_size=9, max_size=9),
    reuse=st.booleans(),
)  # fmt: skip
def test_any_fleet_demand_histogram_and_memory_gets_a_valid_plan(
    n_workers: int, demand: float, classes: dict, stage: str, seen: ObservedReuse | None, homes: list, reuse: bool
) -> None:
    catalog = a_reuse_ladder() if reuse else a_ladder()
    workers = tuple(a_worker(f"w-{i}", homes[i]) for i in range(n_workers))
    observation = an_observation(
        demand_rps=demand, classes={"models": classes, "reuse": classes}, workers=workers, reuse=seen
    )
    draft = checked(plan(observation, catalog, {"stage": stage, "since_ms": 0}, {}), catalog)
    assert sorted(draft.allocation) == [worker.worker_id for worker in workers]
    assert draft.expected
    assert math.isfinite(draft.expected.utilization)


def test_the_more_requests_the_faster_the_levels() -> None:
    assert counts(drafted(20)) == {"heavy": 4}
    assert counts(drafted(30)) == {"heavy": 2, "middle": 2}
    assert counts(drafted(100)) == {"middle": 2, "light": 2}
    assert counts(drafted(200)) == {"light": 4}


def test_overprovisioning_multiplies_the_demand_and_the_forecast_comes_before_it() -> None:
    assert counts(drafted(20)) == {"heavy": 4}
    assert counts(drafted(20, overprovision=1.2)) != {"heavy": 4}
    forecast = an_observation(4, demand_rps=1, forecast_rps=190)
    assert counts(plan(forecast, a_ladder(), {}, {})) == {"light": 4}


def test_hard_prompts_get_the_better_level_and_all_rows_together_meet_the_capacity() -> None:
    draft = drafted(30)  # two heavy: 10/s, two middle: 20/s
    assert rows(draft)["light"] == {"middle": 1.0}
    assert rows(draft)["heavy"]["heavy"] > 0.8
    assert rows(draft)[""] == pytest.approx({"heavy": 1 / 3, "middle": 2 / 3})
    served = 30 * sum(share * rows(draft)[label].get("heavy", 0) for label, share in CLASSES.items())
    assert served == pytest.approx(10, rel=0.01)


def test_a_saturated_fleet_says_how_many_workers_would_do() -> None:
    draft = drafted(400)
    assert "the workers serve 50% of 400 requests/s, 8 workers would serve all" in draft.reason
    assert draft.expected.utilization == pytest.approx(2)


def test_a_catalog_without_a_profile_of_reuse_stays_with_models_and_says_so() -> None:
    draft = drafted(30)
    assert (draft.strategy, draft.memory) == ("models", {})
    assert "nothing is reused, as the catalog has no profile of reuse" in draft.reason
    assert "reuse" not in drafted(30, reuse=0).reason


def test_levels_that_nobody_judged_are_ranked_by_their_speed_and_the_reason_says_so() -> None:
    variants = {**three_variants(), "middle": a_variant(name="middle", latency_ms={1: 80.0}, quality=None)}
    draft = drafted(30, catalog=a_ladder(variants=variants))
    assert counts(draft) == {"heavy": 2, "middle": 2}
    assert "not all qualities are measured" in draft.reason
    assert draft.expected.quality is None


def test_measured_degradation_that_is_not_convex_is_aligned_by_the_exact_program() -> None:
    """Hard prompts lose all on c already, easy ones only on d: so the hard ones take d, where ODA gives them c."""
    speeds = {"a": 200.0, "b": 150.0, "c": 20.0, "d": 10.0}
    variants = {
        v: a_variant(name=v, steps=9, latency_ms={1: ms}, quality=q)
        for (v, ms), q in zip(speeds.items(), (1.0, 0.99, 0.5, 0.45), strict=True)
    }
    means = {"a": {"a": 1.0, "b": 1.0, "c": 0.1, "d": 0.1}, "b": {"a": 1.0, "b": 1.0, "c": 0.9, "d": 0.1}}
    measured = Measured(bounds=(0.0, 1.0), quality={}, classes={"models": means})
    catalog = a_catalog(
        variants=variants, cascades=(), class_cuts={"models": (Cut("b", 0.5), Cut("a", 1.0))}, measured=measured
    )
    seen = an_observation(2, demand_rps=140, classes={"models": {"a": 0.5, "b": 0.5}})
    draft = checked(plan(seen, catalog, {}, {"overprovision": 1}), catalog)
    assert rows(draft)["a"]["d"] > 0.5
    assert rows(draft)["b"]["c"] > 0.5


def test_a_solver_that_fails_does_not_stop_the_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulp, "HiGHS", lambda **_: 1 / 0)
    draft = drafted(30)
    assert counts(draft) == {"heavy": 2, "middle": 2}
    assert "the solver failed" in draft.reason


def test_workers_stay_for_a_small_loss_when_told_to_hold() -> None:
    workers = tuple(a_worker(f"w-{i}", v) for i, v in enumerate(("heavy", "middle", "middle", "middle")))
    seen = an_observation(workers=workers, demand_rps=30, classes={"models": CLASSES})
    moved, held = (plan(seen, a_ladder(), {}, {"overprovision": 1, "hold": hold}) for hold in (0, 0.2))
    assert counts(moved) == {"heavy": 2, "middle": 2}
    assert counts(held) == {"heavy": 1, "middle": 3}
