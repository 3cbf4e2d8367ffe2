"""Does joint generate better than every other policy at the same violations, and how near is it to what is possible?

Cells, settings and verdicts are those of `pochade bench frontier` (replay/bench/frontier). The catalog is the truth;
other truths are compared beside it where they are asked for.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from replay.bench.comparison import AHEAD, BEHIND, EVEN
from replay.bench.frontier import tuning
from replay.bench.frontier.grid import FLEETS, LEVELS, TRACES, TRUTHS, GridCell
from replay.bench.frontier.plan import Part, judged_cells, quick_settings
from replay.bench.frontier.tables import JUDGE_WORDS, Row, compare, lines_of, rows_of, summary, word_of
from replay.bench.papers.answer import Answer
from replay.bench.papers.answers import Asking, Table, bound_fids, number, over_seeds, percent
from replay.bench.papers.parts import tables as tables_of_parts
from replay.bench.papers.runs.arrivals import HELD_OUT, PAPERS
from replay.bench.papers.runs.cells import Cell, catalog_of
from replay.bench.papers.runs.names import HADIS, JOINT

RUN: Final = "quality_run"
RUN_UPPER: Final = "quality_run_optimistic"  # with blind mixtures at their upper bound
TRUTH: Final = TRUTHS[0]
WANTED: Final = 1 / 3  # of the comparisons in which it should be ahead beyond chance. Ours
CATALOG: Final = "hadis-l40s"  # of HADIS, whose bound is asked for
BY_DEFAULT, TUNED = "by default", "as tuned"  # parameters: none, or the first that ship: for the fewest violations
BOUND = 0.04  # above the fluid bound. Ours, as the two below
MAX_VIOLATIONS = 0.02
NEAR = 0.9  # share of redraws within both


class Bounded(NamedTuple):
    """A policy on a trace of HADIS's catalog against the fluid bound; means over redraws."""

    trace: str
    policy: str
    setting: str  # which parameters it has
    fid: float
    least: float  # the bound's
    violations: float
    near: float  # share of the redraws within BOUND of the bound with at most MAX_VIOLATIONS violations


def ask(asking: Asking) -> Answer:
    """The grid with the settings that ship, by all judges; and the bound on HADIS's catalog."""
    cells = _cells(asking)
    rows = compare(
        list(zip(cells, asking.grid(cells), strict=True)), {f.catalog: catalog_of(f.catalog).scale for f in FLEETS}
    )
    main = rows_of(rows, TRUTH, RUN)
    counts, upper = (Counter(word_of(row) for row in rows_of(rows, TRUTH, judge)) for judge in (RUN, RUN_UPPER))
    bounds = _bounds(asking)
    are_near = {
        setting: all(each.near >= NEAR for each in bounds if (each.policy, each.setting) == (JOINT, setting))
        for setting in (BY_DEFAULT, TUNED)
    }
    met = _judges_met(rows, TRUTH)
    others = {truth: _judges_met(rows, truth) for truth in asking.scale.other_truths}
    return Answer(
        name=__name__.rpartition(".")[2],
        title="joint: is it ahead of every other policy, and how near to what is possible?",
        verdict=_verdict(main, counts, upper, are_near, met) + _of_others(others),
        tables=(
            _summary(rows),
            _table(main),
            *(_table(rows_of(rows, truth, RUN)) for truth in others),
            _bound_table(bounds),
            *tables_of_parts(asking),
        ),
        numbers={
            "comparisons": len(main),
            "ahead_beyond_chance": counts[AHEAD],
            "behind_beyond_chance": counts[BEHIND],
            "is_frontier_met": all(met),
            "judges_met": sum(met),
            **{f"judges_met_{truth}": sum(own) for truth, own in others.items()},
            "is_bound_met": are_near[BY_DEFAULT],
            "is_bound_met_as_tuned": are_near[TUNED],
        }
        | {
            f"near_bound_{each.trace}_{each.policy}{'_as_tuned' * (each.setting == TUNED)}": round(each.near, 3)
            for each in bounds
        },
        facts=_facts(asking),
    )


def _judges_met(rows: Sequence[Row], truth: str) -> list[bool]:
    return [_is_met(rows_of(rows, truth, judge)) for judge in JUDGE_WORDS]


def _is_met(rows: Sequence[Row]) -> bool:
    """Whether ours is ahead beyond chance in enough comparisons of a judge, and behind in none."""
    counts = Counter(word_of(row) for row in rows)
    return counts[AHEAD] >= WANTED * len(rows) and not counts[BEHIND]


def _facts(asking: Asking) -> dict[str, str]:
    return {
        "catalogs": ", ".join(f"{f.catalog} ({f.workers} workers, SLO {f.slo_s:g} s)" for f in FLEETS),
        "traces": str(len(TRACES)),
        "truths": ", ".join((TRUTH, *asking.scale.other_truths)),
        "held_out": ", ".join(HELD_OUT),
        "levels": ", ".join(f"{level:.0%}" for level in LEVELS),
        "seeds": str(asking.scale.seeds),
        "few": str(asking.scale.few),
    }


