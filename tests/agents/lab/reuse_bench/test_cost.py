"""What reuse adds to the CPU time of an image, from paired times."""

import numpy as np
import pytest

from agents.lab.reuse_bench.cost import figures
from planner.reuse.planning import TRIED


def test_the_added_share_is_of_all_images_together_with_as_many_looked_up_as_a_plan_tries() -> None:
    off, full, on = np.array([0.1, 0.3]), np.array([0.101, 0.301]), np.array([0.111, 0.311])
    found = figures(off, full, on, seed=1)
    assert found["value"] == pytest.approx((0.002 + TRIED * 0.02) / 0.4)
    assert found["before_seen"]["value"] == pytest.approx(0.055)
    assert (found["off_ms"], found["full_ms"], found["on_ms"], found["lookup_ms_p50"]) == (200.0, 201.0, 211.0, 10.0)


def test_an_interval_holds_times_that_vary_and_pairs_keep_it_narrow() -> None:
    off = np.random.default_rng(1).uniform(0.1, 0.5, 60)
    low, high = figures(off, off, off * 1.02, seed=1)["before_seen"]["ci"]
    assert low == pytest.approx(0.02, abs=1e-4)
    assert high == pytest.approx(0.02, abs=1e-4)


def test_one_image_has_no_interval() -> None:
    assert figures(np.array([0.1]), np.array([0.1]), np.array([0.2]), seed=1)["ci"] is None
