"""JSON lines of timed requests."""

import pathlib
from typing import Any

import pytest

from replay.traces import Asked, InvalidTrace
from replay.traces.trace import request_of
from schemas.messages import GenerateOptions
from tests.replay.traces.files import LENIENT, jsonl, read_in

CAT = {"arrival_ms": 0, "prompt": "a cat"}


def test_a_line_may_have_every_field_of_a_request(tmp_path: pathlib.Path) -> None:
    asked = {"tier": "batch", "quality": "high", "tenant": "t", "seed": 7, "request_id": "r-1", "hardness": 0.5}
    options = {"n": 2, "steps": 12, "model": "heavy", "adapters": ["ink"], "width": 64, "height": 64, "strict": True}
    (row,) = read_in(tmp_path, jsonl({"arrival_ms": 5, "prompt": "a cat", "slack_ms": 300, **asked, **options})).rows()
    assert (row.arrival_ms, row.prompt, row.slack_ms, row.seed, row.hardness) == (5, "a cat", 300, 7, 0.5)
    assert (row.request_id, row.wish.tier, row.wish.quality, row.wish.tenant) == ("r-1", "batch", "high", "t")
    assert row.wish.options == GenerateOptions(**{**options, "adapters": ("ink",)})  # type: ignore[arg-type]


def test_what_is_published_for_a_row_asks_for_the_same_with_an_id_of_its_own(tmp_path: pathlib.Path) -> None:
    (row,) = read_in(tmp_path, jsonl({**CAT, "slack_ms": 300, "n": 2, "tier": "batch", "request_id": "old"})).rows()
    request = request_of(row, "new", created_ms=1000)
    assert (request.request_id, request.prompt, request.created_ms, request.deadline_ms) == ("new", "a cat", 1000, 1300)
    assert (request.options.n, request.tier) == (2, "batch")
    assert request_of(row, "new", 5).seed == request.seed != request_of(row, "other", 5).seed


@pytest.mark.parametrize("seed", [2**53 + 1, 2**63 - 1])
def test_a_seed_keeps_all_its_digits(tmp_path: pathlib.Path, seed: int) -> None:
    assert read_in(tmp_path, jsonl({**CAT, "seed": seed})).row(0).seed == seed


@pytest.mark.parametrize(
    ("times", "arrivals"),
    [
        ([{"arrival_ms": 1}, {"arrival_ms": 2.5}], [1, 2.5]),
        ([{"at": 1}, {"at": 2}], [1, 2]),
        ([{"timestamp": 1}, {"timestamp": 2}], [1, 2]),
        ([{"at_s": 1}, {"at_s": 2.5}], [1000, 2500]),
        ([{"created_ms": 1763800000000}, {"created_ms": 1763800000040}], [0, 40]),
        ([{"at": "2026-11-22 03:00:00"}, {"at": "2026-11-22T04:00:01+01:00"}], [0, 1000]),
        ([{"arrival_ms": 1, "created_ms": 9}, {"arrival_ms": 2, "created_ms": 9}], [1, 2]),
    ],
)
def test_time_is_read_from_any_of_its_names(
    tmp_path: pathlib.Path, times: list[dict[str, Any]], arrivals: list[float]
) -> None:
    assert read_in(tmp_path, jsonl(*times)).arrival_ms.tolist() == arrivals


@pytest.mark.parametrize(
    ("fields", "slack_ms"),
    [
        ({"arrival_ms": 100, "deadline_ms": 400}, 300),
        ({"created_ms": 1763800000000, "deadline_ms": 1763800005000}, 5000),
        ({"arrival_ms": 100, "created_ms": 1763800000000, "deadline_ms": 1763800005000}, 5000),
        ({"arrival_ms": 100, "deadline_ms": None}, None),
        ({"arrival_ms": 100}, None),
    ],
)
def test_a_deadline_is_read_by_the_clock_of_its_line(
    tmp_path: pathlib.Path, fields: dict[str, Any], slack_ms: float | None
) -> None:
    assert read_in(tmp_path, jsonl(fields)).row(0).slack_ms == slack_ms


