"""What is swept for each policy: the same number of settings for all, and each of them is a setting of it."""

import pytest

from planner.policies import POLICIES, named
from planner.policies.tuning import BUDGET, TUNING, sweep_of
from schemas.errors import Unknown
from tests.builders import a_catalog, an_observation


def test_every_policy_is_swept_and_nothing_else() -> None:
    assert TUNING.keys() == POLICIES.keys()
    with pytest.raises(Unknown, match="did you mean 'hadis'"):
        sweep_of("hadi")


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_policy_has_as_many_settings_as_any_other_and_plans_under_each(policy: str) -> None:
    sweep = sweep_of(policy)
    assert len(set(sweep.values)) == BUDGET
    assert list(sweep.values) == sorted(sweep.values)
    for value in sweep.values:
        assert named(policy)(an_observation(demand_rps=2.0), a_catalog(), {}, {sweep.parameter: value}).routes
