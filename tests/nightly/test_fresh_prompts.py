"""Plans from 200 resampled profiles at eight loads, and from 200 other profiles, on fresh prompts."""

from collections.abc import Iterable

import numpy as np
import pytest

from tests.planner.fresh_prompts import Outcome, apart, falls, fresh, outcomes, profiled, resampled

LOADS, COUNT = (1.0, 3.0, 10.0, 20.0, 25.0, 40.0, 60.0, 100.0), 200
MOST_LOST, MOST_ABOVE = 0.005, 0.05


def figures(found: list[Outcome], rps: float) -> str:
    """A line of a table: what plans at a load have lost, and how far their expected quality is above."""
    lost, above = np.array([each.lost for each in found]), np.array([each.above for each in found])
    beyond = np.mean([each.above > each.half_width for each in found])
    return (
        f"{rps:g}/s: lost {lost.mean():+.4f}, at most {lost.max():.4f}, above {MOST_LOST:g} in "
        f"{(lost > MOST_LOST).mean():.1%}; expected {above.mean():+.4f} above, beyond its interval in {beyond:.1%}"
    )


def tabled(found: Iterable[Outcome]) -> dict[float, list[Outcome]]:
    every = list(found)
    rows = {rps: [each for each in every if each.rps == rps] for rps in LOADS}
    print(*(figures(row, rps) for rps, row in rows.items()), sep="\n")
    return rows


@pytest.mark.timeout(3600)
def test_plans_from_resampled_profiles_seldom_lose_much_and_send_no_band_lighter_than_an_easier_one() -> None:
    for row in tabled(outcomes(resampled(profiled(), COUNT), fresh(), LOADS)).values():
        assert np.mean([each.lost > MOST_LOST for each in row]) <= 0.05
        assert max(each.lost for each in row) <= 2 * MOST_LOST
        assert not any(falls(each) for each in row)


@pytest.mark.timeout(3600)
def test_expected_quality_of_other_profiles_is_seldom_above_by_more_than_its_interval() -> None:
    profiles = apart(fresh(), len(profiled().hardness), COUNT)
    for row in tabled(each for few, rest in profiles for each in outcomes([few], rest, LOADS)).values():
        assert np.mean([each.above > each.half_width for each in row]) <= MOST_ABOVE
