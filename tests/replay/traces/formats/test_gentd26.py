"""Alibaba's GenTD26 request files."""

import pathlib

import pytest

from replay.traces import Asked, InvalidTrace, read
from tests.replay.traces.files import DATA, LENIENT, UNTIMED, gentd26, read_in, request

FILES = DATA / "genai2026"


def test_a_request_has_its_time_its_model_its_loras_its_steps_and_its_images(tmp_path: pathlib.Path) -> None:
    trace = read_in(
        tmp_path,
        gentd26(
            request("2024-11-15 16:57:50", images="4.0", steps="40.0", loras="2"),
            request("2024-11-15 16:58:00", images="", steps="", model=""),
        ),
    )
    first, second = trace.rows()
    assert trace.arrival_ms.tolist() == [0, 10_000]
    options = first.wish.options
    assert (options.n, options.steps, options.model) == (4, 40, "M0001")
    assert options.adapters == ("M0001/lora-1", "M0001/lora-2")
    assert (second.wish.options.n, second.wish.options.steps, second.wish.options.model) == (1, None, "")


def test_the_file_without_times_names_its_loras_and_needs_a_rate(tmp_path: pathlib.Path) -> None:
    content = f"{UNTIMED}\n22,1.0,30.0,m,\"[{{'modelVersionId': 'a', 'scale': 1.0}}]\"\n18,1,30,m,[]\n"
    with pytest.raises(InvalidTrace, match=r"given:1: these requests have no times: give --rate"):
        read_in(tmp_path, content)
    trace = read_in(tmp_path, content, Asked(rate_rps=4.0))
    assert [row.wish.options.adapters for row in trace.rows()] == [("a",), ()]
    assert 0 < trace.arrival_ms[0] < trace.arrival_ms[1]
    assert (read_in(tmp_path, content, Asked(rate_rps=4.0)).arrival_ms == trace.arrival_ms).all()
    assert (read_in(tmp_path, content, Asked(rate_rps=4.0, seed=1)).arrival_ms != trace.arrival_ms).all()


@pytest.mark.parametrize(
    ("line", "complaint", "kind"),
    [
        (request("yesterday"), "not a time such as", "not a time"),
        (request(""), "not a time such as", "not a time"),
        (request("2024-11-14 00:00:00"), "0 ms or later after the start", "before the start"),
        (request("2034-11-14 00:00:00"), "more than 400 days", "too late"),
        (request("2024-11-15 17:00:00", images="0"), "whole number of images, at least 1", "not a whole number"),
        (request("2024-11-15 17:00:00", loras="200"), "at most 100 LoRAs", "too many LoRAs"),
        (request("2024-11-15 17:00:00", steps="many"), "not a number of steps", "not a number"),
    ],
)
def test_a_bad_line_is_reported_or_counted(tmp_path: pathlib.Path, line: str, complaint: str, kind: str) -> None:
    content = gentd26(request("2024-11-15 16:57:50"), line)
    with pytest.raises(InvalidTrace, match=rf"given:3: .*{complaint}"):
        read_in(tmp_path, content)
    trace = read_in(tmp_path, content, LENIENT)
    assert (len(trace), trace.skipped) == (1, {kind: 1})


@pytest.mark.parametrize("loras", ["[1", "5", "[{}]", "[5]", "{'a': 1}", "f()", "[" * 1000])
def test_loras_that_are_no_list_are_reported(tmp_path: pathlib.Path, loras: str) -> None:
    with pytest.raises(InvalidTrace, match=r"given:2: lora_args is not a list"):
        read_in(tmp_path, f'{UNTIMED}\n22,1,30,m,"{loras}"\n', Asked(rate_rps=1))


@pytest.mark.skipif(not FILES.exists(), reason=f"published requests not at {FILES}")
def test_the_published_requests_are_read_whole() -> None:
    trace = read(FILES / "lora_request_trace.csv.gz")
    assert len(trace) == 18_776
    assert trace.span_ms == pytest.approx(17.5 * 86_400_000, rel=0.01)
    assert max(wish.options.n for wish in trace.wishes) == 8
