"""`pochade bench papers` from the command line."""

import pathlib
import re

import pytest
from click.testing import CliRunner

from replay.bench.commands.bench import bench
from replay.bench.papers import questions
from replay.bench.papers.answer import Answer
from replay.bench.papers.answers import Asking, Table
from streams.settings import Settings

NAMES = ("catalogs", "traces", "held_out", "truths", "levels", "seeds", "few")
FACTS = dict.fromkeys(NAMES, "1")  # that the first question's prose states


def answer(_asking: Asking) -> Answer:
    table = Table(title="Runs", columns=("a", "b"), rows=(("1", "2"),))
    name = next(iter(questions.QUESTIONS))
    return Answer(name=name, title="A question", verdict="Held: yes", tables=(table,), numbers={"a": 1.0}, facts=FACTS)


@pytest.fixture(autouse=True)
def _one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "QUESTIONS", {next(iter(questions.QUESTIONS)): answer})


def told(*options: str) -> str:
    result = CliRunner().invoke(bench, ["papers", *options], obj=Settings)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_page_goes_to_the_terminal_and_says_that_traces_were_made() -> None:
    page = told()
    assert "**Held: yes**" in page
    assert "Traces: made, of the published ones' shape" in page


def test_the_page_that_ships_has_its_known_faults_before_its_verdicts_as_the_generator_writes_them() -> None:
    shipped = (pathlib.Path(__file__).parents[4] / "replay" / "RESULTS.md").read_text()
    assert known_faults(shipped)
    assert known_faults(shipped) == known_faults(told())
    assert shipped.index("## Known faults of this page") < shipped.index("| question | verdict |")


def known_faults(page: str) -> list[str]:
    """Return the page's faults, without the date of the code that its figures are of."""
    section = page.partition("## Known faults of this page\n")[2].partition("\n## ")[0]
    return re.sub(r"the code of [0-9-]+", "the code of DATE", section).split("\n- ")


def test_with_a_file_the_page_goes_there_and_verdicts_to_the_terminal(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "RESULTS.md"
    out = told("--page", str(file), "--traces", str(tmp_path), "--quick")
    assert "A question\n  Held: yes" in out
    assert "| 1 | 2 |" in file.read_text()
    assert f"papers --traces {tmp_path} --quick" in file.read_text()
    assert "figures mean nothing" in file.read_text()


def test_json_is_one_line_with_the_answers() -> None:
    assert told("-o", "json").count("\n") == 1


def test_other_truths_are_compared_too_each_once_and_an_unknown_one_is_told_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Asking] = []
    name = next(iter(questions.QUESTIONS))
    monkeypatch.setattr(questions, "QUESTIONS", {name: lambda asking: seen.append(asking) or answer(asking)})
    told("--other-truth", "slow", "--other-truth", "slow")
    assert seen[0].scale.other_truths == ("slow",)
    result = CliRunner().invoke(bench, ["papers", "--other-truth", "catalog"], obj=Settings)
    assert "unknown truth 'catalog': known are curve, slow" in str(result.exception)


def test_an_unknown_question_is_told_with_those_there_are() -> None:
    result = CliRunner().invoke(bench, ["papers", "--only", "nonsense"], obj=Settings)
    assert next(iter(questions.QUESTIONS)) in str(result.exception)


def test_another_truth_is_refused_where_the_question_of_joint_is_not_asked() -> None:
    result = CliRunner().invoke(bench, ["papers", "--only", "hadis", "--other-truth", "slow"], obj=Settings)
    assert result.exit_code == 2
    assert "--other-truth has no effect without the question joint" in result.output
