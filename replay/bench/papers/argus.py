"""Does ARGUS hold up under Twitter's load, bursts, a ramp, lost workers and a lost cache?"""

import dataclasses
import itertools
from collections.abc import Mapping

from planner.catalog.entries import run_ms
from replay.bench.papers.answers import Answer, Asking, Mean, Table, number, over_seeds, percent
from replay.bench.papers.cells import REUSE, Cell, Course, catalog_of, setup_of
from replay.bench.papers.claims import VIOLATIONS, Claim, claims_table, counted, in_a_word, judge
from replay.bench.papers.names import ARGUS, HEAVY, JOINT, LIGHT, NIRVANA, PAC, PROTEUS, SOMMELIER
from replay.simulation.setup import Outage

CATALOG, BEST = "argus-a100", 20.9  # and SDXL's PickScore (Fig. 10)
BASE = Cell(catalog=CATALOG, trace="twitter-minutes", policy=ARGUS, slo_s=12.6, workers=8, period_s=60)
CACHED = f"{ARGUS}, reuse"
ONE = (("batch", 1.0),)
SYSTEMS: Mapping[str, Cell] = {
    LIGHT: dataclasses.replace(BASE, policy=LIGHT, parameters=ONE),
    HEAVY: dataclasses.replace(BASE, policy=HEAVY, parameters=ONE),
    NIRVANA: dataclasses.replace(BASE, catalog=CATALOG + REUSE, policy=NIRVANA),
    PROTEUS: dataclasses.replace(BASE, policy=PROTEUS),
    SOMMELIER: dataclasses.replace(BASE, policy=SOMMELIER),
    PAC: dataclasses.replace(BASE, policy=PAC),
    ARGUS: BASE,
    CACHED: dataclasses.replace(BASE, catalog=CATALOG + REUSE),
    JOINT: dataclasses.replace(BASE, policy=JOINT),
}
PAPER = {  # violations, relative quality; Twitter and bursts: 5.2, Fig. 16
    LIGHT: ("5 %, 85 %", "-"), HEAVY: ("25 %, 100 %", "-"), NIRVANA: ("20 %, 94 %", "40 to 50 %, 94 %"),
    PROTEUS: ("25 to 30 %, < 90 %", "high"), SOMMELIER: ("25 to 30 %, < 90 %", "high"),
    CACHED: ("< 5 %, > 90 %", "< 5 %"),
}  # fmt: skip
TRACES = ("twitter-minutes", "bursts")
LOST, LOST_S, AGAIN_S = 4, 1200.0, 3600.0  # workers, and when they go and come back: 40 minutes, as in 5.6
LOADS = (50, 90, 150)  # a minute: half the workers carry it in full, on the fastest level, not at all
RAMP = (40.0, 540.0, 3600.0)  # a minute, and seconds
SMALL = 0.05  # violations on Twitter's trace: 5.2, abstract
WINDOW_S, LATE = 300.0, 0.1  # saturated: this long above this share of violations


