"""The split by chance beside a policy: as dear as its answers, so that it says something on any catalog."""

import pytest

from replay.simulation.session import baseline_of
from schemas.messages import Status
from streams.catalogs import measured
from tests.builders import a_catalog, a_variant
from tests.replay.simulation.runs import a_setup, arrivals, one_level, ran


def test_with_two_levels_the_share_is_the_policys_own() -> None:
    run = ran(a_setup(policy="diffserve-static", parameters={"threshold": 0.5}), arrivals(5, 200))
    beside = baseline_of(run)
    assert beside is not None
    assert beside.policy == "random-split"
    assert beside.parameters == {"heavy_share": round(run.tally.levels["heavy"] / 200, 2)}
    assert 0.1 < beside.parameters["heavy_share"] < 0.9


def test_a_level_between_counts_for_its_part_of_the_way_so_the_share_is_not_0_where_the_best_is_unused() -> None:
    middle = a_variant(name="middle", quality=0.9, latency_ms={1: 65.0})
    light, heavy = a_variant(latency_ms={1: 20.0}), a_variant(name="heavy", quality=1.0, latency_ms={1: 200.0})
    catalog = a_catalog(variants={"light": light, "middle": middle, "heavy": heavy})
    run = ran(a_setup(policy="clipper-light", catalog=catalog), arrivals(5, 50))
    run.tally.levels.clear()
    run.tally.levels.update(middle=50)
    beside = baseline_of(run)
    assert beside is not None
    assert beside.parameters == {"heavy_share": 0.25}  # 45 of 180 ms


def test_on_hadis_catalog_whose_best_level_no_fleet_of_16_affords_chance_still_generates_some() -> None:
    setup = a_setup(policy="hadis", catalog=measured("hadis-l40s"), workers=16, slo_ms=60_000.0)
    run = ran(setup, arrivals(8, 400))
    assert run.tally.levels["sd35-large"] == 0
    beside = baseline_of(run)
    assert beside is not None
    assert 0.01 <= beside.parameters["heavy_share"] <= 0.5


@pytest.mark.parametrize("count", [0, 1])
def test_one_level_or_no_answer_has_no_split(count: int) -> None:
    run = ran(a_setup(policy="clipper-light", catalog=one_level()), arrivals(5, 1))
    run.tally.ends.clear()
    run.tally.ends.update({Status.COMPLETED: count} if count else {})
    assert baseline_of(run) is None
