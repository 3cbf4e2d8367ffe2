"""The papers' made workloads."""

import pathlib

import numpy as np
import pytest

from replay.traces import InvalidTrace
from replay.traces.formats.graded import of_rules, read_graded
from replay.traces.rates import EVEN, POISSON
from replay.traces.shapes import Graded, Shape, shaped
from schemas.errors import Unknown
from tests.replay.traces.files import DATA, a_file

FEATURES = DATA / "profiles" / "hadis_prompt_features.csv"
GRADED = Graded(texts=("e1", "h1", "e2", "h2"), hardness=np.array([0.1, 0.9, 0.2, 0.6]))


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


def test_phases_change_hardness_and_not_demand() -> None:
    shape = Shape(name="phases", rates_rps=(5,), seconds=400)
    trace = shaped(shape, POISSON, 1)
    counts = np.histogram(trace.arrival_ms, np.arange(0, 400_001, 100_000))[0]
    assert counts.min() > 0.85 * counts.max()
    parts = np.split(trace.hardness, np.cumsum(counts)[:-1])
    assert all(part.max() < 0.5 for part in parts[::2])
    assert all(part.min() >= 0.5 for part in parts[1::2])
    assert parts[0].mean() == pytest.approx(0.25, abs=0.03)
    assert not trace.has_prompts


def test_phases_take_prompts_of_their_hardness() -> None:
    shape = Shape(name="phases", rates_rps=(1,), seconds=120)
    prompts = [row.prompt for row in shaped(shape, EVEN, 1, GRADED).rows()]
    assert {*prompts[:30], *prompts[60:90]} == {"e1", "e2"}
    assert {*prompts[30:60], *prompts[90:]} == {"h1", "h2"}
    with pytest.raises(InvalidTrace, match=r"no prompt is easy: the split of hardness is 0\.05"):
        shaped(Shape(name="phases", split=0.05), EVEN, 1, GRADED)


@pytest.mark.parametrize("name", ["ramp", "burst", "steps", "phases"])
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
        (Shape(name="phases", rates_rps=(1, 2)), "the shape phases has 1 rates: got 2"),
        (Shape(name="steps", seconds=0), "lasts more than 0 s"),
        (Shape(name="steps", rates_rps=(0,)), "gives no request"),
        (Shape(name="steps", rates_rps=(-1,)), "0 or more: got"),
        (Shape(name="steps", rates_rps=(1e9,)), "more than 20,000,000"),
        (Shape(name="burst", every_s=0), "--every must be above 0"),
        (Shape(name="burst", every_s=1e-9), "--every must be above 0"),
        (Shape(name="burst", every_s=4000), "at most the 3600 s of the trace"),
        (Shape(name="phases", split=1), "phases need a split in"),
    ],
)
def test_a_shape_that_cannot_be_made_is_reported(shape: Shape, complaint: str) -> None:
    with pytest.raises((InvalidTrace, Unknown), match=complaint):
        shaped(shape, POISSON, 1)


def test_graded_prompts_are_read_with_their_hardness_or_by_the_rules(tmp_path: pathlib.Path) -> None:
    graded = read_graded(a_file(tmp_path, 'prompt,hardness\n"a cat, black",.25\nb,1\n'), of_rules())
    assert (list(graded.texts), graded.hardness.tolist()) == (["a cat, black", "b"], [0.25, 1])
    for content, complaint in [
        ("prompt\na\n", "got the columns 'prompt'"),
        ("prompt,hardness\na,2\n", r"given:2: hardness must be in"),
        ("prompt,hardness\n", "has no prompts"),
    ]:
        with pytest.raises(InvalidTrace, match=complaint):
            read_graded(a_file(tmp_path, content), of_rules())


@pytest.mark.skipif(not FEATURES.exists(), reason=f"published features not at {FEATURES}")
def test_hadis_prompts_fall_on_both_sides() -> None:
    graded = read_graded(FEATURES, of_rules())
    assert len(graded.texts) == 5000
    assert 0.2 < (graded.hardness < 0.5).mean() < 0.8
