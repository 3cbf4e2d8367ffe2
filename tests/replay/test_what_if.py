"""Results as the estimator sees them, plans from files, and the answer."""

import dataclasses
import io
import json
import pathlib
import re
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed, rejected, step_of
from replay.commands.what_if import _table
from replay.what_if import answer, collect, past_of, read_plan
from schemas.avro import to_wire
from schemas.errors import PochadeError
from schemas.messages import Plan, Result, Route, Status
from streams.cli import main
from tests.builders import NOW_MS, a_classified, a_job, a_plan, a_request, an_image


def kept(request_id: str = "r-1", probability: float = 0.5) -> Result:
    job = a_job(a_classified(a_request(request_id=request_id)), probability=probability)
    return result_of(completed(an_image(job), 0.8, 0.5, reason="", by="test", policy="p", now_ms=NOW_MS + 50))


def painted_again() -> Result:
    draft = step_of(an_image(a_job(probability=0.25)), 0.2, 0.5)
    job = a_job(level="heavy", variant="heavy", stage=1, path=(draft,), probability=0.25, routed_ms=NOW_MS + 60)
    image = an_image(job, started_ms=NOW_MS + 100, generated_ms=NOW_MS + 500)
    return result_of(completed(image, None, None, reason="", by="test", policy="p", now_ms=NOW_MS + 510))


def test_a_kept_image_says_its_draw_and_its_confidence() -> None:
    past = past_of(kept())
    assert not isinstance(past, str)
    assert (past.level, past.probability, past.confidence, past.went_on) == ("light", 0.5, 0.8, False)
    assert (past.first_ms, past.latency_ms, past.first_work_ms, past.work_ms) == (50, 50, 20, 20)
    assert past.classes == {"models": "light"}


def test_one_generated_again_tells_what_its_draft_alone_would_have_taken() -> None:
    past = past_of(painted_again())
    assert not isinstance(past, str)
    assert (past.level, past.last_level, past.probability, past.confidence) == ("light", "heavy", 0.25, 0.2)
    assert past.first_ms == 510 - (40 + 400)  # without the second wait and the second generation
    assert (past.first_work_ms, past.work_ms) == (20, 420)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (result_of(rejected(a_request(), reason="", by="t", now_ms=NOW_MS)), "no plan would have changed its end"),
        (dataclasses.replace(kept(), status=Status.CANCELLED), "no plan would have changed its end"),
        (dataclasses.replace(kept(), hardness=None), "never classified"),
        (dataclasses.replace(kept(), path="{"), "its path cannot be read"),
    ],
)
def test_a_result_that_says_nothing_of_plans_is_counted_with_its_reason(result: Result, why: str) -> None:
    found = collect([result, kept("r-2")])
    assert (len(found.past), found.skipped) == (1, {why: 1})


def test_a_request_counts_once() -> None:
    assert len(collect([kept(), kept(), kept("r-2")]).past) == 2


def test_a_path_of_an_older_release_counts_as_not_drawn() -> None:
    result = kept()
    path = [{name: value for name, value in step.items() if name != "probability"} for step in json.loads(result.path)]
    past = past_of(dataclasses.replace(result, path=json.dumps(path)))
    assert not isinstance(past, str)
    assert past.probability == 0


def test_the_answer_stands_beside_what_happened() -> None:
    collected = collect([kept(f"r-{number}") for number in range(60)])
    halves = a_plan(version=9, routes=(Route(levels={"light": 0.5, "heavy": 0.5}),))
    found = answer(collected, halves, slo_ms=40, seed=0)
    assert (found["plan_version"], found["requests"], found["undrawn"]) == (9, 60, 0)
    assert found["estimate"]["violations"]["value"] == found["as_it_went"]["violations"]["value"] == 1.0
    assert json.loads(json.dumps(found)) == found


def test_a_figure_that_no_result_has_is_null_and_a_dash() -> None:
    """No request completed, so that none has a latency of its image."""
    collected = collect([dataclasses.replace(kept(f"r-{number}"), status=Status.FAILED) for number in range(60)])
    found = answer(collected, a_plan(), slo_ms=40, seed=0)
    assert found["estimate"]["violations"]["value"] == 1.0
    assert found["estimate"]["latency_p95_s"] is None is found["as_it_went"]["latency_p95_s"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(_table(found))
    assert re.search(r"^latency, 95 % +- +- +-", console.export_text(), re.MULTILINE)


def test_a_plan_is_a_version_in_digits_alone_else_a_file() -> None:
    done = CliRunner().invoke(main, ["replay", "what-if", "--slo", "1", "--plan", "²"])
    assert (done.exit_code, "cannot read a plan from ²" in done.stderr) == (1, True), done.output


def test_no_results_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(PochadeError, match="--since"):
        answer(collect([]), a_plan(), 1000, 0)


def written(tmp_path: pathlib.Path, content: Any) -> pathlib.Path:
    path = tmp_path / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_plan_is_read_as_plan_show_writes_it(tmp_path: pathlib.Path) -> None:
    plan = a_plan(version=4)
    found = read_plan(written(tmp_path, to_wire(Plan)(plan)))
    assert (found.version, found.routes, found.cascades) == (4, plan.routes, plan.cascades)


def test_a_plan_is_read_as_plan_solve_and_shadow_write_it(tmp_path: pathlib.Path) -> None:
    plan = a_plan()
    cascade = {"from": "light", "to": "heavy", "threshold": 0.5, "discriminator": "look", "paint_over_step": 0}
    solved = {"policy": "test", "strategy": "models", "routes": [to_wire(Route)(r) for r in plan.routes]}
    for content in (solved | {"cascades": [cascade]}, {"shadow": solved | {"cascades": [cascade]}}):
        found = read_plan(written(tmp_path, content))
        assert (found.routes, found.cascades) == (plan.routes, plan.cascades)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", {"routes": 3}, {"routes": [{}]}, {"routes": [], "cascades": [{"from": "x"}]}]
)
def test_a_file_that_holds_no_plan_is_reported(tmp_path: pathlib.Path, content: Any) -> None:
    with pytest.raises(PochadeError, match=r"plan\.json"):
        read_plan(written(tmp_path, content))
