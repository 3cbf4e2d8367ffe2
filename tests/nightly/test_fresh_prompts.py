"""Plans from 200 resampled profiles at eight loads, and from 200 other profiles, on fresh prompts."""

from collections.abc import Iterable

import numpy as np
import pytest

from planner.catalog.prompt_table import PromptTable
from tests.planner.fresh_prompts import Outcome, drawn, falls, fresh, outcomes, profiled, resampled

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


def tabled(profiles: Iterable[PromptTable]) -> dict[float, list[Outcome]]:
    found = list(outcomes(profiles, fresh(), LOADS))
    rows = {rps: [each for each in found if each.rps == rps] for rps in LOADS}
    print(*(figures(row, rps) for rps, row in rows.items()), sep="\n")
    return rows


@pytest.mark.timeout(3600)
def test_plans_from_resampled_profiles_lose_little_and_send_no_band_lighter_than_an_easier_one() -> None:
    for row in tabled(resampled(profiled(), COUNT)).values():
        assert max(each.lost for each in row) <= MOST_LOST
        assert not any(falls(each) for each in row)


@pytest.mark.timeout(3600)
def test_expected_quality_of_other_profiles_is_seldom_above_by_more_than_its_interval() -> None:
    prompts = profiled()
    for row in tabled(drawn(fresh(), len(prompts.hardness), COUNT)).values():
        assert np.mean([each.above > each.half_width for each in row]) <= MOST_ABOVE
