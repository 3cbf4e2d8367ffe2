"""`pochade replay run` as a person calls it, as far as it needs no broker."""

import gzip
import json
import pathlib
import re
import shlex
import signal
from typing import Any

import pytest
from click.testing import CliRunner, Result

from replay.load.prompts import builtin_prompts
from streams.cli import main


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> pathlib.Path:
    asked = [
        {"arrival_ms": 0, "prompt": "a red heart", "model": "light"},
        {"arrival_ms": 5, "prompt": "a cat", "model": "sd9"},
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(json.dumps(each) for each in asked))
    return path


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run ends as by Ctrl-C once its trace is stored."""

    def end(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr("replay.load.run.require", end)


def stored(home: pathlib.Path, name: str) -> list[dict[str, Any]]:
    lines = gzip.decompress((home / "replay" / name / "trace.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def reported(trace: pathlib.Path, *options: str) -> Result:
    words = ["--home", str(trace.parent / "home"), "replay", "run", str(trace), "--catalog", "profile", "--slo", "1"]
    return CliRunner().invoke(main, [*words, *options])


def test_a_model_that_the_catalog_lacks_is_refused_with_its_line_or_counted_before_anything_is_published(
    trace: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    refused, lenient, renamed = reported(trace), reported(trace, "--lenient"), reported(trace, "--model", "sd9=heavy")
    assert refused.exit_code == 1
    assert "trace.jsonl:2: unknown model 'sd9'" in " ".join(refused.output.split())
    assert "skipped: 1 unknown model" in lenient.output
    assert "run " in lenient.output
    assert ": 1 request over" in lenient.output
    assert ": 2 requests" in renamed.output


@pytest.mark.usefixtures("interrupted")
def test_a_request_without_a_prompt_gets_one_of_ours_and_the_others_keep_theirs(tmp_path: pathlib.Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_ms,prompt\n0,my own prompt\n10,another of mine\n20,\n")
    done = reported(trace, "--name", "a")
    own, another, filled = (each["prompt"] for each in stored(tmp_path / "home", "a"))
    assert (own, another) == ("my own prompt", "another of mine")
    assert filled in builtin_prompts(1000)
    assert "without a prompt text: 1 of 3 requests; each gets one of ours" in done.output
    trace.write_text("arrival_ms,prompt_index\n0,7\n10,3\n")
    assert "without a prompt text: 2 of 2 requests" in reported(trace, "--name", "b").output


@pytest.mark.usefixtures("interrupted")
def test_the_command_that_resumes_a_run_publishes_the_same_requests_in_the_same_way(tmp_path: pathlib.Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_ms,prompt\n" + "".join(f"{1000 * (n // 3)},a cat\n" for n in range(12)))
    first = reported(trace, "--name", "it", "--no-spread", "--speed-probe", "--no-drop")
    before = stored(tmp_path / "home", "it")
    assert [each["arrival_ms"] for each in before] == [1000 * (n // 3) for n in range(12)]
    (printed,) = re.findall("to go on: pochade (.*)", first.output)
    again = CliRunner().invoke(main, shlex.split(printed))
    assert stored(tmp_path / "home", "it") == before
    assert re.findall("to go on: pochade (.*)", again.output) == [printed]
    assert {"--no-drop", "--speed-probe"} <= {*shlex.split(printed)}
