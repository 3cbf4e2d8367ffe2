"""`pac`: ARGUS's levels, the prompt unseen."""

from collections import Counter

import pytest

from planner.policies import argus, pac
from tests.builders import NO_ANSWER, an_observation, lookups
from tests.planner.solvers.levels.builders import a_ladder, a_reuse_ladder


@pytest.mark.parametrize("demand", [0, 30, 100, 400])
@pytest.mark.parametrize("n_workers", [0, 1, 4])
def test_it_allocates_as_argus_does_but_every_prompt_has_the_same_route(demand: float, n_workers: int) -> None:
    seen = an_observation(n_workers, demand_rps=demand, classes={"models": {"light": 0.6, "heavy": 0.4}})
    aware, blind = (policy.plan(seen, a_ladder(), {}, {"even": 0} if policy is pac else {}) for policy in (argus, pac))
    assert blind.allocation == aware.allocation
    assert blind.expected == aware.expected
    assert len(blind.routes) == 1
    assert blind.routes[0] == aware.routes[-1]
    assert blind.routes[0].label == ""


def test_as_published_every_worker_gets_an_even_share() -> None:
    seen = an_observation(4, demand_rps=30)
    even, by_capacity = (pac.plan(seen, a_ladder(), {}, {"overprovision": 1, "even": even}) for even in (1, 0))
    counts = Counter(even.allocation.values())
    assert even.allocation == by_capacity.allocation
    assert even.routes[0].levels == {level: count / 4 for level, count in counts.items()}
    assert even.routes[0].levels != by_capacity.routes[0].levels


def test_it_switches_strategies_as_argus_does() -> None:
    seen = an_observation(4, demand_rps=60, reuse=lookups(1.0))
    draft = pac.plan(seen, a_reuse_ladder(), {}, {})
    assert draft.strategy == "reuse"
    assert set(draft.routes[0].levels) <= {"heavy", "heavy~k10", "heavy~k20"}
    gone = an_observation(4, demand_rps=60, reuse=NO_ANSWER)
    assert pac.plan(gone, a_reuse_ladder(), draft.memory, {}).memory["stage"] == "leaving"
