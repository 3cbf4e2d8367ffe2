"""Intervals hold what they promise: 200 samples of 1,000 prompts out of a pool of 20,000 that was measured once."""

import pytest

from agents.lab.evaluation.statistics.coverage import coverage, load
from agents.profiling.statistics.intervals import Resampling
from tests.agents.lab.evaluation.statistics.pools import POOL

LEAST = 0.93  # of intervals of 95 %


@pytest.mark.timeout(2400)
def test_at_least_93_of_100_intervals_contain_the_pools_value() -> None:
    held = coverage(load(POOL), count=1000, draws=200, how=Resampling(seed=11, resamples=1000))
    print({name: round(share, 3) for name, share in held.items()})
    assert len(held) == 10
    assert min(held.values()) >= LEAST, held
