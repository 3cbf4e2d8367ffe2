"""Does HADIS follow demand with its pair, the SLO with its FID, and hard prompts with its heavy share?"""

import dataclasses
import itertools

from replay.bench.papers.answer import Answer
from replay.bench.papers.answers import Asking, Mean, Table, bound_fid, less, number, over_seeds, percent
from replay.bench.papers.experiments.experiment import counted, in_a_word, settle, tables_of
from replay.bench.papers.experiments.hadis import (
    BASE,
    EXPERIMENTS,
    NEAR_S,
    ONE,
    PHASES,
    SLOS,
    answers,
    cache_cells,
    phase_cells,
    rises_at_hard,
    share,
    signal_cells,
    slo_cells,
    slow_levels,
)
from replay.bench.papers.runs.cells import Cell, catalog_of
from replay.bench.papers.runs.names import DIFFSERVE, HADIS, HEAVY, JOINT, LIGHT, PROTEUS

COMPARED = (LIGHT, HEAVY, PROTEUS, DIFFSERVE, HADIS, JOINT)
RATES = (0.5, 1, 2, 4, 6)  # a second
CODE = {0.5: "large, 19.29", 1: "large, 20.16", 2: "medium, 21.20", 4: "medium, 22.93", 6: "medium, 23.85"}
VIOLATIONS = {LIGHT: "0", HEAVY: "77 %", PROTEUS: "7 %", DIFFSERVE: "4.6 %", HADIS: "1.7 %"}  # 4.2 and Fig. 5
RISE = 0.2  # of the heavy share at a hard phase. ours: HADIS 4.7 draws the rise without a figure


def ask(asking: Asking) -> Answer:
    """The paper's experiments; pairs over demand, both Azure traces, four SLOs, ablations, easy and hard phases."""
    few = asking.scale.few
    outcomes = settle(EXPERIMENTS, asking)
    ends = over_seeds(asking.run, _ends(asking), few)
    sides = over_seeds(asking.run, _sides(asking), few)
    phases, rise = _phases(sides["phases"])
    compared, gain = _compared(asking, ends)
    heaviest = [_heavy_of(sides[f"rate/{rate:g}"]) for rate in _rates(asking)]
    falls = all(catalog_of(BASE.catalog).level(a).quality >= catalog_of(BASE.catalog).level(b).quality  # type: ignore[operator]
                for a, b in itertools.pairwise(heaviest))  # fmt: skip
    ahead = less(ends[f"azure-1to8/{HADIS}"].fid_run, ends[f"azure-1to8/{PROTEUS}"].fid_run)
    return Answer(
        name=__name__.rpartition(".")[2],
        title="HADIS: pairs by demand, SLOs, easy and hard phases",
        verdict=f"{in_a_word(outcomes)}: {counted(outcomes)}. The pair gets lighter as demand grows: "
        f"{'yes' if falls else 'no'}; at constant demand the slow models' share rises by {100 * rise:.0f} points "
        f"within {NEAR_S / 60:.0f} minutes of hard prompts (asked: {100 * RISE:.0f}); on azure-1to8 its FID is "
        f"{percent(gain)} below DiffServe's fixed pair's and {percent(ahead)} below Proteus's (paper: 7 to 23 %).",
        tables=(*tables_of(outcomes), _pairs(sides), compared, _slos(sides), phases, _ablations(ends)),
        numbers={"heavy_share_rise": round(rise, 4), "pair_falls": falls, "fid_below_cascade_share": round(gain, 4)},
        facts={
            "catalog": BASE.catalog,
            "workers": str(BASE.workers),
            "slo": f"{BASE.slo_s:g}",
            "period": f"{BASE.period_s:g}",
            "loads": _loads(),
            "seeds": str(few),
        },
        outcomes=tuple(outcomes),
    )


def _loads() -> str:
    times = [variant.load_ms / 1000 for variant in catalog_of(BASE.catalog).variants.values()]
    return f"{min(times):.0f} to {max(times):.0f}"


def _rates(asking: Asking) -> tuple[float, ...]:
    return RATES[1:3] if asking.scale.is_quick else RATES


def _ends(asking: Asking) -> dict[str, Cell]:
    """Azure's traces and the ablations."""
    is_quick = asking.scale.is_quick
    compared = COMPARED[2:5] if is_quick else COMPARED
    cells = {
        f"{trace}/{policy}": dataclasses.replace(
            BASE, trace=trace, policy=policy, parameters=ONE if policy in (LIGHT, HEAVY) else ()
        )
        for trace in (("azure-1to8",) if is_quick else ("azure-1to8", "azure-1to28"))
        for policy in compared
    }
    for kind, of in (("signals", signal_cells), ("cache", cache_cells)):
        cells |= {f"{kind}/{name}": cell for name, cell in of(is_quick).items()}
    return cells


