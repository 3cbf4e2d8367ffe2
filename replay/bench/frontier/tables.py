"""Compares ours with the best other policy, cell by cell, by the rule of `replay/bench/comparison.py`.

At a level of violations a policy counts with the best of its chosen settings within the level, by the mean over
redraws. The best other policy has the best mean quality, which chance raises: against ours, never for it.
Where one side has no setting within the level, the other is ahead if the violations of its setting with the fewest are
above the level beyond chance, by the same test as differences of quality; else nothing is decided.
"""

import dataclasses
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from replay.bench.comparison import (
    AHEAD,
    BEHIND,
    EVEN,
    UNDECIDED,
    PairedDifference,
    in_words,
    margin_of,
    paired,
    verdicts,
)  # fmt: skip
from replay.bench.frontier.cells import Figures
from replay.bench.frontier.grid import LEVELS, GridCell, Setting
from replay.bench.papers.page import row as markdown_row
from replay.bench.papers.runs.names import JOINT

JUDGES: Final = ("quality", "quality_optimistic", "quality_run", "quality_run_optimistic")
JUDGE_WORDS: Final = {
    "quality": "windows of 20 s, blind mixtures at their lower bound",
    "quality_optimistic": "windows of 20 s, blind mixtures at their upper bound",
    "quality_run": "the whole run, blind mixtures at their lower bound",
    "quality_run_optimistic": "the whole run, blind mixtures at their upper bound",
}
ALONE, NONE = "ahead: alone within", "no policy within"
BEATEN = "behind: not within"
MAYBE_ALONE, MAYBE_BEATEN = "undecided: alone within", "undecided: not within"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison."""

    catalog: str
    trace: str
    truth: str
    judge: str
    level: float
    ours: Setting | None  # None: none of our settings has so few violations
    our_violations: float
    our_quality: float
    other: Setting | None
    other_violations: float
    other_quality: float
    difference: PairedDifference | None  # ours above the other's; None: one of them is not within
    excess: PairedDifference | None  # violations above the level, of the one side that is not within
    margin: float
    verdict: str = ""


Runs = Mapping[Setting, Sequence[Figures]]


def compare(results: Iterable[tuple[GridCell, Figures]], scales: Mapping[str, str]) -> list[Row]:
    """Return all comparisons with their verdicts; Holm's correction is over those of one truth and judge.

    `scales`: catalog -> its scale of quality.
    """
    runs: defaultdict[tuple[str, str, str], defaultdict[Setting, list[tuple[int, Figures]]]]
    runs = defaultdict(lambda: defaultdict(list))
    for cell, figures in results:
        runs[cell.catalog, cell.trace, cell.truth][cell.setting].append((cell.seed, figures))
    tables: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for (catalog, trace, truth), found in runs.items():
        ordered = {s: [figures for _, figures in sorted(own, key=lambda run: run[0])] for s, own in found.items()}
        for judge in JUDGES:
            margin = margin_of(scales[catalog])
            rows = [_row(ordered, judge, level, (catalog, trace, truth), margin) for level in LEVELS]
            tables[truth, judge] += rows
    return [row for rows in tables.values() for row in _decided(rows)]


def _row(runs: Runs, judge: str, level: float, place: tuple[str, str, str], margin: float) -> Row:
    catalog, trace, truth = place
    ours = _best(runs, judge, level, is_ours=True)
    other = _best(runs, judge, level, is_ours=False)
    difference = excess = None
    if ours is not None and other is not None:
        difference = paired([run[judge] for run in runs[ours]], [run[judge] for run in runs[other]])
    elif ours is not None or other is not None:
        excess = _excess(runs, level, is_ours=ours is None)
    return Row(
        catalog=catalog,
        trace=trace,
        truth=truth,
        judge=judge,
        level=level,
        ours=ours,
        our_violations=_mean(runs, ours, "violation_rate"),
        our_quality=_mean(runs, ours, judge),
        other=other,
        other_violations=_mean(runs, other, "violation_rate"),
        other_quality=_mean(runs, other, judge),
        difference=difference,
        excess=excess,
        margin=margin,
    )


def _excess(runs: Runs, level: float, *, is_ours: bool) -> PairedDifference | None:
    """Return by how much a side's fewest violations exceed the level; None if the side was not run."""
    own = [setting for setting in runs if (setting.policy == JOINT) is is_ours]
    if not own:
        return None
    fewest = min(own, key=lambda setting: _mean(runs, setting, "violation_rate"))
    return paired([run["violation_rate"] for run in runs[fewest]], [level] * len(runs[fewest]))


