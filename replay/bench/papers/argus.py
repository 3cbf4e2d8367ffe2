"""Does ARGUS hold up under Twitter's load, bursts, a ramp, lost workers and a lost cache?"""

import dataclasses
from collections.abc import Mapping

from planner.catalog.entries import run_ms
from replay.bench.papers.affinities import sweep
from replay.bench.papers.answer import Answer
from replay.bench.papers.answers import Asking, Mean, Table, number, over_seeds, percent
from replay.bench.papers.experiments import argus as paper
from replay.bench.papers.experiments.argus import (
    BASE,
    CACHED,
    CATALOG,
    EXPERIMENTS,
    LOADS,
    LOST,
    LOST_S,
    TRACES,
    late_parts,
    lost_workers,
    relative,
    saturated,
)
from replay.bench.papers.experiments.experiment import counted, in_a_word, settle, tables_of
from replay.bench.papers.runs.cells import Cell, catalog_of
from replay.bench.papers.runs.names import ARGUS, HEAVY, JOINT, LIGHT, NIRVANA, PROTEUS, SOMMELIER

SYSTEMS: Mapping[str, Cell] = {**paper.SYSTEMS, JOINT: dataclasses.replace(BASE, policy=JOINT)}
PAPER = {  # violations, relative quality; Twitter and bursts: 5.2, Fig. 16
    LIGHT: ("5 %, 85 %", "-"), HEAVY: ("25 %, 100 %", "-"), NIRVANA: ("20 %, 94 %", "40 to 50 %, 94 %"),
    PROTEUS: ("25 to 30 %, < 90 %", "high"), SOMMELIER: ("25 to 30 %, < 90 %", "high"),
    CACHED: ("< 5 %, > 90 %", "< 5 %"),
}  # fmt: skip


def ask(asking: Asking) -> Answer:
    """The paper's experiments; all systems on two traces and a ramp; workers lost, the cache lost, at three loads."""
    outcomes = settle(EXPERIMENTS, asking)
    swept = sweep(asking)
    runs = over_seeds(asking.run, _cells(asking), asking.scale.few)
    twitter = {name: runs[f"{TRACES[0]}/{name}"] for name in SYSTEMS if f"{TRACES[0]}/{name}" in runs}
    ours, heavy = twitter[CACHED].violations, twitter[HEAVY].violations
    at = saturated({name.partition("/")[2]: mean for name, mean in runs.items() if name.startswith("ramp/")})
    return Answer(
        name=__name__.rpartition(".")[2],
        title="ARGUS: load, bursts, a ramp, lost workers, a lost cache",
        verdict=f"{in_a_word(outcomes)}: {counted(outcomes)}. "
        f"At our scale, on Twitter's shape, it has {percent(ours)} violations with reuse and "
        f"{percent(twitter[ARGUS].violations)} with models alone (paper: < 5 %) against {percent(heavy)} of all on "
        f"SDXL (25 %) and {percent(twitter[PROTEUS].violations)} of Proteus (25 to 30 %).{_saturates(at)} "
        f"Over a sweep, {swept.words()}.",
        tables=(
            *tables_of(outcomes),
            swept.table,
            *(_compared(runs, trace) for trace in TRACES),
            _ramp(runs, at),
            *_lost(runs),
            _cache(runs),
        ),
        numbers={"twitter_violations": round(ours, 5), "heavy_violations": round(heavy, 4)}
        | {f"saturates_per_minute_{name}": round(rate, 1) for name, rate in at.items()},
        facts=_facts(asking),
        outcomes=tuple(outcomes),
    )


def _facts(asking: Asking) -> dict[str, str]:
    variants = catalog_of(CATALOG).variants.values()
    loads_s = [variant.load_ms / 1000 for variant in variants]
    slowest_ms, fastest_ms = (pick(run_ms(variant, 1) for variant in variants) for pick in (max, min))
    carried = [BASE.workers * 60_000 / ms for ms in (slowest_ms, fastest_ms)]
    return {
        "catalog": CATALOG,
        "workers": str(BASE.workers),
        "slo": f"{BASE.slo_s:g}",
        "period": f"{BASE.period_s:g}",
        "loads": f"{min(loads_s):.1f} to {max(loads_s):.1f}",
        "carried": f"{carried[0]:.0f} a minute on the slowest level and {carried[1]:.0f} on the fastest",
        "seeds": str(asking.scale.few),
    }