def _sides(asking: Asking) -> dict[str, Cell]:
    """Constant demands, SLOs and phases."""
    is_quick = asking.scale.is_quick
    cells = {
        f"rate/{rate:g}": dataclasses.replace(BASE, trace=f"constant-{rate:g}", slo_s=60) for rate in _rates(asking)
    }
    cells |= {f"slo/{name}": cell for name, cell in slo_cells(is_quick).items()}
    for slo in () if is_quick else SLOS:
        cells[f"slo/{slo}/{JOINT}"] = dataclasses.replace(BASE, policy=JOINT, slo_s=slo)
    return cells | phase_cells(is_quick)


def _pairs(sides: dict[str, Mean]) -> Table:
    rows = []
    for name, mean in sides.items():
        kind, _, rate = name.partition("/")
        if kind == "rate":
            pairs = ", ".join(f"{pair} {percent(share, 0)}" for pair, share in _top_pairs(mean))
            rows.append((rate, pairs, number(mean.fid), percent(mean.violations, 2), CODE.get(float(rate), "-")))
    columns = ("demand /s", "pair (share of time)", "FID", "violations", "its code: heavy model, FID planned")
    title = "Pair by constant demand (4.3; planner/policies/SOURCES.md 5)"
    return Table(title=title, columns=columns, rows=tuple(rows))


def _top_pairs(mean: Mean) -> list[tuple[str, float]]:
    pairs = mean.runs[0].pairs
    return sorted(pairs.items(), key=lambda item: -item[1])[:2]


def _heavy_of(mean: Mean) -> str:
    return _top_pairs(mean)[0][0].rpartition(" > ")[2]


def _compared(asking: Asking, ends: dict[str, Mean]) -> tuple[Table, float]:
    """The table, and by which share HADIS's FID is below that of the fixed pair."""
    rows = []
    for trace in dict.fromkeys(name.partition("/")[0] for name in ends if name.startswith("azure")):
        cell = dataclasses.replace(BASE, trace=trace)
        for policy in COMPARED:
            if mean := ends.get(f"{trace}/{policy}"):
                paper = VIOLATIONS.get(policy, "-")
                rows.append((trace, policy, number(mean.fid), percent(mean.violations, 2), paper,
                             percent(mean.of("utilization"), 0)))  # fmt: skip
        rows.append((trace, "fluid bound", number(bound_fid(asking, cell)), "0", "-", "-"))
    columns = ("trace", "policy", "FID", "violations", "paper's violations", "busy")
    table = Table(title="Azure's traces (4.2, Fig. 5)", columns=columns, rows=tuple(rows))
    return table, less(ends[f"azure-1to8/{HADIS}"].fid_run, ends[f"azure-1to8/{DIFFSERVE}"].fid_run)


def _slos(sides: dict[str, Mean]) -> Table:
    slos = {name.split("/")[1]: None for name in sides if name.startswith("slo/")}
    policies = dict.fromkeys(name.split("/")[2] for name in sides if name.startswith("slo/"))
    rows = tuple(
        (policy, *(f"{number(sides[f'slo/{slo}/{policy}'].fid)} "
        f"({percent(sides[f'slo/{slo}/{policy}'].violations)})" for slo in slos))
        for policy in policies
    )  # fmt: skip
    columns = ("FID (violations)", *(f"SLO {slo} s" for slo in slos))
    return Table(
        title="SLO sweep on azure-1to8 (4.6, Fig. 9: HADIS lowest of the three throughout)", columns=columns, rows=rows
    )


def _ablations(ends: dict[str, Mean]) -> Table:
    rows = tuple(
        (name.partition("/")[2], number(mean.fid), percent(mean.violations, 2), str(round(mean.of("switches"))))
        for name, mean in ends.items()
        if name.startswith(("signals/", "cache/"))
    )
    columns = ("variant", "FID", "violations", "moves")
    title = "Ablations on azure-1to8 (4.4, 4.5: both signals, and solving each time, are best in FID and violations)"
    return Table(title=title, columns=columns, rows=rows)


def _phases(mean: Mean) -> tuple[Table, float]:
    """The table of the first redraw, and by how much the slow models' share rises, over redraws."""
    course, slow = mean.runs[0].course, slow_levels(catalog_of(BASE.catalog))
    quarter = len(course.levels) // len(PHASES)
    near = min(quarter, max(1, round(NEAR_S / course.width_s)))
    rows = []
    for at, name in enumerate(PHASES):
        start = at * quarter
        counts = answers(course, start, start + quarter)
        levels = ", ".join(f"{level} {count}" for level, count in sorted(counts.items()))
        ends = answers(course, start, start + near), answers(course, start + quarter - near, start + quarter)
        rows.append((name, *(percent(share(each, slow)) for each in (counts, *ends)), levels))
    rises = [rise for run in mean.runs for rise in rises_at_hard(run.course)]
    title = "Easy and hard phases, 10 min, 2/s: share of the 50-step models (4.7, Fig. 10: rises at each hard phase)"
    columns = ("phase", "all of it", "first 2 min", "last 2 min", "answers by model")
    return Table(title=title, columns=columns, rows=tuple(rows)), sum(rises) / len(rises)