def ask(asking: Asking) -> Answer:
    """Nine systems on two traces and a ramp; half of the workers lost, the cache lost, at three loads."""
    cells = _cells(asking)
    on_twitter = {name: cell for name, cell in cells.items() if name.startswith(TRACES[0])}
    runs = over_seeds(asking.run, on_twitter, asking.scale.few)
    runs |= over_seeds(asking.run, {name: cell for name, cell in cells.items() if name not in on_twitter}, 1)
    twitter = {name: runs[f"{TRACES[0]}/{name}"] for name in SYSTEMS if f"{TRACES[0]}/{name}" in runs}
    ours, heavy = twitter[ARGUS].violations, twitter[HEAVY].violations
    saturated = _saturated(runs)
    lost = _lost(runs)
    judged = judge(
        [
            Claim("ARGUS violates less than all on SDXL", "25 % (5.2)", twitter[ARGUS], twitter[HEAVY], VIOLATIONS),
            Claim("it violates less than Proteus", "25 to 30 % (5.2)", twitter[ARGUS], twitter[PROTEUS], VIOLATIONS),
        ]
    )
    return Answer(
        name=__name__.rpartition(".")[2],
        title="ARGUS: load, bursts, a ramp, lost workers, a lost cache",
        verdict=f"{in_a_word(judged, ours < SMALL)}: {counted(judged)}. "
        f"At our scale, on Twitter's shape, it has {percent(ours)} violations "
        f"(paper: < 5 %) against {percent(heavy)} of all on SDXL (25 %) and {percent(twitter[PROTEUS].violations)} of "
        f"Proteus (25 to 30 %).{_saturates(saturated)}",
        tables=(
            claims_table(judged),
            *(_compared(runs, trace) for trace in TRACES),
            _ramp(runs, saturated),
            *lost,
            _cache(runs),
        ),
        numbers={"twitter_violations": round(ours, 5), "heavy_violations": round(heavy, 4)}
        | {f"saturates_per_minute_{name}": round(rate, 1) for name, rate in saturated.items()},
        facts=_facts(asking),
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
            cells[f"lost/{load}/{name}"] = dataclasses.replace(cell, outages=_outages(cell))
        for name in (HEAVY, ARGUS, CACHED):
            cells[f"cache/{load}/{name}"] = dataclasses.replace(SYSTEMS[name], trace=f"steady-{load}")
    return cells


def _outages(cell: Cell) -> tuple[Outage, ...]:
    lost = setup_of(cell).worker_ids()[:LOST]
    moments = ((LOST_S, False), (AGAIN_S, True))
    return tuple(Outage(at_ms=1000 * at, worker_id=w, is_up=is_up) for at, is_up in moments for w in lost)


def _relative(mean: Mean) -> float:
    return mean.of("quality_in_slo") / BEST


def _compared(runs: Mapping[str, Mean], trace: str) -> Table:
    rows = []
    for name in SYSTEMS:
        if mean := runs.get(f"{trace}/{name}"):
            course = mean.runs[0].course
            served = 60 * sum(course.in_time) / (course.width_s * len(course.in_time))
            told = percent(mean.violations), percent(_relative(mean)), number(served, 0)
            paper = PAPER.get(name, ("-", "-"))[TRACES.index(trace)]
            rows.append((name, *told, str(round(mean.of("switches"))), paper))
    columns = ("system", "violations", "relative quality", "in time /min", "moves", "paper: violations, quality")
    what = "Twitter's shape, 40 to 200 a minute" if trace == TRACES[0] else "Bursts of 10 minutes, 40 and 200 a minute"
    return Table(title=f"{what} (5.2, Fig. 16)", columns=columns, rows=tuple(rows))


def _saturated(runs: Mapping[str, Mean]) -> dict[str, float]:
    """system -> demand a minute from which on violations stay; those that never saturate are left out."""
    low, high, seconds = RAMP
    found = {}
    for name in SYSTEMS:
        mean = runs.get(f"ramp/{name}")
        at_s = _late_from(mean.runs[0].course) if mean else None
        if at_s is not None:
            found[name] = low + (high - low) * at_s / seconds
    return found


def _late_from(course: Course) -> float | None:
    """The first second of a window with too many violations; None: there is none."""
    width = max(1, round(WINDOW_S / course.width_s))
    for first in range(len(course.arrived) - width + 1):
        if 1 - _in_time(course, first, first + width) > LATE:
            return first * course.width_s
    return None


def _in_time(course: Course, first: int, last: int) -> float:
    arrived = sum(course.arrived[first:last])
    return sum(course.in_time[first:last]) / arrived if arrived else 1.0


def _ramp(runs: Mapping[str, Mean], saturated: Mapping[str, float]) -> Table:
    rows = tuple(
        (name, _rate(saturated, name), "about 560" if name in (ARGUS, CACHED) else "-")
        for name in SYSTEMS
        if f"ramp/{name}" in runs
    )
    title = "Ramp from 40 to 540 a minute (5.3, Fig. 17): demand from which on a tenth is late"
    return Table(title=title, columns=("system", "saturates at /min", "paper"), rows=rows)


def _saturates(saturated: Mapping[str, float]) -> str:
    if ARGUS not in saturated:
        return ""
    return f" It saturates at {saturated[ARGUS]:.0f} a minute (paper: about 560)."


def _rate(saturated: Mapping[str, float], name: str) -> str:
    return f"{saturated[name]:.0f}" if name in saturated else "not reached"


def _lost(runs: Mapping[str, Mean]) -> tuple[Table, ...]:
    rows = []
    for name, mean in runs.items():
        kind, _, rest = name.partition("/")
        if kind == "lost":
            load, _, system = rest.partition("/")
            run = mean.runs[0]
            told = (percent(1 - share) for share in _parts(run.course))
            noticed = next((at for at, workers in run.planned if at > LOST_S and workers <= BASE.workers - LOST), None)
            rows.append((f"{load}/min", system, *told, "-" if noticed is None else f"{noticed - LOST_S:.1f} s"))
    columns = ("load", "system", "violations before", "with 4 of 8", "after", "plan without them after")
    title = "4 of 8 workers lost for 40 minutes (5.6, Fig. 20a: noticed within a minute, violations 3 to 5 times)"
    return (Table(title=title, columns=columns, rows=tuple(rows)),)


def _parts(course: Course) -> list[float]:
    """Shares in time before, while and after workers are lost."""
    ends = [0, *(round(at / course.width_s) for at in (LOST_S, AGAIN_S)), len(course.arrived)]
    return [_in_time(course, first, last) for first, last in itertools.pairwise(ends)]


def _cache(runs: Mapping[str, Mean]) -> Table:
    rows = []
    for load in LOADS:
        means = [runs.get(f"cache/{load}/{name}") for name in (CACHED, HEAVY, ARGUS)]
        if all(means):
            rows.append((f"{load}/min", *(f"{percent(m.violations)}, {percent(_relative(m), 0)}" for m in means if m)))
    columns = ("violations, relative quality", "cache there", "gone, no switch (K = 0)", "gone, switched to models")
    title = 'The cache lost, state by state (4.6, Fig. 20b: without the switch performance is "severely hit")'
    return Table(title=title, columns=columns, rows=tuple(rows))
