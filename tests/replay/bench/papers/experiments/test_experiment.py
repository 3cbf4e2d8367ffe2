"""An experiment's verdict, and the causes that are tried where it does not agree."""

import dataclasses
from collections.abc import Callable, Sequence

import pytest

from replay.bench.papers.answers import QUICK, Asking, Scale
from replay.bench.papers.claims import FID, Claim
from replay.bench.papers.experiments.every import EVERY
from replay.bench.papers.experiments.experiment import (
    AGREEMENT,
    DISAGREEMENT,
    FAILS,
    HOLDS,
    NOT_ASKED,
    NOT_RUN,
    OPEN,
    PARTIAL,
    Check,
    Experiment,
    Fact,
    Result,
    Runs,
    Suspect,
    causes_table,
    experiments_table,
    in_a_word,
    settle,
    verdict_of,
)
from replay.bench.papers.experiments.suspects import changed
from replay.bench.papers.runs.arrivals import open_trace
from replay.bench.papers.runs.cells import Cell, Found
from replay.bench.papers.runs.names import DIFFSERVE, PROTEUS
from replay.traces import Trace
from tests.paths import ROOT
from tests.replay.bench.papers.found import alike, found, graded

OURS = Cell(catalog="diffserve-sdturbo", trace="azure-1to8", policy=DIFFSERVE, slo_s=5)
OTHER = dataclasses.replace(OURS, policy=PROTEUS)
FEW = Scale(few=3)


def trace(name: str, redraw: int | None = None) -> Trace:
    return open_trace(name, None, 50, redraw)


def asking(of: Callable[[Cell], Found], scale: Scale = FEW) -> Asking:
    return Asking(run=alike(of), grid=graded(), trace=trace, scale=scale)


def result(standing: str) -> Result:
    return Result("a check", "", "here", "paper", standing)


@pytest.mark.parametrize(
    ("standings", "verdict"),
    [
        ([HOLDS, HOLDS], AGREEMENT), ([HOLDS, FAILS], PARTIAL), ([HOLDS, OPEN], PARTIAL), ([OPEN, HOLDS], PARTIAL),
        ([FAILS, HOLDS], DISAGREEMENT), ([FAILS], DISAGREEMENT),
    ],
)  # fmt: skip
def test_the_main_claim_decides_whether_an_experiment_disagrees(standings: Sequence[str], verdict: str) -> None:
    assert verdict_of([result(standing) for standing in standings]) == verdict


def lower(runs: Runs) -> list[Check]:
    return [Claim("FID is lower", "5 % (4.3)", runs["ours"], runs["other"], FID)]


CHANCE = Suspect("a push by chance", "simulate --dispatch random", changed(dispatch="random"))
LOADS = Suspect("free loads", "simulate --no-load", changed(loads=False))
LOWER = Experiment(
    paper="A paper", where="Fig. 1", about="one against another", cells=lambda _: {"ours": OURS, "other": OTHER},
    checks=lower, suspects=(CHANCE, LOADS),
)  # fmt: skip


def as_pushed(cell: Cell) -> Found:
    """DiffServe's FID is lower only where jobs are pushed by chance."""
    is_better = cell.policy == DIFFSERVE and cell.dispatch == "random"
    return found(quality=(-16.0 if is_better else -17.0) - 0.01 * cell.seed**2 * is_better)


def test_a_cause_is_tried_by_running_the_cells_again_with_the_suspect_switched() -> None:
    [outcome] = settle([LOWER], asking(as_pushed))
    assert outcome.verdict == DISAGREEMENT
    assert [(each.suspect.switch, each.verdict) for each in outcome.tried] == [
        ("simulate --dispatch random", AGREEMENT), ("simulate --no-load", DISAGREEMENT)
    ]  # fmt: skip
    table = causes_table([outcome])
    assert table is not None
    assert [row[-1].startswith("FID is lower: +0.98 ") for row in table.rows] == [True, False]
    assert [row[-1].endswith(", holds") for row in table.rows] == [True, False]
    assert table.rows[1][-1] == "none"


def test_nothing_is_tried_where_an_experiment_agrees_and_in_a_quick_run() -> None:
    def better(cell: Cell) -> Found:
        return found(quality=-16.0 if cell.policy == DIFFSERVE else -17.0 - 0.01 * cell.seed**2)

    [outcome] = settle([LOWER], asking(better))
    assert (outcome.verdict, outcome.tried, causes_table([outcome])) == (AGREEMENT, (), None)
    assert settle([LOWER], asking(as_pushed, QUICK))[0].tried == ()


def test_a_suspect_of_an_experiment_without_cells_has_checks_of_its_own() -> None:
    wrong, right = (Fact("a share", "20 %", told, holds) for told, holds in (("90 %", False), ("25 %", True)))
    fixed = Suspect("ties count", "light > heavy", checks=lambda _: [right])
    own = Experiment(paper="A paper", where="Fig. 2", about="-", checks=lambda _: [wrong], suspects=(fixed,))
    [outcome] = settle([own], asking(as_pushed))
    assert (outcome.verdict, outcome.tried[0].verdict) == (DISAGREEMENT, AGREEMENT)


def test_all_experiments_are_counted_in_one_table_with_those_not_run() -> None:
    left = Experiment(paper="A paper", where="Fig. 3", about="-", why_not="needs people")
    unasked = dataclasses.replace(LOWER, where="Fig. 4")
    outcomes = settle([LOWER, left], asking(as_pushed))
    table = experiments_table([LOWER, left, unasked], outcomes)
    assert table.title == "Of 3 experiments 1 run: 0 agreement, 0 partial, 1 disagreement"
    assert [row[2] for row in table.rows] == [DISAGREEMENT, NOT_RUN, NOT_ASKED]
    assert table.rows[1][3] == "needs people"
    assert "`simulate --dispatch random`: agreement" in table.rows[0][-1]
    assert in_a_word(outcomes) == "Not held"


def test_all_but_five_of_the_papers_experiments_run_and_each_has_causes_to_try() -> None:
    assert len(EVERY) == len({each.name for each in EVERY})
    run = [each for each in EVERY if not each.why_not]
    assert len(run) >= len(EVERY) - 5
    assert all(len({suspect.switch for suspect in each.suspects}) == len(each.suspects) for each in EVERY)
    assert all(each.suspects for each in run if each.cells(False))


def test_the_readme_says_how_many_experiments_there_are() -> None:
    assert f"the papers' {len(EVERY)} experiments" in (ROOT / "replay" / "bench" / "README.md").read_text()


@pytest.mark.parametrize("experiment", [each for each in EVERY if not each.why_not], ids=lambda each: each.name)
def test_every_experiment_is_judged_and_every_suspect_changes_a_cell(experiment: Experiment) -> None:
    [outcome] = settle([experiment], asking(lambda _: found()))
    assert outcome.results
    assert all(each.what and each.paper and each.here for each in outcome.results)
    cells = experiment.cells(False)
    for suspect in experiment.suspects:
        assert suspect.checks or any(suspect.change(cell) != cell for cell in cells.values()), suspect.switch
