"""Does our policy paint better than every other at the same violations, and how far is it from what is possible?"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np

from planner.policies import POLICIES
from replay.bench.comparison import FID_MARGIN, in_words
from replay.bench.papers.answer import Answer
from replay.bench.papers.answers import Asking, Mean, Table, bound_fid, number, over_seeds, percent
from replay.bench.papers.arrivals import PAPERS
from replay.bench.papers.cells import Cell, catalog_of
from replay.bench.papers.frontier import LEVELS, Compared, Setting, best_at, cells, compared, decided, settings
from replay.bench.papers.names import HADIS, JOINT

CATALOG, SLO_S = "diffserve-sdturbo", 5.0
RUN = "quality_run"
JUDGES = {
    RUN: "all answers of a run together, blind mixtures at their lower bound",
    "quality_run_optimistic": "all answers of a run together, blind mixtures at their upper bound",
    "quality": "windows of 20 s, blind mixtures at their lower bound",
    "quality_optimistic": "windows of 20 s, blind mixtures at their upper bound",
}
WANTED = 3  # traces on which it should be ahead beyond chance. Ours
BOUND, MOST = 0.04, 0.02  # above the fluid bound, and violations. Ours
SCREENED = 1  # seeds that settings are chosen with
OTHERS = tuple(policy for policy in POLICIES if policy != JOINT)

Swept = Mapping[tuple[str, Setting], Mean]


def ask(asking: Asking) -> Answer:
    """All policies on all published traces, then the best of them again with more seeds; and the bound on HADIS's."""
    found = _compared(asking)
    by_judge = {judge: _decided(found, judge) for judge in JUDGES}
    rows = by_judge[RUN]
    traces = list(dict.fromkeys(row.trace for row in rows))
    ahead = [t for t in traces if all(row.is_better for row in rows if row.trace == t)]
    behind = [t for t in traces if any(row.is_behind for row in rows if row.trace == t)]
    bounds = _bounds(asking)
    has_bound = all(row[2] <= BOUND and row[3] < MOST for row in bounds if row[1] == JOINT)
    return Answer(
        name=__name__.rpartition(".")[2],
        title="joint: is it ahead of every other policy, and how near to what is possible?",
        verdict=_verdict(traces, ahead, behind, has_bound),
        tables=(*(_table(each, judge) for judge, each in by_judge.items()), _bound_table(bounds)),
        numbers={
            "traces_ahead_beyond_chance": len(ahead),
            "traces_behind_beyond_chance": len(behind),
            "is_frontier_met": len(ahead) >= min(WANTED, len(traces)) and not behind,
            "is_bound_met": has_bound,
        }
        | {f"above_bound_{trace}_{policy}": round(above, 4) for trace, policy, above, *_ in bounds},
        facts=_facts(asking),
    )


def _facts(asking: Asking) -> dict[str, str]:
    base = Cell(catalog=CATALOG, trace="", policy=JOINT, slo_s=SLO_S)
    loads = {variant.load_ms / 1000 for variant in catalog_of(CATALOG).variants.values()}
    return {
        "catalog": CATALOG,
        "workers": str(base.workers),
        "slo": f"{SLO_S:g}",
        "period": f"{base.period_s:g}",
        "load": " or ".join(f"{load_s:.1f}" for load_s in sorted(loads)),
        "seeds": str(asking.scale.seeds),
        "margin": f"{FID_MARGIN:g}",
        "wanted": str(WANTED),
        "traces": str(len(PAPERS)),
    }


def _compared(asking: Asking) -> dict[str, dict[Setting, Mean]]:
    """trace -> what each setting that matters came to."""
    scale = asking.scale
    traces = PAPERS[:2] if scale.is_quick else PAPERS
    every = {trace: settings(_peak_rps(asking, trace), is_quick=scale.is_quick) for trace in traces}
    screened = _sweep(asking, every, min(SCREENED, scale.seeds))
    chosen = {trace: _chosen(_of(screened, trace)) for trace in traces}
    final = _sweep(asking, chosen, scale.seeds)
    return {trace: _of(final, trace) for trace in traces}


def _decided(found: Mapping[str, Mapping[Setting, Mean]], judge: str) -> list[Compared]:
    rows = [
        compared(trace, level, means, (JOINT,), OTHERS, judge) for trace, means in found.items() for level in LEVELS
    ]
    return decided(rows, FID_MARGIN)


