"""Does our policy paint better than every other at the same violations, and how far is it from what is possible?"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np

from planner.policies import POLICIES
from replay.bench.papers.answers import Answer, Asking, Mean, Table, bound_fid, number, over_seeds, percent
from replay.bench.papers.arrivals import PAPERS
from replay.bench.papers.cells import Cell
from replay.bench.papers.frontier import LEVELS, Compared, Setting, best_at, cells, compared, settings
from replay.bench.papers.names import HADIS, JOINT

CATALOG, SLO_S = "diffserve-sdturbo", 5.0
SLACK = 0.05  # FID that the best other may be ahead by. Ours
WANTED = 3  # traces on which it should be ahead beyond chance. Ours
BOUND, MOST = 0.04, 0.02  # above the fluid bound, and violations. Ours
SCREENED = 1  # seeds that settings are chosen with
OTHERS = tuple(policy for policy in POLICIES if policy != JOINT)

Swept = Mapping[tuple[str, Setting], Mean]


def ask(asking: Asking) -> Answer:
    """All policies on all published traces, then the best of them again with more seeds; and the bound on HADIS's."""
    by_trace = _compared(asking)
    bounds = _bounds(asking)
    ahead = [t for t, rows in by_trace.items() if all(row.is_better for row in rows)]
    behind = [t for t, rows in by_trace.items() if not all(row.is_met for row in rows)]
    has_bound = all(row[2] <= BOUND and row[3] < MOST for row in bounds if row[1] == JOINT)
    return Answer(
        name=__name__.rpartition(".")[2],
        title="joint: is it ahead of every other policy, and how near to what is possible?",
        verdict=_verdict(by_trace, ahead, behind, has_bound),
        tables=(_table(by_trace), _bound_table(bounds)),
        numbers={
            "traces_ahead_beyond_chance": len(ahead),
            "traces_behind_by_more_than_the_slack": len(behind),
            "is_frontier_met": len(ahead) >= WANTED and not behind,
            "is_bound_met": has_bound,
        }
        | {f"above_bound_{trace}_{policy}": round(above, 4) for trace, policy, above, *_ in bounds},
    )


def _compared(asking: Asking) -> dict[str, list[Compared]]:
    scale = asking.scale
    traces = PAPERS[:2] if scale.is_quick else PAPERS
    every = {trace: settings(_peak_rps(asking, trace), is_quick=scale.is_quick) for trace in traces}
    screened = _sweep(asking, every, min(SCREENED, scale.seeds))
    chosen = {trace: _chosen(_of(screened, trace)) for trace in traces}
    final = _sweep(asking, chosen, scale.seeds)
    return {trace: [_at(level, _of(final, trace)) for level in LEVELS] for trace in traces}


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
    best = [best_at(level, found, policies) for level in LEVELS for policies in ((JOINT,), OTHERS)]
    fewest = min((s for s in found if s.policy == JOINT), key=lambda s: found[s].violations)
    return list(dict.fromkeys([s for s in best if s is not None] + [fewest]))


def _at(level: float, found: Mapping[Setting, Mean]) -> Compared:
    return compared(level, found, SLACK, (JOINT,), OTHERS)


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


def _verdict(by_trace: Mapping[str, Sequence[Compared]], ahead: Sequence[str], behind: Sequence[str], met: bool) -> str:
    is_met = len(ahead) >= min(WANTED, len(by_trace)) and not behind
    where = f" ({', '.join(behind)})" if behind else ""
    return (
        f"{'Met' if is_met else 'Not met'}: ahead of the best other beyond chance at every level of violations on "
        f"{len(ahead)} of {len(by_trace)} traces ({', '.join(ahead) or 'none'}), more than {SLACK} FID behind on "
        f"{len(behind)}{where}. HADIS's catalog within {BOUND:.0%} of the fluid bound with under {MOST:.0%} "
        f"violations: {'met' if met else 'not met'}."
    )


def _table(by_trace: Mapping[str, Sequence[Compared]]) -> Table:
    rows = [_row(trace, list(same)) for trace, found in by_trace.items() for _, same in groupby(found, _choice)]
    columns = ("trace", "violations up to", "ours", "FID", "best other", "FID", "FID ahead [95 %]", "")
    return Table(title="Best FID at so many violations", columns=columns, rows=tuple(rows))


def _choice(row: Compared) -> tuple[Setting | None, Setting | None]:
    return row.ours, row.other


def _row(trace: str, same: Sequence[Compared]) -> tuple[str, ...]:
    row, levels = same[0], " to ".join(dict.fromkeys(percent(each.level) for each in (same[0], same[-1])))
    ahead = "-"
    if row.ahead is not None and row.ahead.interval is not None:
        low, high = row.ahead.interval
        ahead = f"{row.ahead.mean:+.2f} [{low:+.2f}, {high:+.2f}]"
    told = "ahead" if row.is_better else "even" if row.is_met else "behind"
    return trace, levels, *_side(row.ours, row.our_mean), *_side(row.other, row.other_mean), ahead, told


def _side(setting: Setting | None, mean: Mean | None) -> tuple[str, str]:
    if setting is None or mean is None:
        return "none has so few", "-"
    return f"{setting.policy} {setting.told} ({percent(mean.violations, 2)})".replace("  ", " "), number(mean.fid)


def _bound_table(bounds: Iterable[tuple[str, str, float, float, float, float]]) -> Table:
    rows = tuple(
        (trace, policy, number(fid), number(least), percent(above), percent(violations, 2))
        for trace, policy, above, violations, fid, least in bounds
    )
    columns = ("trace", "policy", "FID", "fluid bound", "above", "violations")
    return Table(title="HADIS's catalog, 16 workers, SLO 60 s, over-provisioning 1.05", columns=columns, rows=rows)
