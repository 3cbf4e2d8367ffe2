"""`pochade replay run` as a person calls it, as far as it needs no broker."""

import json
import pathlib
import signal

import pytest
from click.testing import CliRunner, Result

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