def _cells(asking: Asking) -> dict[str, Cell]:
    names = (HEAVY, PROTEUS, ARGUS, CACHED) if asking.scale.is_quick else tuple(SYSTEMS)
    cells = {f"{trace}/{n}": dataclasses.replace(SYSTEMS[n], trace=trace) for trace in (*TRACES, "ramp") for n in names}
    for load in LOADS[:1] if asking.scale.is_quick else LOADS:
        for name in (ARGUS, CACHED) if asking.scale.is_quick else (PROTEUS, ARGUS, CACHED, JOINT):
            cell = dataclasses.replace(SYSTEMS[name], trace=f"steady-{load}")
            cells[f"lost/{load}/{name}"] = lost_workers(cell)
        for name in (HEAVY, ARGUS, CACHED):
            cells[f"cache/{load}/{name}"] = dataclasses.replace(SYSTEMS[name], trace=f"steady-{load}")
    return cells


def _compared(runs: Mapping[str, Mean], trace: str) -> Table:
    rows = []
    for name in SYSTEMS:
        if mean := runs.get(f"{trace}/{name}"):
            course = mean.runs[0].course
            served = 60 * sum(course.in_time) / (course.width_s * len(course.in_time))
            figures = percent(mean.violations), percent(relative(mean)), number(served, 0)
            paper = PAPER.get(name, ("-", "-"))[TRACES.index(trace)]
            rows.append((name, *figures, str(round(mean.of("switches"))), paper))
    columns = ("system", "violations", "relative quality", "in time /min", "moves", "paper: violations, quality")
    what = "Twitter's shape, 40 to 200 a minute" if trace == TRACES[0] else "Bursts of 10 minutes, 40 and 200 a minute"
    return Table(title=f"{what} (5.2, Fig. 16)", columns=columns, rows=tuple(rows))


def _ramp(runs: Mapping[str, Mean], at: Mapping[str, float]) -> Table:
    rows = tuple(
        (name, _rate(at, name), "about 560" if name in (ARGUS, CACHED) else "-")
        for name in SYSTEMS
        if f"ramp/{name}" in runs
    )
    title = "Ramp from 40 to 540 a minute (5.3, Fig. 17): demand from which on a tenth is late"
    return Table(title=title, columns=("system", "saturates at /min", "paper"), rows=rows)


def _saturates(at: Mapping[str, float]) -> str:
    if CACHED not in at:
        return ""
    return f" With reuse it saturates at {at[CACHED]:.0f} a minute (paper: about 560)."


def _rate(at: Mapping[str, float], name: str) -> str:
    return f"{at[name]:.0f}" if name in at else "not reached"


def _lost(runs: Mapping[str, Mean]) -> tuple[Table, ...]:
    rows = []
    for name, mean in runs.items():
        kind, _, rest = name.partition("/")
        if kind == "lost":
            load, _, system = rest.partition("/")
            run = mean.runs[0]
            late = (percent(share) for share in late_parts(run.course))
            noticed = next((at for at, workers in run.planned if at > LOST_S and workers <= BASE.workers - LOST), None)
            rows.append((f"{load}/min", system, *late, "-" if noticed is None else f"{noticed - LOST_S:.1f} s"))
    columns = ("load", "system", "violations before", "with 4 of 8", "after", "plan without them after")
    title = "4 of 8 workers lost for 40 minutes (5.6, Fig. 20a: noticed within a minute, violations 3 to 5 times)"
    return (Table(title=title, columns=columns, rows=tuple(rows)),)


def _cache(runs: Mapping[str, Mean]) -> Table:
    rows = []
    for load in LOADS:
        means = [runs.get(f"cache/{load}/{name}") for name in (CACHED, HEAVY, ARGUS)]
        if all(means):
            rows.append((f"{load}/min", *(f"{percent(m.violations)}, {percent(relative(m), 0)}" for m in means if m)))
    columns = ("violations, relative quality", "cache there", "gone, no switch (K = 0)", "gone, switched to models")
    title = 'The cache lost, state by state (4.6, Fig. 20b: without the switch performance is "severely hit")'
    return Table(title=title, columns=columns, rows=tuple(rows))
