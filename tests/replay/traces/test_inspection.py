"""The figures of a trace, and how they are shown."""

import io
import json
import pathlib

import numpy as np
import pytest
from rich.console import Console

from replay.traces import Asked, Trace, constant, poisson
from replay.traces.inspection import bars, curve, inspected, lines
from replay.traces.page import show, write_page
from replay.traces.trace import of_arrivals
from tests.replay.traces.files import jsonl, read_in


def a_trace(times: list[float]) -> Trace:
    return of_arrivals(times, "name", "source")


def test_even_arrivals_have_no_dispersion_poissons_one_and_bursts_more() -> None:
    even, random = inspected(a_trace(constant(20, 20_000))), inspected(a_trace(poisson(20, 20_000, 1)))
    bursts = inspected(a_trace([1000.0 * (n // 100) + n % 100 for n in range(20_000) if n // 100 % 5 == 0]))
    assert even["burstiness"]["index_of_dispersion"] == pytest.approx({"1s": 0, "10s": 0, "60s": 0}, abs=1e-9)
    assert random["burstiness"]["index_of_dispersion"]["1s"] == pytest.approx(1, abs=0.15)
    assert random["burstiness"]["gaps_cv"] == pytest.approx(1, abs=0.05)
    assert bursts["burstiness"]["index_of_dispersion"]["1s"] == pytest.approx(80, rel=0.1)


def test_rates_are_of_the_span_and_of_the_busiest_window() -> None:
    found = inspected(a_trace([0.0, 100.0, 200.0, 500.0, 20_000.0]))
    assert (found["requests"], found["span_s"], found["first_s"]) == (5, 20, 0)
    assert found["rate_rps"] == {"mean": 4 / 20, "peak": {"1s": 4, "10s": 0.4, "60s": None}}
    assert found["burstiness"]["index_of_dispersion"]["60s"] is None


def test_the_busiest_window_may_begin_anywhere_and_lie_at_the_end() -> None:
    peak = inspected(a_trace([0.0, 900.0, 950.0, 1010.0, 1050.0]))["rate_rps"]["peak"]
    assert peak["1s"] == 4
    rising = a_trace([1000.0 * 19 * (n / 999) ** 0.5 for n in range(1000)])
    rate = inspected(rising)["rate_rps"]
    assert rate["peak"]["10s"] > rate["mean"]


@pytest.mark.parametrize("seed", range(5))
def test_no_peak_is_below_the_average(seed: int) -> None:
    rate = inspected(a_trace(poisson(20, 3000, seed)))["rate_rps"]
    assert min(rate["peak"].values()) >= 0.999 * rate["mean"]


def test_one_request_and_requests_at_one_instant_have_no_rate() -> None:
    for times in ([7.0], [7.0, 7.0, 7.0]):
        found = inspected(a_trace(times))
        assert found["rate_rps"]["mean"] is None
        assert found["burstiness"]["gaps_cv"] is None
        assert found["burstiness"]["same_instant"] == len(times) - 1
        assert dict(lines(found))["rate"].startswith("unknown")


def test_the_mix_of_prompts_and_models_is_reported(tmp_path: pathlib.Path) -> None:
    def ask(at: int, prompt: str, **more: object) -> dict[str, object]:
        return {"arrival_ms": at, "prompt": prompt, **more}

    asks = [
        ask(0, "a cat"),
        ask(1, "a cat", model="heavy", n=4),
        ask(2, "a big dog"),
        ask(3, "a cat", adapters=["ink"]),
    ]
    found = inspected(read_in(tmp_path, jsonl(*asks)))
    assert found["prompts"] == {
        "known": 4, "distinct": 2, "most_used_share": 0.75, "words": {"p50": 2.0, "p95": pytest.approx(2.85)}
    }  # fmt: skip
    assert found["mix"] == {
        "model": {"any": 0.75, "heavy": 0.25},
        "loras": {"0": 0.75, "1": 0.25},
        "lora": {"none": 0.75, "ink": 0.25},
        "pictures": {"1": 0.75, "4": 0.25},
    }
    assert dict(lines(found))["model"] == "any 75.0%, heavy 25.0%"


def test_many_models_are_the_ten_most_frequent_and_the_rest(tmp_path: pathlib.Path) -> None:
    asks = [{"arrival_ms": n, "model": f"m{min(n, 14)}"} for n in range(30)]
    shares = inspected(read_in(tmp_path, jsonl(*asks)))["mix"]["model"]
    assert next(iter(shares)) == "m14"
    assert shares["5 others"] == pytest.approx(5 / 30)
    assert sum(shares.values()) == pytest.approx(1)


def test_skipped_lines_are_reported(tmp_path: pathlib.Path) -> None:
    found = inspected(read_in(tmp_path, "arrival_ms\n0\nx\n5\n", Asked(is_lenient=True)))
    assert dict(lines(found))["requests"] == "2, 1 skipped: not a number"


def test_the_curve_has_all_requests_below_it() -> None:
    trace = a_trace(poisson(20, 5000, 1))
    middle, rates = curve(trace, 40)
    assert len(middle) == len(rates) == 40
    assert rates.mean() * float(trace.arrival_ms[-1]) / 1000 == pytest.approx(5000)
    assert np.diff(middle) == pytest.approx(np.diff(middle)[0])


def test_two_requests_in_a_moment_are_no_rate_of_a_hundred_a_second() -> None:
    for arrivals_ms, most_rps in (([0.0, 20.0], 2.0), ([0.0, 2060.0], 1 / 1.03)):
        _, rates = curve(a_trace(arrivals_ms), 40)
        assert rates.max() == pytest.approx(most_rps)


def test_bars_are_as_high_as_their_rates() -> None:
    assert bars([0, 1, 2, 4], 2) == ["   █", " ▄██"]
    assert bars([], 2) == ["", ""]
    assert bars([0, 0], 1) == ["  "]


def test_a_terminal_shows_the_plot_and_the_figures() -> None:
    trace, out = a_trace(poisson(20, 5000, 1)), io.StringIO()
    show(trace, inspected(trace), Console(file=out, width=80))
    reported = out.getvalue().splitlines()
    assert reported[0].split("/s ")[0].strip().replace(".", "").isdecimal()
    assert "█" in reported[7]
    assert max(len(line) for line in reported[:9]) <= 80
    assert any(line.startswith("index of dispersion") for line in reported)


def test_the_page_holds_the_plot_and_names_that_are_not_markup(tmp_path: pathlib.Path) -> None:
    trace = of_arrivals(poisson(20, 500, 1), "<b>name</b>", "source & more")
    page = write_page(trace, inspected(trace), tmp_path / "new" / "out").read_text()
    assert "<svg" in page
    assert "&lt;b&gt;name&lt;/b&gt;" in page
    assert "<b>name" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert json.loads((tmp_path / "new" / "out" / "trace.json").read_text()) == inspected(trace)
