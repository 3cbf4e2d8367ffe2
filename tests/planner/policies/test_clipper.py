"""The batch size of `clipper-light` and `clipper-heavy`: one more until a batch takes too long, then a tenth less."""

import json

import pytest

from planner.observation.observation import Served
from planner.policies import PlanProposal, named
from tests.builders import a_catalog, a_variant, an_observation

TIMES = {size: 100.0 * size for size in (1, 2, 4, 8, 16, 32)}
CATALOG = a_catalog(variants={"light": a_variant(latency_ms=TIMES)}, cascades=(), class_cuts={})
SOMETHING = Served(10, in_time=1.0)


def sizes(n: int, slo_ms: float, served: Served = SOMETHING, **parameters: float) -> list[int]:
    found, memory = [], {}
    for _ in range(n):
        seen = an_observation(slo_ms=slo_ms, served=served)
        draft = named("clipper-light")(seen, CATALOG, json.loads(json.dumps(memory)), parameters)
        found.append(draft.batch["light"])
        memory = draft.memory
    return found


def test_it_grows_by_one_and_backs_off_by_a_tenth_where_a_batch_takes_over_what_it_may() -> None:
    """As published a batch may take the whole SLO; less leaves the rest for waiting."""
    assert sizes(24, slo_ms=2000.0) == sizes(24, slo_ms=4000.0, objective=0.5)
    assert sizes(24, slo_ms=2000.0) == [*range(2, 22), 18, 19, 20, 21]


def test_how_much_of_the_slo_a_batch_may_take_is_a_parameter() -> None:
    assert sizes(8, slo_ms=500.0, objective=1.0) == [2, 3, 4, 5, 6, 5, 6, 5]


def test_it_grows_to_the_largest_that_was_measured_and_without_an_slo_nothing_is_too_long() -> None:
    assert sizes(40, slo_ms=0.0)[-8:] == [32] * 8


def test_an_slo_that_not_even_one_image_meets_leaves_batches_of_one() -> None:
    assert sizes(5, slo_ms=50.0) == [1] * 5


def test_while_nothing_is_served_nothing_is_learned_and_no_plan_is_written_for_it() -> None:
    assert sizes(3, slo_ms=4000.0, served=Served()) == [1, 1, 1]


def test_a_fixed_batch_is_kept_and_remembers_nothing() -> None:
    assert sizes(3, slo_ms=4000.0, batch=4) == [4, 4, 4]
    draft: PlanProposal = named("clipper-heavy")(an_observation(served=SOMETHING), CATALOG, {}, {"batch": 4})
    assert draft.memory == {}


@pytest.mark.parametrize("policy", ["clipper-light", "clipper-heavy"])
def test_each_of_the_two_tunes_its_own_level(policy: str) -> None:
    seen = an_observation(served=SOMETHING, slo_ms=5000.0)
    draft = named(policy)(seen, a_catalog(), {}, {})
    assert draft.batch == {policy.removeprefix("clipper-"): 2}
    assert draft.memory == {"batch": draft.batch}
