"""`pochade submit --file`: every line is checked before one is sent."""

import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from schemas.messages import GenerateRequest, Status
from schemas.topics import PROMPTS
from streams.cli import main
from streams.codec.avro import decode
from streams.codec.prompt_file import InvalidFile, requests_in
from streams.commands import opening
from streams.kafka.memory import MemoryRecordProducer
from streams.operator.client import RequestClient
from streams.settings import Requests, Settings
from tests.builders import NOW_MS
from tests.replay.runs import a_result, a_step
from tests.streams.operator.test_client import Topic, record


def read(*lines: str, **defaults: Any) -> list[GenerateRequest]:
    return requests_in(lines, "p.jsonl", now_ms=NOW_MS, limits=Requests(max_prompt_bytes=100), defaults=defaults)


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


class Deployment:
    """Answers every submission at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.producer, self.topic, self.statuses = MemoryRecordProducer(), Topic(), [Status.COMPLETED]
        monkeypatch.setattr(opening, "client", self._client)

    @contextlib.contextmanager
    def _client(self, settings: Settings) -> Iterator[RequestClient]:
        with RequestClient(settings, self.producer, open_follower=self.topic.open) as client:
            submit = client.submit

            def answered(request: GenerateRequest) -> Any:
                status = self.statuses[len(self.producer.topics.get(PROMPTS, [])) % len(self.statuses)]
                future = submit(request)
                path = (a_step(),) if status is Status.COMPLETED else ()
                self.topic.arrive(record(a_result(*path, request_id=request.request_id, status=status, reason="why")))
                return future

            client.submit = answered  # type: ignore[method-assign]
            yield client

    def sent(self) -> list[GenerateRequest]:
        return [decode(each.value, GenerateRequest) for each in self.producer.topics.get(PROMPTS, [])]


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
    assert done.stdout.split() == [request.request_id for request in deployment.sent()]
    assert [(r.prompt, r.tenant, r.seed) for r in deployment.sent()] == [("one", "bob", 3), ("two", "ann", 3)]


def test_a_bad_line_means_that_nothing_is_sent(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    done = submit(tmp_path / "p", "fine\n{\n")
    assert done.exit_code == 1
    assert f"{tmp_path / 'p'}:2: not JSON" in done.stderr
    assert deployment.sent() == []


def test_waiting_summarises_and_fails_unless_all_completed(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    done = submit(tmp_path / "p", "one\ntwo\n", "--wait")
    assert (done.exit_code, "2 COMPLETED" in done.stderr) == (0, True)
    deployment.statuses = [Status.COMPLETED, Status.FAILED]
    done = submit(tmp_path / "p", "one\ntwo\n", "--wait", "-o", "json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["ended"] == {"COMPLETED": 1, "FAILED": 1}


def test_a_prompt_and_a_file_or_neither_is_a_usage_error(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    assert submit(tmp_path / "p", "one", "and a prompt").exit_code == 2
    assert CliRunner().invoke(main, ["submit"]).exit_code == 2
    assert deployment.sent() == []


def test_an_empty_file_is_an_error(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    assert "holds no request" in submit(tmp_path / "p", "\n\n").stderr
    assert deployment.sent() == []
