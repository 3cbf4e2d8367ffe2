import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from replay.verify.audit import reading
from replay.verify.audit.figures import Figures, ImageFigures
from replay.verify.audit.reading import Audited
from replay.verify.audit.topic_figures import TopicFigures
from streams.cli import main

KEPT = Figures(accepted=3, outcomes={"COMPLETED": 2, "EXPIRED": 1}, painted=4, painted_twice=1, wasted_s=0.5)
BROKEN = Figures(accepted=3, outcomes={"COMPLETED": 2}, lost=("r-3",))


def audited(monkeypatch: pytest.MonkeyPatch, figures: Figures, *arguments: str) -> tuple[Result, dict[str, Any]]:
    asked: dict[str, Any] = {}

    def audit(_settings: object, **options: Any) -> Audited:
        asked.update(options)
        return Audited(
            TopicFigures({}), figures, ImageFigures(checked=2, orphans=1) if options["with_images"] else None
        )

    monkeypatch.setattr(reading, "audit", audit)
    return CliRunner().invoke(main, ["audit", *arguments], prog_name="pochade"), asked


def test_an_audit_that_finds_nothing_amiss_says_what_it_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    done, asked = audited(monkeypatch, KEPT)
    *table, verdict = done.output.splitlines()
    assert verdict == "the promise holds: no request was lost or ended twice, and 2 images are what their results say"
    lines = dict(line.split("\t") for line in table)
    assert done.exit_code == 0
    assert (lines["accepted"], lines["outcomes"], lines["lost"]) == ("3", "2 COMPLETED, 1 EXPIRED", "0")
    assert "broken promises" not in lines
    assert (lines["generated twice"], lines["images checked"], lines["images orphans"]) == ("1", "2", "1")
    assert (asked["since_ms"], asked["orphan_ms"]) == (0, 3_600_000)


def test_a_broken_promise_is_exit_status_1_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    done, _ = audited(monkeypatch, BROKEN, "-o", "json")
    assert done.exit_code == 1
    assert done.stderr == "error: 1 of 3 accepted requests are lost (r-3)\n"
    found = json.loads(done.stdout)
    assert (found["lost_ids"], f"error: {found['broken_promises']}\n") == (["r-3"], done.stderr)


def test_a_window_and_no_images_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    done, asked = audited(monkeypatch, KEPT, "--since", "1h", "--until", "5m", "--no-images", "-o", "json")
    assert asked["until_ms"] - asked["since_ms"] == 55 * 60_000
    assert "pictures" not in json.loads(done.output)


@pytest.mark.parametrize("command", ["audit", "chaos"])
def test_the_help_of_a_command_has_examples(command: str) -> None:
    done = CliRunner().invoke(main, [command, "--help"], prog_name="pochade")
    assert f"Examples:\n    pochade {command}" in done.output