def _cells(asking: Asking) -> list[GridCell]:
    scale = asking.scale
    if scale.is_quick:
        part = Part(
            catalogs=[FLEETS[0].catalog], traces=TRACES[:1], truths=[TRUTH, *scale.other_truths], redraws=scale.seeds
        )
        return judged_cells(part, quick_settings(part.catalogs))
    return judged_cells(Part(truths=[TRUTH, *scale.other_truths], redraws=scale.seeds), tuning.read())


def _bounds(asking: Asking) -> list[Bounded]:
    found = []
    tuned = tuning.fewest_violations(CATALOG, JOINT)
    settings = ((JOINT, BY_DEFAULT, ()), (JOINT, TUNED, tuned), (HADIS, BY_DEFAULT, ()))
    for trace in PAPERS[:1] if asking.scale.is_quick else PAPERS[:2]:
        asked = {
            (policy, setting): Cell(catalog=CATALOG, trace=trace, policy=policy, slo_s=60, parameters=parameters)
            for policy, setting, parameters in settings
        }
        runs = over_seeds(asking.run, asked, asking.scale.few)
        least = bound_fids(asking, asked[JOINT, BY_DEFAULT])
        for (policy, setting), mean in runs.items():
            near = [
                run.fid <= (1 + BOUND) * bound and run.violations <= MAX_VIOLATIONS
                for run, bound in zip(mean.runs, least, strict=True)
            ]
            bound = sum(least) / len(least)
            found.append(Bounded(trace, policy, setting, mean.fid, bound, mean.violations, sum(near) / len(near)))
    return found


def _verdict(
    rows: Sequence[Row], counts: Mapping[str, int], upper: Mapping[str, int], are_near: Mapping[str, bool],
    met: Sequence[bool],
) -> str:  # fmt: skip
    known = [row for row in rows if row.difference is not None]
    worst = min(known, key=lambda row: row.difference.mean / row.margin, default=None)  # type: ignore[union-attr]
    lost = "-" if worst is None else f"{worst.difference.mean:+.3g} ({worst.catalog}, {worst.trace}, {worst.level:.0%})"  # type: ignore[union-attr]
    near = ", ".join(f"{'met' if is_near else 'not met'} {setting}" for setting, is_near in are_near.items())
    word = "Met" if all(met) else "Met in part" if any(met) else "Not met"
    return (
        f"{word}: ahead of the best other beyond chance in a third of the comparisons and behind in none by "
        f"{sum(met)} of {len(met)} judges. By quality of the run at its lower bound, of {len(rows)} comparisons ahead "
        f"beyond chance in {counts[AHEAD]}, even in {counts[EVEN]}, behind beyond chance in {counts[BEHIND]}, the rest "
        f"undecided; at its upper bound ahead in {upper[AHEAD]}, behind in {upper[BEHIND]}. Worst difference at the "
        f"lower bound {lost}. HADIS's catalog within {BOUND:.0%} of the fluid bound with at most "
        f"{MAX_VIOLATIONS:.0%} violations in {NEAR:.0%} of the redraws: {near}."
    )


def _of_others(met: Mapping[str, Sequence[bool]]) -> str:
    """Say by how many judges its number is met with each other truth; nothing where none was asked for."""
    words = ", ".join(f"by {sum(own)} of {len(own)} judges with the truth {truth}" for truth, own in met.items())
    return f" Where the catalog is wrong, ahead in a third and behind in none {words}." if words else ""


def _summary(rows: Sequence[Row]) -> Table:
    lines = [line | {"judge": JUDGE_WORDS[line["judge"]]} for line in summary(rows)]
    columns = ("truth", "judge", "comparisons", "ahead", "even", "behind", "undecided", "worst")
    cells = tuple(tuple(str(line[column]) for column in columns) for line in lines)
    return Table(title="Verdicts by truth and judge", columns=columns, rows=cells)


def _table(rows: Sequence[Row]) -> Table:
    columns = ("catalog", "trace", "violations up to", "ours", "best other", "quality ahead", "verdict")
    cells = tuple(tuple(str(line[column]) for column in columns) for line in lines_of(rows))
    truth = rows[0].truth
    title = f"Best quality within each level of violations, {JUDGE_WORDS[RUN]}; truth: {truth}"
    return Table(title=title, columns=columns, rows=cells)


def _bound_table(bounds: Sequence[Bounded]) -> Table:
    rows = tuple(
        (each.trace, each.policy, each.setting, number(each.fid), number(each.least), _above(each),
         percent(each.violations, 2), percent(each.near, 0))
        for each in bounds
    )  # fmt: skip
    columns = ("trace", "policy", "setting", "FID, windows", "fluid bound", "above", "violations", "redraws near it")
    return Table(title="HADIS's catalog, 16 workers, SLO 60 s", columns=columns, rows=rows)


def _above(each: Bounded) -> str:
    return percent(each.fid / each.least - 1) if math.isfinite(each.least) else "-"