def _sweep(asking: Asking, chosen: Mapping[str, Sequence[Setting]], seeds: int) -> Swept:
    wanted = dict[str, tuple[tuple[str, Setting], Cell]]()
    for trace, picked in chosen.items():
        base = Cell(catalog=CATALOG, trace=trace, policy=JOINT, slo_s=SLO_S)
        wanted |= {f"{trace}/{s.policy}/{s.told}": ((trace, s), cell) for s, cell in cells(base, picked).items()}
    found = over_seeds(asking.run, {name: cell for name, (_, cell) in wanted.items()}, seeds)
    return {wanted[name][0]: mean for name, mean in found.items()}


def _of(swept: Swept, trace: str) -> dict[Setting, Mean]:
    return {setting: mean for (at, setting), mean in swept.items() if at == trace}


def _chosen(found: Mapping[Setting, Mean]) -> list[Setting]:
    """The best of ours and of the others at each level; ours with the fewest violations where none is within."""
    best = [
        best_at(level, found, policies, judge)
        for judge in JUDGES
        for level in LEVELS
        for policies in ((JOINT,), OTHERS)
    ]
    fewest = min((s for s in found if s.policy == JOINT), key=lambda s: found[s].violations)
    return list(dict.fromkeys([s for s in best if s is not None] + [fewest]))


def _peak_rps(asking: Asking, trace: str) -> float:
    arrivals = asking.trace(trace).arrival_ms
    return float(np.bincount((arrivals // 10_000).astype(np.int64)).max()) / 10


def _bounds(asking: Asking) -> list[tuple[str, str, float, float, float, float]]:
    """(trace, policy, share of FID above the bound, violations, FID, bound's) on HADIS's catalog."""
    rows = []
    for trace in PAPERS[:1] if asking.scale.is_quick else PAPERS[:2]:
        asked = {p: Cell(catalog="hadis-l40s", trace=trace, policy=p, slo_s=60) for p in (JOINT, HADIS)}
        found = over_seeds(asking.run, asked, asking.scale.few)
        least = bound_fid(asking, asked[JOINT])
        rows += [(trace, p, mean.fid / least - 1, mean.violations, mean.fid, least) for p, mean in found.items()]
    return rows


def _verdict(traces: Sequence[str], ahead: Sequence[str], behind: Sequence[str], has_bound: bool) -> str:
    is_met = len(ahead) >= min(WANTED, len(traces)) and not behind
    return (
        f"{'Met' if is_met else 'Not met'}: by FID of the run, ahead of the best other beyond chance at every level of "
        f"violations on {len(ahead)} of {len(traces)} traces ({', '.join(ahead) or 'none'}), behind beyond chance at "
        f"some level on {len(behind)} ({', '.join(behind) or 'none'}). HADIS's catalog within {BOUND:.0%} of the fluid "
        f"bound with under {MOST:.0%} violations: {'met' if has_bound else 'not met'}."
    )


def _table(rows: Sequence[Compared], judge: str) -> Table:
    told = [_row(list(same), judge) for _, same in groupby(rows, _choice)]
    columns = ("trace", "violations up to", "ours", "FID", "best other", "FID", "FID ahead [interval]", "")
    return Table(title=f"Best FID at so many violations, {JUDGES[judge]}", columns=columns, rows=tuple(told))


def _choice(row: Compared) -> tuple[str, Setting | None, Setting | None]:
    return row.trace, row.ours, row.other


def _row(same: Sequence[Compared], judge: str) -> tuple[str, ...]:
    row, levels = same[0], " to ".join(dict.fromkeys(percent(each.level) for each in (same[0], same[-1])))
    ahead = "-" if row.ahead is None else in_words(row.ahead)
    sides = *_side(row.ours, row.our_mean, judge), *_side(row.other, row.other_mean, judge)
    return row.trace, levels, *sides, ahead, row.verdict


def _side(setting: Setting | None, mean: Mean | None, judge: str) -> tuple[str, str]:
    if setting is None or mean is None:
        return "none has so few", "-"
    return f"{setting.policy} {setting.told} ({percent(mean.violations, 2)})".replace("  ", " "), number(
        -mean.of(judge)
    )


def _bound_table(bounds: Iterable[tuple[str, str, float, float, float, float]]) -> Table:
    rows = tuple(
        (trace, policy, number(fid), number(least), percent(above), percent(violations, 2))
        for trace, policy, above, violations, fid, least in bounds
    )
    columns = ("trace", "policy", "FID", "fluid bound", "above", "violations")
    return Table(title="HADIS's catalog, 16 workers, SLO 60 s, over-provisioning 1.05", columns=columns, rows=rows)
