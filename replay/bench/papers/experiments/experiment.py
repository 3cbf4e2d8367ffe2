"""An experiment of a paper: its runs, what the paper says of them, and what may be the cause where that does not hold.

    agreement       every check holds
    partial         the first check, the paper's main claim, holds or is undecided; another one does not hold
    disagreement    the main claim does not hold: the opposite, or no difference that matters

A check is a claim on two sides, paired over redraws (`claims.py`), or a fact that is computed from runs or catalogs. A
cause is never guessed: where an experiment does not agree, its cells are run again with each suspected deviation
switched, and its checks are made again.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from replay.bench.comparison import AHEAD, UNDECIDED, in_words
from replay.bench.papers.answers import Asking, Mean, Table, over_seeds
from replay.bench.papers.claims import Claim, Judged, judge
from replay.bench.papers.runs.cells import Cell
from replay.traces import Trace

AGREEMENT, PARTIAL, DISAGREEMENT = "agreement", "partial", "disagreement"
NOT_RUN, NOT_ASKED = "not run", "not asked"
HOLDS, OPEN, FAILS = "holds", "undecided", "does not hold"
SIZE: Final = 2.0  # a figure is of the paper's size if at most SIZE times larger or smaller. Ours

Runs = Mapping[str, Mean]


class Fact(NamedTuple):
    """A statement that is computed, not compared over redraws."""

    what: str
    paper: str  # its figure, with the section
    here: str
    holds: bool


Check = Claim | Fact
Checks = Callable[[Runs], Sequence[Check]]
Traces = Callable[..., Trace]
"""Name, and the seed of another draw of its arrivals -> the trace."""
Change = Callable[[Cell], Cell]


class Suspect(NamedTuple):
    """A deviation that may be the cause, and how it is switched."""

    cause: str
    switch: str  # in the words of a command, of a setting or of `Cell`
    change: Change = lambda cell: cell
    checks: Checks | None = None  # instead of the experiment's, where it has no cells


def no_cells(is_quick: bool) -> Mapping[str, Cell]:
    """Return the cells of an experiment that is computed from catalogs."""
    del is_quick
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One figure, or one section, of a paper."""

    paper: str
    where: str  # figure or section
    about: str
    checks: Checks = lambda _: ()
    trace_facts: Callable[[Traces], Sequence[Fact]] = lambda _: ()  # computed from traces; they come before the checks
    cells: Callable[[bool], Mapping[str, Cell]] = no_cells  # is it a quick run -> name -> cell
    suspects: tuple[Suspect, ...] = ()
    why_not: str = ""  # why it is not run; "": it is

    @property
    def name(self) -> str:
        """Name of the experiment, unlike any other's."""
        return f"{self.paper} {self.where}"


class Result(NamedTuple):
    """A check that was made."""

    what: str
    figure: str  # what a claim is in; "": a fact
    here: str
    paper: str
    standing: str  # HOLDS, OPEN, FAILS


class Tried(NamedTuple):
    """The checks with a suspected deviation switched."""

    suspect: Suspect
    results: tuple[Result, ...]
    verdict: str


class Outcome(NamedTuple):
    """The outcome of an experiment."""

    experiment: Experiment
    results: tuple[Result, ...]
    verdict: str
    tried: tuple[Tried, ...] = ()


def of_size(ours: float, papers: float) -> bool:
    """Whether a figure is of the paper's size."""
    return papers / SIZE <= ours <= SIZE * papers


def settle(experiments: Sequence[Experiment], asking: Asking) -> list[Outcome]:
    """Run experiments and judge them; then those that do not agree again, with each suspect switched.

    Holm's correction is over the claims of an experiment, and so it is again with each suspect.
    """
    wanted = [each for each in experiments if not each.why_not]
    plain = Suspect("", "")
    first = _run_experiments([(each, plain) for each in wanted], asking)
    again = [
        (each, suspect)
        for each, results in zip(wanted, first, strict=True)
        if verdict_of(results) != AGREEMENT and not asking.scale.is_quick
        for suspect in each.suspects
    ]
    tried = list(zip(again, _run_experiments(again, asking), strict=True))
    return [
        Outcome(
            each,
            results,
            verdict_of(results),
            tuple(Tried(suspect, found, verdict_of(found)) for (own, suspect), found in tried if own is each),
        )
        for each, results in zip(wanted, first, strict=True)
    ]


def _run_experiments(asked: Sequence[tuple[Experiment, Suspect]], asking: Asking) -> list[tuple[Result, ...]]:
    """Return the results of each experiment under a suspect, in order; all cells run side by side."""
    cells = {
        f"{at}/{name}": suspect.change(cell)
        for at, (each, suspect) in enumerate(asked)
        for name, cell in each.cells(asking.scale.is_quick).items()
    }
    runs = over_seeds(asking.run, cells, asking.scale.few)
    checks = []
    for at, (each, suspect) in enumerate(asked):
        own = {name.partition("/")[2]: mean for name, mean in runs.items() if name.partition("/")[0] == str(at)}
        checks.append([*each.trace_facts(asking.trace), *(suspect.checks or each.checks)(own)])
    return [_results(own) for own in checks]


