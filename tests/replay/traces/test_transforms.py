"""Faster, more, less, again: what changes, and what stays."""

import pathlib

import numpy as np
import pytest

from replay.traces import Asked, InvalidTrace, Trace, poisson
from replay.traces.trace import of_arrivals
from replay.traces.transforms import limited, looped, rate_interval_s, redrawn, scaled, sped
from tests.replay.traces.files import arrivals, jsonl, read_in

WAVE_S = 50  # of the rate


def a_wave(n: int = 20_000) -> Trace:
    """About 20 requests a second whose rate swings by four fifths."""
    times = np.array(poisson(20, n, seed=1))
    return of_arrivals(times + 0.8 * 1000 * WAVE_S / (2 * np.pi) * np.sin(times / 1000 / WAVE_S * 2 * np.pi), "w", "w")


def counts(trace: Trace, seconds: float) -> np.ndarray:
    return np.histogram(trace.arrival_ms, np.arange(0, 1_000_001, 1000 * seconds))[0]


def dispersion(values: np.ndarray) -> float:
    return float(values.var() / values.mean())


def test_speed_shrinks_gaps_and_leaves_deadlines_alone(tmp_path: pathlib.Path) -> None:
    content = jsonl(*({"arrival_ms": at, "slack_ms": 500} for at in (100, 300, 1000)))
    trace = read_in(tmp_path, content, Asked(speed=2))
    assert trace.arrival_ms.tolist() == [50, 150, 500]
    assert trace.slack_ms.tolist() == [500, 500, 500]


@pytest.mark.parametrize("factor", [0.3, 0.5, 1.7, 2.0, 4.0])
def test_scale_changes_how_many_come_and_keeps_time_and_shape(factor: float) -> None:
    trace = a_wave()
    other = scaled(trace, factor, seed=2)
    assert len(other) == pytest.approx(factor * len(trace), rel=0.02)
    assert other.span_ms == pytest.approx(trace.span_ms, rel=0.01)
    before, after = counts(trace, 10), counts(other, 10)
    assert np.corrcoef(before, after)[0, 1] > 0.95
    assert after.max() / after.mean() == pytest.approx(before.max() / before.mean(), rel=0.15)


def test_a_thinned_poisson_trace_is_poisson_still_and_a_doubled_one_nearly_within_a_second() -> None:
    trace = of_arrivals(poisson(20, 20_000, seed=1), "p", "p")
    assert dispersion(counts(scaled(trace, 0.3, seed=2), 1)) == pytest.approx(1, abs=0.15)
    assert dispersion(counts(scaled(trace, 2, seed=2), 0.2)) == pytest.approx(1, abs=0.3)
    copies_beside_each_other = np.repeat(trace.arrival_ms, 2)
    assert dispersion(np.histogram(copies_beside_each_other, np.arange(0, 1e6, 200))[0]) > 1.8


def test_what_a_small_scale_keeps_a_larger_one_keeps_too() -> None:
    trace = a_wave(1000)
    kept = [set(scaled(trace, factor, seed=2).arrival_ms.tolist()) for factor in (0.3, 0.6, 1.0)]
    assert kept[0] < kept[1] < kept[2]
    assert set(trace.arrival_ms.tolist()) <= set(scaled(trace, 2.5, seed=2).arrival_ms.tolist())


def test_scale_belongs_to_its_seed() -> None:
    trace = a_wave(1000)
    assert (scaled(trace, 0.5, seed=2).arrival_ms == scaled(trace, 0.5, seed=2).arrival_ms).all()
    assert scaled(trace, 0.5, seed=2).arrival_ms.tolist() != scaled(trace, 0.5, seed=3).arrival_ms.tolist()


def test_copies_ask_for_the_same_under_ids_of_their_own(tmp_path: pathlib.Path) -> None:
    content = jsonl({"arrival_ms": 0, "prompt": "a cat", "request_id": "r", "n": 2})
    rows = list(read_in(tmp_path, content, Asked(scale=2, loop=2)).rows())
    assert [row.request_id for row in rows] == ["r", "r~2", "r~3", "r~2~2"]
    assert {(row.prompt, row.wish.options.n) for row in rows} == {("a cat", 2)}


