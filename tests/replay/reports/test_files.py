"""report.json on disk."""

import json
import pathlib

import pytest

from replay.reports.files import InvalidReport, read, text_of, write
from schemas.errors import PochadeError
from tests.replay.reports.samples import a_policy, a_report


def test_a_report_is_read_as_it_was_written_from_its_file_or_its_folder(tmp_path: pathlib.Path) -> None:
    path, page = write(a_report(), tmp_path / "new" / "out")
    assert read(path) == read(path.parent) == a_report()
    assert page.read_text().startswith("<!doctype html>")


def test_a_series_stands_on_one_line_and_texts_stay_as_they_are() -> None:
    text = text_of({"series": [1.5, None, 2], "reason": 'kept [1,  2] "as it was"\n[ 3 ]', "words": ["a", "b"]})
    assert '"series": [1.5, null, 2]' in text
    assert json.loads(text)["reason"] == 'kept [1,  2] "as it was"\n[ 3 ]'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is no report: not JSON"),
        ("[1]", "an object was expected, got list"),
        ('{"accepted": 3}', "it has no version, made, trace, setup, interval_s"),
        (text_of(a_report() | {"version": 2}), "of version 2, this is for 1: simulate it again"),
        (text_of(a_report() | {"policies": {}}), "`policies` must be an object with at least one policy"),
        (text_of(a_report() | {"policies": {"ours": {"quality": 1}}}), "it has no policies.ours.requests, "),
        (
            text_of(a_report() | {"policies": {"ours": {**a_policy(), "by_seed": {}}}}),
            "no policies.ours.by_seed.plans, ",
        ),
        (text_of(a_report() | {"trace": {"file": "t", "requests": 1, "seconds": 1.0}}), "it has no trace.sha256"),
        (text_of(a_report() | {"policies": {"ours": {**a_policy(), "fid": "?"}}}), "ours.fid as number or null"),
        (text_of(a_report() | {"demand_rps": [1.0, "2"]}), "it has no demand_rps as number"),
    ],
)
def test_a_file_that_is_no_report_is_reported(tmp_path: pathlib.Path, text: str, fault: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(InvalidReport, match=r"report\.json") as reported:
        read(path)
    assert fault in str(reported.value)


def test_a_missing_report_and_bytes_that_are_no_text_are_reported(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidReport, match=r"no report at .*report\.json: make one with `pochade simulate"):
        read(tmp_path)
    (tmp_path / "report.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidReport, match="not JSON"):
        read(tmp_path)


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PochadeError, match=r"cannot be written to .*choose another folder"):
        write(a_report(), tmp_path / "file")
