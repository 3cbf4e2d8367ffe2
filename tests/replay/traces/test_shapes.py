"""The papers' made workloads."""

import numpy as np
import pytest

from replay.traces import InvalidTrace
from replay.traces.rates import EVEN, POISSON
from replay.traces.shapes import Shape, shaped
from schemas.errors import Unknown


def per_window(shape: Shape, windows: int, seconds: float, spacing: str = EVEN) -> list[int]:
    times = shaped(shape, spacing, 1).arrival_ms
    counts: list[int] = np.histogram(times, np.linspace(0, 1000 * seconds, windows + 1))[0].tolist()
    return counts


def test_argus_ramp_rises_from_40_to_540_a_minute() -> None:
    counts = per_window(Shape(name="ramp"), 800, 800 * 60)
    assert counts[0] == pytest.approx(40, abs=2)
    assert counts[-1] == pytest.approx(540, abs=2)
    assert counts[400] == pytest.approx(290, abs=2)


def test_a_ramp_takes_other_rates_and_times() -> None:
    assert per_window(Shape(name="ramp", rates_rps=(0, 10), seconds=10), 2, 10) == [12, 38]
    assert sum(per_window(Shape(name="ramp", rates_rps=(10, 0), seconds=10), 2, 10)) == 50


def test_bursts_come_after_calms_of_the_same_length() -> None:
    shape = Shape(name="burst", rates_rps=(1, 10), seconds=45, every_s=10)
    assert per_window(shape, 9, 45) == [5, 5, 50, 50, 5, 5, 50, 50, 5]


def test_steps_are_of_equal_length() -> None:
    assert per_window(Shape(name="steps", rates_rps=(1, 0, 3), seconds=30), 3, 30) == [10, 0, 30]


@pytest.mark.parametrize("name", ["ramp", "burst", "steps"])
def test_a_shape_belongs_to_its_seed(name: str) -> None:
    shape = Shape(name=name, seconds=600)
    first, again, other = (shaped(shape, POISSON, seed) for seed in (1, 1, 2))
    assert first.arrival_ms.tolist() == again.arrival_ms.tolist() != other.arrival_ms.tolist()
    assert first.source == again.source


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        (Shape(name="rampe"), "unknown shape 'rampe'.* did you mean 'ramp'"),
        (Shape(name="ramp", rates_rps=(1,)), "the shape ramp has 2 rates: got 1"),
        (Shape(name="steps", seconds=0), "lasts more than 0 s"),
        (Shape(name="steps", rates_rps=(0,)), "gives no request"),
        (Shape(name="steps", rates_rps=(-1,)), "0 or more: got"),
        (Shape(name="steps", rates_rps=(1e9,)), "more than 20,000,000"),
        (Shape(name="burst", every_s=0), "--every must be above 0"),
        (Shape(name="burst", every_s=1e-9), "--every must be above 0"),
        (Shape(name="burst", every_s=4000), "at most the 3600 s of the trace"),
    ],
)
def test_a_shape_that_cannot_be_made_is_reported(shape: Shape, complaint: str) -> None:
    with pytest.raises((InvalidTrace, Unknown), match=complaint):
        shaped(shape, POISSON, 1)
