"""Counts per interval as arrivals, as they stand and as the papers shape them."""

import pathlib

import numpy as np
import pytest

from replay.traces import Asked, InvalidTrace, read
from replay.traces.formats.counts import Shaping, minmax
from replay.traces.rates import EVEN
from tests.replay.traces.files import DATA, LENIENT, read_in

TRACES = DATA / "traces"
EVENLY = Asked(shaping=Shaping(spacing=EVEN))


def test_counts_as_they_stand_come_so_many_within_the_time_that_they_say(tmp_path: pathlib.Path) -> None:
    trace = read_in(tmp_path, "minute,requests\n5,2\n6,0\n7,4\n", EVENLY)
    assert trace.arrival_ms.tolist() == [15_000, 45_000, 127_500, 142_500, 157_500, 172_500]


def test_parts_of_a_request_are_carried_on(tmp_path: pathlib.Path) -> None:
    assert len(read_in(tmp_path, "second,count\n" + "".join(f"{n},0.25\n" for n in range(100)), EVENLY)) == 25


def test_scaling_counts_scales_them_and_not_what_came_of_them(tmp_path: pathlib.Path) -> None:
    content = "hour,invocations\n0,1000000000\n1,2000000000\n"
    with pytest.raises(InvalidTrace, match=r"come to 3,000,000,000 requests.* give --scale"):
        read_in(tmp_path, content)
    trace = read_in(tmp_path, content, Asked(scale=1e-6))
    assert len(trace) == pytest.approx(3000, rel=0.1)
    assert (trace.arrival_ms < 3_600_000).sum() == pytest.approx(1000, rel=0.15)


def test_a_limit_makes_no_more_than_it_needs(tmp_path: pathlib.Path) -> None:
    lines = "".join(f"{n},10000\n" for n in range(5000))  # fifty million
    trace = read_in(tmp_path, f"hour,invocations\n{lines}", Asked(limit=2000))
    assert len(trace) == 2000
    assert trace.arrival_ms[-1] < 3_600_000


def test_min_max_brings_the_least_and_the_greatest_to_the_rates() -> None:
    assert minmax(np.array([10.0, 30.0, 20.0]), 4, 32).tolist() == [4, 32, 18]
    assert minmax(np.array([5.0, 5.0]), 4, 32).tolist() == [32, 32]


@pytest.mark.skipif(not TRACES.exists(), reason=f"published traces not at {TRACES}")
@pytest.mark.parametrize(("low", "high"), [(4, 32), (1, 28), (1, 8)])
def test_the_papers_shaping_makes_the_published_traces_but_for_chance(low: int, high: int) -> None:
    published = read(TRACES / f"azure_functions_{low}to{high}qps.csv")
    shaping = Shaping.of_the_papers(low, high)
    ours = read(TRACES / "azure_functions_hourly.csv", Asked(shaping=shaping))
    assert len(ours) == pytest.approx(len(published), rel=0.01)
    a, b = (np.histogram(each.arrival_ms, np.arange(0, 340_001, 10_000))[0] for each in (ours, published))
    assert np.corrcoef(a, b)[0, 1] > 0.95
    assert len(read(TRACES / "azure_functions_hourly.csv", Asked(shaping=shaping, seed=1))) != 0


@pytest.mark.parametrize(
    ("line", "complaint", "kind", "left"),
    [
        ("0,5", r"hour must rise by 1 a row: got 0 after 0", "repeated", 2),
        ("3,5", r"hour must rise by 1 a row: got 3 after 0", "after a gap", 4),
        ("1000000,5", r"got 1000000 after 0", "after a gap", 2),
        ("1,-5", r"invocations must be 0 to", "not a count", 2),
        ("1,1e30", r"invocations must be 0 to", "not a count", 2),
        ("1,nan", r"must be a finite number of invocations", "not finite", 2),
        ("1.5,5", r"whole number of hours", "not a whole number", 2),
        ("noon,5", r"not a number of hours", "not a number", 2),
    ],
)
def test_a_bad_row_is_reported_or_counted(
    tmp_path: pathlib.Path, line: str, complaint: str, kind: str, left: int
) -> None:
    with pytest.raises(InvalidTrace, match=rf"given:3: .*{complaint}"):
        read_in(tmp_path, f"hour,invocations\n0,8\n{line}\n")
    after = 4 if kind == "after a gap" and left == 4 else 1
    lenient = Asked(is_lenient=True, shaping=EVENLY.shaping)
    trace = read_in(tmp_path, f"hour,invocations\n0,8\n{line}\n{after},8\n", lenient)
    assert trace.skipped == {kind: 1}
    assert np.ceil(trace.arrival_ms[-1] / 3_600_000) == (5 if left == 4 else 2)


def test_counts_that_come_to_nothing_are_reported(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidTrace, match="has no counts"):
        read_in(tmp_path, "hour,invocations\n")
    with pytest.raises(InvalidTrace, match="gives no request"):
        read_in(tmp_path, "hour,invocations\n0,0\n")
    with pytest.raises(InvalidTrace, match="has no counts, 1 skipped: 1 not a number"):
        read_in(tmp_path, "hour,invocations\n0,x\n", LENIENT)
    with pytest.raises(InvalidTrace, match="last too long: give --interval"):
        read_in(tmp_path, "day,count\n" + "".join(f"{n},1\n" for n in range(401)))
