"""What the time of a lookup tells another tenant: nothing where both kinds take alike, all where one takes longer."""

import numpy as np
import pytest

from agents.lab.reuse_bench.other_tenant import timing_leak


def test_times_that_are_alike_tell_nothing() -> None:
    took = np.random.default_rng(1).normal(5.0, 1.0, (400, 2))
    found = timing_leak(took, 1)
    low, high = found["ci"]
    assert low < 0.5 < high
    assert high - low < 0.12


def test_a_stored_prompt_that_takes_longer_is_found_out() -> None:
    took = np.random.default_rng(1).normal([5.5, 5.0], 1.0, (400, 2))
    found = timing_leak(took, 1)
    assert found["ci"][0] > 0.55
    assert found["stored_p50_ms"] - found["unknown_p50_ms"] == pytest.approx(0.5, abs=0.2)