WRONG: list[tuple[str, str, str]] = [
    ("{", "not JSON", "not JSON"),
    ("[1]", "must be one JSON object a line", "not an object"),
    ('{"prompt": "a"}', "gives its time once.* got none", "no time"),
    ('{"arrival_ms": 1, "at_s": 1}', "got arrival_ms and at_s", "no time"),
    ('{"at_s": 1}', "the lines before give their time as arrival_ms", "another clock"),
    ('{"arrival_ms": 1, "seed": -1}', r"seed must be in \[0, 2\*\*63\): got -1", "invalid options"),
    ('{"arrival_ms": true}', "not a number of milliseconds: 'True'", "not a number"),
    ('{"arrival_ms": NaN}', "must be a finite number", "not finite"),
    ('{"arrival_ms": 1e999}', "must be a finite number", "not finite"),
    ('{"arrival_ms": ' + "9" * 400 + "}", "not a number", "not a number"),
    ('{"arrival_ms": -1}', "0 ms or later", "before the start"),
    ('{"arrival_ms": 1, "promt": "a"}', "unknown request field 'promt'.* did you mean 'prompt'", "not a request"),
    ('{"arrival_ms": 1, "prompt": 5}', "'prompt' must be a string", "not a request"),
    ('{"arrival_ms": 1, "prompt": "\\ud800"}', "half a surrogate pair", "not a request"),
    ('{"arrival_ms": 1, "n": 0}', "n must be", "invalid options"),
    ('{"arrival_ms": 1, "hardness": 2}', "hardness must be in", "out of range"),
    ('{"arrival_ms": 1, "prompt": "a", "prompt_index": 1}', "not some each", "two prompts"),
    ('{"arrival_ms": 1, "prompt_index": 1}', "not some each", "two prompts"),
    ('{"arrival_ms": 1, "request_id": "r-1"}', "request_id 'r-1' came before", "repeated"),
]


@pytest.mark.parametrize(("line", "complaint", "kind"), WRONG)
def test_a_bad_line_is_reported_or_counted(tmp_path: pathlib.Path, line: str, complaint: str, kind: str) -> None:
    content = f"{jsonl({**CAT, 'request_id': 'r-1'})}\n{line}\n{jsonl({**CAT, 'arrival_ms': 9})}"
    with pytest.raises(InvalidTrace, match=rf"given:3: .*{complaint}"):
        read_in(tmp_path, content)
    trace = read_in(tmp_path, content, LENIENT)
    assert (len(trace), trace.skipped) == (2, {kind: 1})


def test_a_limit_reads_no_further(tmp_path: pathlib.Path) -> None:
    assert len(read_in(tmp_path, jsonl(CAT, CAT) + "{", Asked(limit=2))) == 2


def test_a_model_that_the_catalog_lacks_is_reported_with_the_nearest(tmp_path: pathlib.Path) -> None:
    content = jsonl(CAT, {**CAT, "model": "heavvy"})
    models = frozenset({"heavy", "light"})
    complaint = r"given:2: unknown model 'heavvy': did you mean 'heavy'\? known are heavy, light.*--model heavvy=NAME"
    with pytest.raises(InvalidTrace, match=complaint):
        read_in(tmp_path, content, Asked(models=models))
    lenient = read_in(tmp_path, content, Asked(models=models, is_lenient=True))
    assert (len(lenient), lenient.skipped) == (1, {"unknown model": 1})
    for renamed, ours in (({"heavvy": "heavy"}, "heavy"), ({"*": "light"}, "light"), ({"*": ""}, "")):
        trace = read_in(tmp_path, content, Asked(models=models, renamed=renamed))
        assert [row.wish.options.model for row in trace.rows()] == ["", ours]


def test_a_prompt_index_beyond_the_prompts_is_reported(tmp_path: pathlib.Path) -> None:
    content = jsonl({"arrival_ms": 0, "prompt_index": 1}, {"arrival_ms": 1, "prompt_index": 2})
    asked = Asked(prompts=("a", "b"))
    with pytest.raises(InvalidTrace, match=r"given:2: prompt_index 2 points at none: there are 2 prompts, 0 to 1"):
        read_in(tmp_path, content, asked)
    trace = read_in(tmp_path, content, Asked(prompts=("a", "b"), is_lenient=True))
    assert [row.prompt for row in trace.rows()] == ["b"]
    assert trace.skipped == {"prompt out of range": 1}
    assert len(read_in(tmp_path, content, Asked(prompts=("a", "b"), order="turn"))) == 2
