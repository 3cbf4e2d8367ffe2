"""Plans from profiles whose prompts are drawn anew, on prompts that no profile has seen.

`make nightly PART=fresh_prompts` is the whole of it.
"""

import numpy as np
import pytest

from tests.planner.fresh_prompts import Outcome, at, falls, fresh, outcomes, profiled, resampled

pytestmark = pytest.mark.slow

LOADS, PROFILES = (3.0, 25.0, 60.0, 100.0), 20
RESAMPLED = 4
FEW = 200  # prompts of a small profile


@pytest.fixture(scope="module")
def of_resampled() -> list[Outcome]:
    return list(outcomes(resampled(profiled(), RESAMPLED), fresh(), LOADS))


@pytest.mark.parametrize("rps", LOADS)
def test_plans_from_resampled_profiles_lose_little_against_one_made_from_the_fresh_prompts(
    of_resampled: list[Outcome], rps: float
) -> None:
    assert max(each.lost for each in of_resampled if each.rps == rps) <= 0.005


def test_heavy_for_all_is_no_plan_of_a_fleet_that_has_no_time_for_it(of_resampled: list[Outcome]) -> None:
    assert all(len(each.costs_ms) > 1 or each.costs_ms[0] < 270 for each in of_resampled if each.rps >= 60)


def test_small_profiles_send_few_prompts_to_a_cheaper_level_than_easier_ones_and_promise_no_more_than_they_know() -> (
    None
):
    pool = fresh()
    profiles = [at(pool, np.arange(FEW) + FEW * number) for number in range(PROFILES)]
    found = list(outcomes(profiles, at(pool, np.arange(FEW * PROFILES, len(pool.hardness))), LOADS[1:3]))
    assert np.mean([falls(each) for each in found]) <= 0.08  # without gains that rise with hardness .19
    assert np.mean([each.lost for each in found]) <= 0.009  # .011
    assert np.mean([each.above > each.half_width for each in found]) <= 0.05
