"""Every policy on every fleet, then each one's own rule."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.control.plans import publish
from planner.control.validity import check
from planner.policies import DEFAULT, POLICIES, InvalidParameter, PlanProposal, named
from schemas.errors import Unknown
from tests.builders import a_catalog, a_variant, an_observation

NAMES = sorted(POLICIES)
CHOOSE_BATCHES = {"diffserve", "hadis", "joint"}
TUNE_BATCHES = {"clipper-heavy", "clipper-light", "diffserve-static"}
ONE_BATCH = {
    "argus", "lru-round-robin", "mlora", "nirvana", "octoai", "pac", "proteus", "push-round-robin", "random-split",
    "sommelier",
}  # fmt: skip


def drafted(name: str, n_workers: int = 4, **parameters: float) -> PlanProposal:
    return named(name)(an_observation(n_workers), a_catalog(), {}, parameters)


def counts(draft: PlanProposal) -> dict[str, int]:
    return {v: list(draft.allocation.values()).count(v) for v in ("light", "heavy")}


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)  # some start a solver each time
@given(n_workers=st.integers(0, 12), demand=st.floats(0, 1e4))
def test_every_policy_makes_a_valid_plan_for_any_fleet_and_demand(name: str, n_workers: int, demand: float) -> None:
    observation = an_observation(n_workers, demand_rps=demand)
    draft = named(name)(observation, a_catalog(), {}, {})
    check(publish(draft, None, name, 0), a_catalog())
    assert sorted(draft.allocation) == [worker.worker_id for worker in observation.workers]
    assert draft.expected
    assert math.isfinite(draft.expected.utilization)


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_routes_only_to_levels_that_a_worker_serves(name: str) -> None:
    for n_workers in range(1, 6):
        draft = drafted(name, n_workers)
        served = set(draft.allocation.values())
        assert {level for route in draft.routes for level in route.levels} <= served
        assert {c.next_level for c in draft.cascades if c.threshold > 0} <= served


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_refuses_a_parameter_that_it_does_not_know(name: str) -> None:
    with pytest.raises(Unknown, match="unknown parameter 'btch'"):
        drafted(name, btch=2)


@pytest.mark.parametrize(
    ("names", "parameter", "misspelt", "outside", "limits"),
    [
        (
            sorted(ONE_BATCH),
            "batch",
            "batsch",
            0,
            r"a whole number in \[1, 1024\]: got 0",
        ),
        (sorted(TUNE_BATCHES), "batch", "batsch", 1.5, r"a whole number in \[0, 1024\]: got 1.5"),
        (sorted(CHOOSE_BATCHES), "overprovision", "overprovison", 0, r"in \[0.01, 100\]: got 0"),
    ],
)
def test_a_parameter_that_is_misspelt_or_out_of_range_is_refused_with_the_right_one_or_the_limits(
    names: list[str], parameter: str, misspelt: str, outside: float, limits: str
) -> None:
    for name in names:
        with pytest.raises(Unknown, match=rf"unknown parameter '{misspelt}'.*did you mean '{parameter}'"):
            drafted(name, **{misspelt: 2})
        with pytest.raises(InvalidParameter, match=rf"{parameter} must be {limits}"):
            drafted(name, **{parameter: outside})


@pytest.mark.parametrize("name", sorted(ONE_BATCH | TUNE_BATCHES))
def test_batch_is_one_unless_told_otherwise(name: str) -> None:
    assert set(drafted(name).batch.values()) == {1}
    assert set(drafted(name, batch=4).batch.values()) == {4}


def test_an_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(Unknown, match=r"did you mean 'diffserve-static'\? .*clipper-heavy, "):
        named("diffserv-static")
    assert DEFAULT in POLICIES


def test_clipper_light_and_heavy_are_the_two_ends() -> None:
    assert set(drafted("clipper-light").allocation.values()) == {"light"}
    assert set(drafted("clipper-heavy").allocation.values()) == {"heavy"}
    assert drafted("clipper-heavy").expected.utilization == pytest.approx(10 * 0.2 / 4)
    assert drafted("clipper-heavy").expected.heavy_share == 1


def test_random_split_shares_workers_by_the_work() -> None:
    draft = drafted("random-split", 11, heavy_share=0.5)  # light 20 ms, heavy 200 ms: 1 to 10
    assert draft.routes[0].levels == {"light": 0.5, "heavy": 0.5}
    assert counts(draft) == {"light": 1, "heavy": 10}
    assert draft.expected.quality == pytest.approx(0.9)


@pytest.mark.parametrize(("share", "levels"), [(0, {"light": 1.0}), (1, {"heavy": 1.0})])
def test_random_split_at_its_ends_names_one_level(share: float, levels: dict[str, float]) -> None:
    draft = drafted("random-split", heavy_share=share)
    assert draft.routes[0].levels == levels
    assert set(draft.allocation.values()) == set(levels)


def test_random_split_with_one_worker_serves_light_alone_and_says_so() -> None:
    draft = drafted("random-split", 1)
    assert draft.routes[0].levels == {"light": 1.0}
    assert "one worker" in draft.reason


def test_random_split_of_a_catalog_with_one_variant_is_that_variant() -> None:
    catalog = a_catalog(variants={"light": a_variant()}, cascades=(), class_cuts={})
    draft = named("random-split")(an_observation(), catalog, {}, {})
    assert draft.routes[0].levels == {"light": 1.0}
