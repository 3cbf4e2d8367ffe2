"""`pochade submit --file`: every line is checked before one is sent."""

import itertools
import json
import pathlib
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.serving.admission.admission import check
from schemas.messages import GenerateRequest, Status
from streams.cli import main
from streams.codec.prompt_file import InvalidFile, request_of, requests_in
from streams.settings import Requests
from tests.builders import NOW_MS
from tests.streams.commands.test_requests import Deployment


def read(*lines: str, **defaults: Any) -> list[GenerateRequest]:
    rules = partial(check, limits=Requests(max_prompt_bytes=100), now_ms=NOW_MS)
    fields = requests_in(lines, "p.jsonl", now_ms=NOW_MS, check=rules, defaults=defaults)
    return [request_of(each, NOW_MS) for each in fields]


def test_plain_lines_and_json_lines_are_requests_and_blank_ones_are_passed_over() -> None:
    plain, named = read("a red heart\n", "\n", '{"prompt": "two cats", "request_id": "mine", "seed": 7}\n', seed=1)
    assert (plain.prompt, plain.seed, plain.created_ms) == ("a red heart", 1, NOW_MS)
    assert (named.request_id, named.prompt, named.seed) == ("mine", "two cats", 7)


def test_lines_without_an_id_get_one_each() -> None:
    first, second = read("same", "same")
    assert first.request_id != second.request_id


def test_every_bad_line_is_reported_with_file_and_number() -> None:
    with pytest.raises(InvalidFile) as refusal:
        read(
            "fine",
            '{"prompt": ',
            '{"promt": "x"}',
            '{"prompt": " "}',
            '{"prompt": "x", "seed": "7"}',
            "y" * 101,
            '{"prompt": "x", "width": 100}',
        )
    said = str(refusal.value)
    assert "nothing was sent: 6 bad lines" in said
    for number, why in (
        (2, "not JSON"),
        (3, "did you mean 'prompt'"),
        (4, "empty"),
        (5, "integer"),
        (6, "at most 100"),
        (7, "width must be a multiple of 8 px: got 100"),
    ):
        assert f"p.jsonl:{number}: " in said
        assert why in said


def test_an_id_given_twice_names_both_lines() -> None:
    line = '{"prompt": "x", "request_id": "k"}'
    with pytest.raises(InvalidFile, match=r"p\.jsonl:2: request_id 'k' is that of p\.jsonl:1 too"):
        read(line, line)


def test_of_many_bad_lines_the_first_ten_are_named() -> None:
    with pytest.raises(InvalidFile, match=r"12 bad lines(.|\n)*and 2 more"):
        read(*["{"] * 12)


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    return Deployment(monkeypatch)


def submit(file: pathlib.Path, text: str, *options: str) -> Result:
    file.write_text(text)
    return CliRunner().invoke(main, ["submit", "--file", str(file), *options])


def test_ids_are_printed_in_order_and_options_fill_what_lines_leave_out(
    deployment: Deployment, tmp_path: pathlib.Path
) -> None:
    done = submit(tmp_path / "p", 'one\n{"prompt": "two", "tenant": "ann"}\n', "--tenant", "bob", "--seed", "3")
    assert done.exit_code == 0
    sent = {request.request_id: request for request in deployment.submitted()}  # many threads write them
    in_order = [sent[each] for each in done.stdout.split()]
    assert [(r.prompt, r.tenant, r.seed) for r in in_order] == [("one", "bob", 3), ("two", "ann", 3)]


def test_a_stated_id_is_the_id_of_the_request(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    done = submit(tmp_path / "p", '{"prompt": "two", "request_id": "mine"}', "--wait")
    assert (done.exit_code, done.stdout.split(), deployment.submitted()[0].request_id) == (0, ["mine"], "mine")


def test_a_bad_line_means_that_nothing_is_sent(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    done = submit(tmp_path / "p", "fine\n{\n")
    assert done.exit_code == 1
    assert f"{tmp_path / 'p'}:2: not JSON" in done.stderr
    assert deployment.submitted() == []


def test_waiting_summarises_and_fails_unless_all_completed(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    done = submit(tmp_path / "p", "one\ntwo\n", "--wait")
    assert (done.exit_code, "2 COMPLETED" in done.stderr) == (0, True)
    deployment.statuses = iter((Status.COMPLETED, Status.FAILED))
    done = submit(tmp_path / "p", "one\ntwo\n", "--wait", "-o", "json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["ended"] == {"COMPLETED": 1, "FAILED": 1}


def test_requests_that_stay_open_are_counted(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    deployment.statuses = itertools.chain([Status.COMPLETED], itertools.repeat(None))
    lines = [json.dumps({"prompt": "x", "request_id": f"r-{n}"}) for n in range(3)]
    done = submit(tmp_path / "p", "\n".join(lines), "--wait", "--timeout", "0.1")
    assert (done.exit_code, "of 3 requests have no result after 0.1 s" in done.stderr) == (1, True)


def test_a_prompt_and_a_file_or_neither_is_a_usage_error(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    assert submit(tmp_path / "p", "one", "and a prompt").exit_code == 2
    assert CliRunner().invoke(main, ["submit"]).exit_code == 2
    assert deployment.submitted() == []


def test_an_empty_file_is_an_error(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    assert "holds no request" in submit(tmp_path / "p", "\n\n").stderr
    assert deployment.submitted() == []
