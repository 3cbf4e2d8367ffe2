"""The traces that questions run on."""

import gzip
import pathlib

import numpy as np
import pytest

from replay.bench.papers.runs.arrivals import GENAI, HELD_OUT, PUBLISHED, SYNTHETIC, TUNING, open_trace
from replay.traces.trace import InvalidTrace
from schemas.errors import Unknown


@pytest.mark.parametrize("name", [*PUBLISHED, *SYNTHETIC, "constant-2", "steady-60"])
def test_a_made_trace_is_the_same_each_time(name: str) -> None:
    once, again = open_trace(name, None, 100), open_trace(name, None, 100)
    assert np.array_equal(once.arrival_ms, again.arrival_ms)
    assert len(once) == 100


@pytest.mark.parametrize(
    ("name", "requests", "peak_rps"),
    [("azure-1to8", 1633, 8), ("azure-1to28", 5443, 28), ("azure-4to32", 6680, 32), ("twitter-bursty", 20644, 128)],
)
def test_a_made_trace_has_about_the_size_and_the_peak_of_the_published_one(
    name: str, requests: int, peak_rps: float
) -> None:
    made = open_trace(name, None, None)
    peak = np.bincount((made.arrival_ms // 10_000).astype(np.int64)).max() / 10
    assert 0.75 * requests < len(made) < 1.25 * requests
    assert 0.85 * peak_rps < peak < 1.15 * peak_rps


def test_a_published_trace_comes_from_the_folder(tmp_path: pathlib.Path) -> None:
    (tmp_path / "azure_functions_1to8qps.csv").write_text("arrival_ms\n0\n10\n30\n")
    assert open_trace("azure-1to8", tmp_path, None).arrival_ms.tolist() == [0, 10, 30]


def test_the_phases_have_easy_and_hard_prompts_at_one_rate() -> None:
    trace = open_trace("phases", None, None)
    quarter = np.minimum(trace.arrival_ms // 600_000, 3)
    assert [(trace.hardness[quarter == part] >= 0.5).all() for part in range(4)] == [False, True, False, True]
    assert all(1100 < (quarter == part).sum() < 1300 for part in range(4))


def test_an_unknown_trace_is_told_with_those_there_are() -> None:
    with pytest.raises(Unknown, match="azure-1to8"):
        open_trace("azure-1to9", None, None)


@pytest.mark.parametrize("name", [*PUBLISHED, *SYNTHETIC, "constant-2"])
def test_another_draw_has_other_arrivals_at_the_same_rates(name: str) -> None:
    recorded, drawn, again = (open_trace(name, None, None, redraw) for redraw in (None, 3, 3))
    assert np.array_equal(drawn.arrival_ms, again.arrival_ms)
    assert not np.array_equal(drawn.arrival_ms[:100], recorded.arrival_ms[:100])
    assert len(drawn) == pytest.approx(len(recorded), abs=6 * len(recorded) ** 0.5)


def test_a_day_of_the_production_service_is_scaled_as_azures_traces_are(tmp_path: pathlib.Path) -> None:
    rows = [f"{1000 + 57 * at},{at % 5 + 1},,API Requests" for at in range(400) if at != 7]
    rows += [f"{1000 + 57 * at},9,some,Generative Requests" for at in range(400)]
    text = "timestamp_anon,value,container_ip,request_type\n" + "\n".join(reversed(rows)) + "\n"
    (tmp_path / "genai2026").mkdir()
    (tmp_path / "genai2026" / "qps.csv.gz").write_bytes(gzip.compress(text.encode()))
    traces = tmp_path / "traces"
    traces.mkdir()
    read = open_trace(GENAI, traces, None)
    assert 95_000 < read.arrival_ms[-1] < 100_000, "a row in a quarter of a second"
    assert len(read) == pytest.approx(100 * 18, rel=0.1), "the mean of 4 to 32 a second"


def test_a_folder_without_the_request_rates_says_where_they_were_looked_for(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidTrace, match=r"qps\.csv\.gz"):
        open_trace(GENAI, tmp_path, None)


def test_no_trace_is_both_for_choosing_and_held_out() -> None:
    assert not set(TUNING) & set(HELD_OUT)
    assert set(TUNING) | set(HELD_OUT) == set(PUBLISHED)
