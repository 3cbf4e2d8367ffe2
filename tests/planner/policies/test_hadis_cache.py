"""HADIS's plan caches: what is the same range, what a hit keeps, and what is not kept."""

import json
from typing import Any

import pytest

from planner.catalog.curves import PairRow
from planner.observation.observation import Observation, Queue
from planner.policies import PlanProposal
from planner.policies.hadis import BY_DEMAND, BY_DEMAND_AND_QUEUE, MAX_REMEMBERED, plan
from tests.planner.policies.cascades import ROWS, a_table_catalog, counts, seen


def drafted(
    observation: Observation, memory: dict[str, Any], cache: int, rows: tuple[PairRow, ...] = ROWS
) -> PlanProposal:
    kept = json.loads(json.dumps(memory))  # as a plan's record holds it
    return plan(observation, a_table_catalog(pair_rows=rows), kept, {"overprovision": 1.0, "cache": cache})


def test_a_demand_of_the_same_range_gets_the_plan_made_for_the_range() -> None:
    first = drafted(seen(8, 101.0), {}, BY_DEMAND)
    same = drafted(seen(8, 112.0), first.memory, BY_DEMAND)
    assert (same.cascades, same.allocation, same.batch) == (first.cascades, first.allocation, first.batch)
    assert same.reason == "reused from an earlier plan for 8 workers, demand 25"
    assert same.memory == first.memory


def test_a_kept_plan_that_no_longer_fits_is_applied_and_said_not_to() -> None:
    """What HADIS holds against caches: they lag behind a load that shifts within a range."""
    row = (PairRow("light", "heavy", 0.0, 0.4, 100.0, 0.9), ROWS[0])
    first = drafted(seen(8, 145.0), {}, BY_DEMAND, row)
    same = drafted(seen(8, 160.0), first.memory, BY_DEMAND, row)
    assert first.is_feasible
    assert same.cascades == first.cascades
    assert not same.is_feasible
    assert same.expected
    assert same.expected.utilization > 1


def test_another_demand_or_number_of_workers_is_solved_and_kept_beside() -> None:
    first = drafted(seen(8, 101.0), {}, BY_DEMAND)
    more = drafted(seen(8, 150.0), first.memory, BY_DEMAND)
    fewer = drafted(seen(7, 101.0), more.memory, BY_DEMAND)
    assert len(fewer.memory["kept"]) == 3
    assert sum(counts(fewer)) == 7


def test_queues_tell_ranges_apart_only_where_they_are_part_of_the_key() -> None:
    waiting = seen(8, 101.0, queues=(Queue("heavy", waiting=20, arriving_rps=200),))
    for cache, kept in ((BY_DEMAND, 1), (BY_DEMAND_AND_QUEUE, 2)):
        first = drafted(seen(8, 101.0), {}, cache)
        assert len(drafted(waiting, first.memory, cache).memory["kept"]) == kept


def test_a_plan_that_does_not_fit_is_not_kept() -> None:
    assert drafted(seen(4, 5000.0), {}, BY_DEMAND).memory == {"kept": {}}
    assert drafted(seen(0, 1.0), {}, BY_DEMAND).memory == {"kept": {}}


@pytest.mark.parametrize("change", ["heavy", 99, 0.9])
def test_what_the_catalog_no_longer_has_is_solved_anew(change: str | int | float) -> None:
    first = drafted(seen(8, 101.0), {}, BY_DEMAND)
    ((key, made),) = first.memory["kept"].items()
    place = {str: 0, int: 3, float: 4}[type(change)]
    changed = {"kept": {key: [change if at == place else value for at, value in enumerate(made)]}}
    assert drafted(seen(8, 101.0), changed, BY_DEMAND) == first


def test_the_memory_is_bounded() -> None:
    full = {"kept": {str(at): ["light", "heavy", 0, 0, 0.0, 1.0, 1, 1, 1, 1] for at in range(MAX_REMEMBERED)}}
    assert len(drafted(seen(8, 101.0), full, BY_DEMAND).memory["kept"]) == 1