def _best(runs: Runs, judge: str, level: float, *, is_ours: bool) -> Setting | None:
    within = [
        setting
        for setting in runs
        if (setting.policy == JOINT) is is_ours and _mean(runs, setting, "violation_rate") <= level
    ]
    return max(within, key=lambda s: _mean(runs, s, judge)) if within else None


def _mean(runs: Runs, setting: Setting | None, name: str) -> float:
    if setting is None:
        return float("nan")
    return statistics.fmean(run.get(name, float("nan")) for run in runs[setting])


def _decided(rows: Sequence[Row]) -> list[Row]:
    """Give each row its verdict; a pair of settings that is compared at several levels is one comparison."""
    pairs = {_pair(row): (row.difference, row.margin) for row in rows if row.difference is not None}
    pairs |= {_pair(row): (row.excess, 0.0) for row in rows if row.excess is not None}
    words = verdicts([tested for tested, _ in pairs.values()], [margin for _, margin in pairs.values()])
    found = dict(zip(pairs, words, strict=True))
    return [dataclasses.replace(row, verdict=_verdict(row, found.get(_pair(row), ""))) for row in rows]


def _pair(row: Row) -> tuple[str, str, Setting | None, Setting | None, float]:
    return row.catalog, row.trace, row.ours, row.other, row.level if row.excess is not None else 0.0


def _verdict(row: Row, word: str) -> str:
    """Name a row's verdict. `word`: that on its difference of quality, or on its excess of violations."""
    if row.difference is not None:
        return word
    if row.ours is None and row.other is None:
        return NONE
    is_sure = row.excess is None or word == AHEAD  # more violations than the level, beyond chance
    if row.ours is not None:
        return ALONE if is_sure else MAYBE_ALONE
    return BEATEN if is_sure else MAYBE_BEATEN


def word_of(row: Row) -> str:
    """Return the verdict on a row as ahead, even, behind or undecided, whatever decided it."""
    words = {ALONE: AHEAD, BEATEN: BEHIND} | dict.fromkeys((NONE, MAYBE_ALONE, MAYBE_BEATEN), UNDECIDED)
    return words.get(row.verdict, row.verdict)


def rows_of(rows: Iterable[Row], truth: str, judge: str) -> list[Row]:
    """Return the comparisons with a truth by a judge."""
    return [row for row in rows if (row.truth, row.judge) == (truth, judge)]


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return, by truth and judge, how often which verdict was given, and the worst that ours was behind."""
    found = []
    for truth, judge in dict.fromkeys((row.truth, row.judge) for row in rows):
        own = rows_of(rows, truth, judge)
        counts = Counter(word_of(row) for row in own)
        known = [row for row in own if row.difference is not None]
        worst = min(known, key=lambda row: row.difference.mean / row.margin, default=None)  # type: ignore[union-attr]
        found.append(
            {
                "truth": truth,
                "judge": judge,
                "comparisons": len(own),
                "ahead": counts[AHEAD],
                "even": counts[EVEN],
                "behind": counts[BEHIND],
                "undecided": counts[UNDECIDED],
                "worst": "-" if worst is None else f"{_place(worst)}: {_difference(worst)}",
            }
        )
    return found


def _place(row: Row) -> str:
    return f"{row.catalog}, {row.trace}, up to {row.level:.0%}"


def _difference(row: Row) -> str:
    return "-" if row.difference is None else in_words(row.difference, 2 if row.margin >= 0.01 else 4)


def failures_of(results: Iterable[tuple[GridCell, Figures]]) -> list[dict[str, Any]]:
    """Return, by catalog and policy, how often it failed to plan, where it did: the plan before stayed in force."""
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for cell, figures in results:
        found[cell.catalog, cell.policy].append(figures["plan_failures"])
    return [
        {
            "catalog": catalog,
            "policy": policy,
            "failures": int(sum(counts)),
            "in runs": sum(count > 0 for count in counts),
            "of runs": len(counts),
        }
        for (catalog, policy), counts in found.items()
        if any(counts)
    ]


def lines_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the comparisons as rows of a printed table."""
    return [
        {
            "truth": row.truth,
            "judge": row.judge,
            "catalog": row.catalog,
            "trace": row.trace,
            "violations up to": f"{row.level:.0%}",
            "ours": _side(row.ours, row.our_violations),
            "best other": _side(row.other, row.other_violations),
            "quality ahead": _difference(row),
            "verdict": row.verdict,
        }
        for row in rows
    ]


