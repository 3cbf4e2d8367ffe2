"""That every question can be asked, answers as its runs say, and finds its place on the page."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from replay.bench.frontier import tuning
from replay.bench.frontier.cells import Figures
from replay.bench.frontier.grid import FIRST_TUNING_SEED, GridCell
from replay.bench.frontier.plan import Part, judged_cells
from replay.bench.papers.answer import Answer
from replay.bench.papers.answers import QUICK, Asking, Scale
from replay.bench.papers.experiments.every import EVERY
from replay.bench.papers.experiments.experiment import AGREEMENT, DISAGREEMENT, PARTIAL
from replay.bench.papers.page import render, row
from replay.bench.papers.questions import QUESTIONS, ask
from replay.bench.papers.runs.arrivals import open_trace
from replay.bench.papers.runs.cells import Cell, Found
from replay.bench.papers.runs.names import ARGUS, DIFFSERVE, HADIS, HEAVY, JOINT, LIGHT, PROTEUS, STATIC
from replay.traces import Trace
from schemas.errors import Unknown
from tests.paths import ROOT
from tests.replay.bench.papers.found import alike, figures, found, graded

PAPERS = ROOT / "replay" / "bench" / "papers"

MADE = {
    "command": "pochade bench papers",
    "date": "2026-11-22",
    "machine": "2 cores",
    "traces": "made",
    "arrivals": "redrawn for each seed",
    "minutes": "1.0",
    "kept": 1,
    "cpu_minutes": "2.0",
    "runs": 3,
    "jobs": 2,
    "versions": "python 3.11",
}
FULL = Scale(seeds=3, few=2)


def trace(name: str, redraw: int | None = None) -> Trace:
    return open_trace(name, None, 200, redraw)


def asked(name: str, of: object = None, scale: Scale = FULL, of_grid: object = None) -> Answer:
    run = alike(of if callable(of) else lambda _: found())
    grid = graded(of_grid) if callable(of_grid) else graded()
    return ask([name], Asking(run=run, grid=grid, trace=trace, scale=scale))[0]


def verdicts(name: str, of: object = None) -> dict[str, str]:
    return {each.experiment.where: each.verdict for each in asked(name, of).outcomes}


@pytest.mark.parametrize("scale", [FULL, QUICK])
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_answers_with_a_verdict_and_tables_on_the_page(name: str, scale: Scale) -> None:
    answer = asked(name, scale=scale)
    page = render([answer], MADE)
    assert answer.verdict.partition(":")[0].partition(",")[0] in (
        "Held",
        "Held in part",
        "Not held",
        "Met",
        "Met in part",
        "Not met",
    )
    assert page.count(answer.verdict) == 2
    for table in answer.tables:
        assert table.rows, table.title
        assert {len(cells) for cells in table.rows} == {len(table.columns)}, table.title
        assert table.title in page
    assert "What differs from the paper, and why:\n\n- " in page
    values = json.loads(json.dumps(answer.as_values()))
    assert (values["name"], values["verdict"]) == (name, answer.verdict)
    assert [each["verdict"] for each in values["outcomes"]] == [each.verdict for each in answer.outcomes]
    assert all(each["experiment"] and each["results"] for each in values["outcomes"])


def test_the_page_counts_all_experiments_in_one_table() -> None:
    page = render([asked(DIFFSERVE)], MADE)
    asked_here = [each for each in EVERY if each.paper == "DiffServe" and not each.why_not]
    left_out = [each for each in EVERY if each.why_not]
    counted = rf"Of {len(EVERY)} experiments {len(asked_here)} run: \d agreement, \d partial, \d disagreement"
    assert re.search(rf"\*\*{counted}\.\*\*", page)
    assert page.count("| not run |") == len(left_out)
    assert page.count("| not asked |") == len(EVERY) - len(asked_here) - len(left_out)


def test_questions_come_in_the_page_s_order_and_an_unknown_one_is_told_with_those_there_are() -> None:
    names = list(QUESTIONS)
    asking = Asking(run=alike(lambda _: found()), grid=graded(), trace=trace, scale=QUICK)
    assert [answer.name for answer in ask(names[::-1], asking)] == names
    with pytest.raises(Unknown, match=names[0]):
        ask(["nonsense"], asking)


def better_by(ahead: float) -> Callable[[GridCell], Figures]:
    """Ours generates better by about so much in each redraw."""
    return lambda cell: figures(quality=(ahead if cell.policy == JOINT else 0.0) - 0.001 * cell.seed**2 * ahead)


def test_ours_meets_its_number_where_it_is_ahead_in_a_third_of_the_cells_and_behind_in_none() -> None:
    won, lost, even = (asked(JOINT, of_grid=better_by(ahead)) for ahead in (0.5, -0.5, 0.0))
    assert won.numbers["is_frontier_met"]
    assert won.numbers["comparisons"] == won.numbers["ahead_beyond_chance"] == 4 * 6 * 3
    assert won.verdict.startswith("Met: ")
    assert "by 4 of 4 judges" in won.verdict
    assert lost.numbers["behind_beyond_chance"] == 4 * 6 * 3
    assert [each.numbers["is_frontier_met"] for each in (lost, even)] == [False, False]


def test_ours_meets_its_number_in_part_where_another_bound_of_blind_mixtures_puts_it_behind() -> None:
    def behind_at_the_upper_bound(cell: GridCell) -> Figures:
        upper = better_by(-0.5)(cell)
        return better_by(0.5)(cell) | {name: upper[name] for name in ("quality_optimistic", "quality_run_optimistic")}

    answer = asked(JOINT, of_grid=behind_at_the_upper_bound)
    assert answer.verdict.startswith("Met in part: ")
    assert "by 2 of 4 judges" in answer.verdict
    assert "at its upper bound ahead in 0, behind in 72." in answer.verdict
    assert not answer.numbers["is_frontier_met"]


def test_another_truth_is_asked_on_its_own_cells_and_told_beside_the_catalog_without_changing_its_verdict() -> None:
    def behind_where_slow(cell: GridCell) -> Figures:
        return better_by(-0.5 if cell.truth == "slow" else 0.5)(cell)

    seen: list[GridCell] = []
    scale = replace(FULL, other_truths=("slow", "curve"))
    answer = asked(JOINT, of_grid=lambda cell: seen.append(cell) or behind_where_slow(cell), scale=scale)
    assert {cell.truth for cell in seen} == {"catalog", "slow", "curve"}
    assert (answer.numbers["judges_met"], answer.numbers["judges_met_slow"], answer.numbers["judges_met_curve"]) == (
        4,
        0,
        4,
    )
    assert answer.verdict.startswith("Met: ")
    assert answer.verdict.endswith("by 0 of 4 judges with the truth slow, by 4 of 4 judges with the truth curve.")
    verdicts_by_truth = {cells[:2]: cells for cells in answer.tables[0].rows}
    assert len(verdicts_by_truth) == 3 * 4
    assert [table.title.rpartition("truth: ")[2] for table in answer.tables[1:4]] == ["catalog", "slow", "curve"]


def test_ours_is_asked_on_the_frontier_s_own_cells_and_settings() -> None:
    seen: list[GridCell] = []
    asked(JOINT, of_grid=lambda cell: seen.append(cell) or figures())
    judged = [cell for cell in seen if cell.seed < FIRST_TUNING_SEED]  # the rest is for constants and parts
    assert judged == judged_cells(Part(truths=["catalog"], redraws=FULL.seeds), tuning.read())


def test_the_bound_is_missed_where_ours_paints_far_above_it_or_violates() -> None:
    numbers = asked(JOINT, lambda cell: found(quality=-40.0 if cell.catalog.startswith(HADIS) else -17.0)).numbers
    assert not numbers["is_bound_met"]
    assert not asked(JOINT, lambda _: found(violations=0.03, quality=-15.0)).numbers["is_bound_met"]
    assert asked(JOINT, lambda _: found(violations=0.01, quality=-15.0)).numbers["is_bound_met"]


def test_the_bound_is_asked_by_default_and_with_the_setting_that_ships_for_the_fewest_violations() -> None:
    (shipped, *_) = [each.parameters for each in tuning.read()["hadis-l40s"] if each.policy == JOINT]

    def as_tuned_alone(cell: Cell) -> Found:
        return found(violations=0.01, quality=-15.0 if cell.parameters == shipped else -40.0)

    answer = asked(JOINT, as_tuned_alone)
    assert [answer.numbers[name] for name in ("is_bound_met", "is_bound_met_as_tuned")] == [False, True]
    assert "not met by default, met as tuned" in answer.verdict


def test_the_cascade_holds_where_it_beats_light_without_heavy_s_violations() -> None:
    def as_published(cell: Cell) -> Found:
        by_policy = {LIGHT: found(0, -22.77), HEAVY: found(0.6, -18.55), PROTEUS: found(0.01, -20.0)}
        by_policy[STATIC] = found(0.05, -18.0)
        is_static = dict(cell.parameters).get("threshold", -1) >= 0
        return by_policy.get(cell.policy, found(0.001, -18.0 if is_static else -17.4))

    assert verdicts(DIFFSERVE, as_published)["Fig. 5"] == PARTIAL  # 4.3's "< 5 %" of Proteus is 12 % here
    assert verdicts(DIFFSERVE)["Fig. 5"] == DISAGREEMENT


def test_hard_phases_must_raise_the_slow_models_share() -> None:
    course = found().course
    hard = [{"sd35-turbo": 1, "sd35-medium": 9}] * 10
    risen = course._replace(width_s=60.0, levels=[*course.levels[:10], *hard, *course.levels[:10], *hard])
    answer = asked(HADIS, lambda cell: found(quality=-16 if cell.policy == HADIS else -17, course=risen))
    assert answer.numbers["heavy_share_rise"] == pytest.approx(0.5)
    assert {each.experiment.where: each.verdict for each in answer.outcomes}["Fig. 10"] == AGREEMENT
    assert verdicts(HADIS)["Fig. 10"] == DISAGREEMENT


def test_a_ramp_saturates_where_a_tenth_is_late_for_five_minutes() -> None:
    course = found().course
    late = course._replace(width_s=30.0, arrived=[10] * 120, in_time=[10] * 60 + [0] * 60, levels=[{}] * 120)
    numbers = asked(ARGUS, lambda _: found(course=late)).numbers
    at_s = 30.0 * (60 - 10 + 2)  # two of ten intervals late are the first above a tenth
    assert numbers[f"saturates_per_minute_{ARGUS}"] == pytest.approx(40 + 500 * at_s / 3600, abs=0.1)


def test_what_would_end_a_cell_of_a_table_is_escaped() -> None:
    assert row(("a|b", "c")) == "| a\\|b | c |"


WORDS = (
    "better",
    "worse",
    "ahead",
    "behind",
    "as good",
    "even with",
    "wins",
    "loses",
    "fewer than",
    "more than",
    "best",
)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_prose_of_a_question_states_no_figure_and_no_verdict_that_is_not_computed(name: str) -> None:
    text = PAPERS.joinpath(f"{name}.md.jinja").read_text()
    text = re.sub(r"\{\{.*?\}\}|answer\.facts\.\w+", "", text, flags=re.DOTALL)
    text = re.sub(r"SOURCES\.md [0-9.]+|\(\d\.\d\)|Table \d|\(?Figs?\. \d+\w?", "", text)  # of the papers
    text = re.sub(r"[Cc]ascade \d|K = 0|genai2026|GenTD26", "", text)
    assert not re.findall(r"\d", text), text
    rules = ("ahead beyond", "even only within", "even, behind")  # the rule's own words
    plain = text.replace("\n", " ")
    for rule in rules:
        plain = re.sub(rule.replace(" ", r"\s+"), "", plain)
    assert not [word for word in WORDS if re.search(rf"\b{word}\b", plain)], plain


def test_a_paper_s_gains_in_fid_are_not_given_as_violations() -> None:
    table = next(table for table in asked(DIFFSERVE).tables if table.title.startswith("Three cascades"))
    row = next(dict(zip(table.columns, cells, strict=True)) for cells in table.rows if cells[1] == PROTEUS)
    assert (row["paper"], row["paper's violations"]) == ("< 5 %", "-")
    static = next(dict(zip(table.columns, cells, strict=True)) for cells in table.rows if cells[1] == STATIC)
    assert (static["paper"], static["paper's violations"]) == ("up to 9 %", "up to 19 % at the peak")