def test_a_loop_begins_again_a_mean_gap_after_the_last(tmp_path: pathlib.Path) -> None:
    trace = read_in(tmp_path, arrivals(10, 20, 50), Asked(loop=3))
    assert trace.arrival_ms.tolist() == [10, 20, 50, 80, 90, 120, 150, 160, 190]
    assert read_in(tmp_path, arrivals(10), Asked(loop=2)).arrival_ms.tolist() == [10, 20]


def test_a_limit_is_of_what_is_replayed(tmp_path: pathlib.Path) -> None:
    assert read_in(tmp_path, arrivals(0, 1), Asked(loop=3, limit=5)).arrival_ms.tolist() == [0, 1, 2, 3, 4]
    assert len(read_in(tmp_path, arrivals(0, 1, 2, 3), Asked(scale=2, limit=5))) == 5
    assert len(read_in(tmp_path, arrivals(0, 1), Asked(limit=5))) == 2


@pytest.mark.parametrize("factor", [0, -1, float("inf"), float("nan")])
def test_factors_that_are_none_are_refused(factor: float) -> None:
    for change in (lambda trace: sped(trace, factor), lambda trace: scaled(trace, factor, 0)):
        with pytest.raises(InvalidTrace, match="must be above 0"):
            change(of_arrivals([1.0], "t", "t"))


def test_what_would_be_too_much_or_nothing_is_refused() -> None:
    trace = of_arrivals(np.arange(1000.0), "t", "t")
    with pytest.raises(InvalidTrace, match="more than 20,000,000"):
        scaled(trace, 1e6, 0)
    with pytest.raises(InvalidTrace, match="leaves no request of 1000"):
        scaled(trace, 1e-9, 0)
    with pytest.raises(InvalidTrace, match="more than 20,000,000"):
        looped(trace, 10**6)
    with pytest.raises(InvalidTrace, match="400 days"):
        sped(trace, 1e-9)
    with pytest.raises(InvalidTrace, match="400 days"):
        looped(of_arrivals([0.0, 3e10], "t", "t"), 3)
    with pytest.raises(InvalidTrace, match="--limit must be 1 or more: got 0"):
        limited(trace, 0)
    with pytest.raises(InvalidTrace, match="--loop must be 1 or more: got 0"):
        looped(trace, 0)


def test_redrawn_arrivals_are_a_poisson_process_at_the_recorded_rates() -> None:
    trace = a_wave()
    drawn = np.array([counts(redrawn(trace, seed), 5) for seed in range(200)])
    recorded = counts(trace, 5)
    assert drawn.mean(axis=0) == pytest.approx(recorded, abs=4 * (recorded.max() / 200) ** 0.5 + 1)
    busy = recorded > 20
    assert np.mean(drawn.var(axis=0)[busy] / recorded[busy]) == pytest.approx(1, abs=0.05)
    gaps = np.diff(redrawn(timed_evenly(5000), 1).arrival_ms)
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.05)


def timed_evenly(n: int) -> Trace:
    return of_arrivals(50.0 * np.arange(n), "even", "even")


def test_a_seed_draws_the_same_arrivals_again_and_another_seed_others() -> None:
    trace = a_wave(500)
    assert redrawn(trace, 1).arrival_ms.tolist() == redrawn(trace, 1).arrival_ms.tolist()
    assert redrawn(trace, 1).arrival_ms.tolist() != redrawn(trace, 2).arrival_ms.tolist()


def test_redrawn_requests_ask_for_what_was_asked_at_their_time(tmp_path: pathlib.Path) -> None:
    lines = [{"arrival_ms": 40 * at, "slack_ms": 100 if at < 500 else 900} for at in range(1000)]
    drawn = redrawn(read_in(tmp_path, jsonl(*lines), Asked()), 4)
    assert set(drawn.slack_ms[drawn.arrival_ms < 20_000].tolist()) == {100}
    assert set(drawn.slack_ms[drawn.arrival_ms >= 20_000].tolist()) == {900}


def test_rates_of_few_requests_are_counted_over_a_longer_time() -> None:
    assert rate_interval_s(timed_evenly(1000)) == 5
    assert rate_interval_s(of_arrivals(1000.0 * np.arange(100), "slow", "slow")) == 20
    assert rate_interval_s(of_arrivals(60_000.0 * np.arange(100), "slower", "slower")) == 40
    assert len(redrawn(of_arrivals([5.0], "one", "one"), 1)) == 1