def _side(setting: Setting | None, violations: float) -> str:
    if setting is None:
        return "none"
    words = ", ".join(f"{name} {value:g}" for name, value in setting.parameters if name != "peak_rps")
    return f"{setting.policy} ({words + '; ' if words else ''}{violations:.2%})"


def page_of(rows: Sequence[Row], made: Mapping[str, Any], failures: Sequence[Mapping[str, Any]]) -> str:
    """Return the comparisons as a part of a page, in Markdown. `made`: command, cells, redraws, cpu_hours."""
    parts = [
        "## joint on the grid",
        f"Made by `{made['command']}`: {made['cells']} runs, {made['redraws']} redraws of each, "
        f"{made['cpu_hours']:.1f} hours of processor time. ahead, even, behind and undecided are by one rule for "
        "both sides (replay/bench/comparison.py); quality ahead is of joint, in FID or in the share of facts.",
        _markdown("Verdicts by truth and judge", summary(rows)),
        _markdown("Policies that failed to plan", failures) if failures else "No policy failed to plan.",
    ]
    for truth, judge in dict.fromkeys((row.truth, row.judge) for row in rows):
        lines = lines_of(rows_of(rows, truth, judge))
        own = [{name: value for name, value in line.items() if name not in ("truth", "judge")} for line in lines]
        parts.append(_markdown(f"Truth: {truth}; {JUDGE_WORDS[judge]}", own))
    return "\n\n".join(parts) + "\n"


def _markdown(title: str, lines: Sequence[Mapping[str, Any]]) -> str:
    columns = list(lines[0])
    head = [f"*{title}*", "", markdown_row(columns), "|" + "---|" * len(columns)]
    return "\n".join([*head, *(markdown_row([str(line[name]) for name in columns]) for line in lines)])


def record(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the comparisons as numbers, for JSON; what is unknown is null."""
    return [
        {
            "catalog": row.catalog,
            "trace": row.trace,
            "truth": row.truth,
            "judge": row.judge,
            "level": row.level,
            "ours": _side_record(row.ours, row.our_violations, row.our_quality),
            "other": _side_record(row.other, row.other_violations, row.other_quality),
            "ahead": None if row.difference is None else {
                "mean": row.difference.mean, "low": row.difference.low, "high": row.difference.high,
                "p": row.difference.p, "pairs": row.difference.pairs,
            },
            "violations above": None if row.excess is None else {
                "mean": row.excess.mean, "low": row.excess.low, "high": row.excess.high, "p": row.excess.p,
            },
            "margin": row.margin,
            "verdict": row.verdict,
        }
        for row in rows
    ]  # fmt: skip


def _side_record(setting: Setting | None, violations: float, quality: float) -> dict[str, Any] | None:
    if setting is None:
        return None
    parameters = dict(setting.parameters)
    return {"policy": setting.policy, "parameters": parameters, "violations": violations, "quality": quality}