def _results(checks: Sequence[Check]) -> tuple[Result, ...]:
    claims = [check for check in checks if isinstance(check, Claim)]
    judged = iter(judge(claims) if claims else ())
    return tuple(_of_fact(check) if isinstance(check, Fact) else _of_claim(next(judged)) for check in checks)


def _of_fact(fact: Fact) -> Result:
    return Result(fact.what, "", fact.here, fact.paper, HOLDS if fact.holds else FAILS)


def _of_claim(judged: Judged) -> Result:
    claim, difference, verdict = judged
    standing = HOLDS if verdict == AHEAD else OPEN if verdict == UNDECIDED else FAILS
    return Result(claim.what, claim.figure, in_words(difference), claim.paper, standing)


def verdict_of(results: Sequence[Result]) -> str:
    """Return the verdict on an experiment, whose main claim comes first."""
    assert results, "an experiment of no checks"
    if all(result.standing == HOLDS for result in results):
        return AGREEMENT
    return DISAGREEMENT if results[0].standing == FAILS else PARTIAL


def checks_table(outcomes: Sequence[Outcome]) -> Table:
    """Return every check of some experiments as a table."""
    rows = tuple(
        (each.experiment.where, result.what, result.figure or "-", result.here, result.paper, result.standing)
        for each in outcomes
        for result in each.results
    )
    columns = ("experiment", "check", "in", "here: better by [interval], or the figure", "paper", "")
    return Table(title="Checks; claims are paired over redraws, Holm-corrected", columns=columns, rows=rows)


def causes_table(outcomes: Sequence[Outcome]) -> Table | None:
    """Return the causes tried where an experiment did not agree, or None."""
    rows = tuple(
        (
            each.experiment.where,
            each.verdict,
            tried.suspect.cause,
            f"`{tried.suspect.switch}`",
            tried.verdict,
            _changed(each, tried),
        )
        for each in outcomes
        for tried in each.tried
    )
    columns = ("experiment", "verdict", "suspected cause", "switch", "verdict with it", "checks that changed")
    return Table(title="Causes that were tried", columns=columns, rows=rows) if rows else None


def _changed(outcome: Outcome, tried: Tried) -> str:
    changed = [
        f"{after.what}: {after.here}, {after.standing}"
        for before, after in itertools.zip_longest(outcome.results, tried.results)
        if before is not None and after is not None and before.standing != after.standing
    ]
    return "; ".join(changed) or "none"


def count(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Return the number of experiments by verdict."""
    return {word: sum(each.verdict == word for each in outcomes) for word in (AGREEMENT, PARTIAL, DISAGREEMENT)}


def in_a_word(outcomes: Sequence[Outcome]) -> str:
    """Return whether the experiments of a paper hold: all, some, or none of them."""
    found = {each.verdict for each in outcomes}
    return "Held" if found <= {AGREEMENT} else "Not held" if found <= {DISAGREEMENT} else "Held in part"


def tables_of(outcomes: Sequence[Outcome]) -> tuple[Table, ...]:
    """Return every check of some experiments, and what was tried, as tables."""
    causes = causes_table(outcomes)
    return (checks_table(outcomes), causes) if causes else (checks_table(outcomes),)


def counted(outcomes: Sequence[Outcome]) -> str:
    """Return the number of experiments by verdict, in words."""
    found = ", ".join(f"{number} {word}" for word, number in count(outcomes).items())
    return f"of {len(outcomes)} experiments {found}"


def experiments_table(every: Sequence[Experiment], outcomes: Sequence[Outcome]) -> Table:
    """Return the one table of all experiments, those not run or not asked among them."""
    found = {each.experiment.name: each for each in outcomes}
    rows = tuple(_row(each, found.get(each.name)) for each in every)
    ran = count(outcomes)
    here = ", ".join(f"{number} {word}" for word, number in ran.items())
    title = f"Of {len(every)} experiments {sum(ran.values())} run: {here}"
    columns = ("paper", "experiment", "verdict", "its main claim", "here", "paper's figure", "causes tried")
    return Table(title=title, columns=columns, rows=rows)


def _row(experiment: Experiment, outcome: Outcome | None) -> tuple[str, ...]:
    named = (experiment.paper, f"{experiment.where}: {experiment.about}")
    if outcome is None:
        return *named, NOT_RUN if experiment.why_not else NOT_ASKED, experiment.why_not or "-", "-", "-", "-"
    main = outcome.results[0]
    here = f"{main.here} ({main.figure})" if main.figure else main.here
    return *named, outcome.verdict, main.what, here, main.paper, _tried(outcome)


def _tried(outcome: Outcome) -> str:
    if outcome.verdict == AGREEMENT:
        return "-"
    return "; ".join(f"`{each.suspect.switch}`: {each.verdict}" for each in outcome.tried) or "none"
