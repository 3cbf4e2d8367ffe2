"""Does HADIS follow demand with its pair, the SLO with its FID, and hard prompts with its heavy share?"""

import dataclasses
import itertools
from collections import Counter

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from replay.bench.papers.answers import Answer, Asking, Mean, Table, bound_fid, less, number, over_seeds, percent
from replay.bench.papers.cells import Cell, Course, catalog_of, with_parameters
from replay.bench.papers.claims import FID, Claim, claims_table, counted, in_a_word, judge
from replay.bench.papers.names import DIFFSERVE, HADIS, HEAVY, JOINT, LIGHT, PROTEUS

BASE = Cell(catalog="hadis-l40s", trace="azure-1to8", policy=HADIS, slo_s=60)
COMPARED = (LIGHT, HEAVY, PROTEUS, DIFFSERVE, HADIS, JOINT)
RATES = (0.5, 1, 2, 4, 6)  # a second
CODE = {0.5: "large, 19.29", 1: "large, 20.16", 2: "medium, 21.20", 4: "medium, 22.93", 6: "medium, 23.85"}
VIOLATIONS = {LIGHT: "0", HEAVY: "77 %", PROTEUS: "7 %", DIFFSERVE: "4.6 %", HADIS: "1.7 %"}  # 4.2 and Fig. 5
SLOS = (15, 30, 60, 105)  # .25 to 1.75 of 60 s: 4.6, Fig. 9
SIGNALS = {"both": 0, "router alone": 1, "discriminator alone": 2, "random": 3}  # 4.4, Fig. 7
CACHES = {"solved each time": 0, "Cache-D": 1, "Cache-D+Q": 2}  # 4.5, Fig. 8
PHASES, NEAR_S = ("easy", "hard", "easy", "hard"), 120.0
RISE = 0.2  # of the heavy share at a hard phase. ours: HADIS 4.7 draws the rise without a figure


def ask(asking: Asking) -> Answer:
    """Pairs over demand, both Azure traces, four SLOs, the ablations, and phases of easy and of hard prompts."""
    few = asking.scale.few
    ends = over_seeds(asking.run, _ends(asking), few)
    sides = over_seeds(asking.run, _sides(asking), 1)
    pairs = _pairs(sides)
    phases, rise = _phases(sides["phases"])
    slos, ablations = _slos(sides), _ablations(ends)
    compared, gain = _compared(asking, ends)
    heaviest = [_heavy_of(sides[f"rate/{rate:g}"]) for rate in _rates(asking)]
    falls = all(catalog_of(BASE.catalog).level(a).quality >= catalog_of(BASE.catalog).level(b).quality  # type: ignore[operator]
                for a, b in itertools.pairwise(heaviest))  # fmt: skip
    judged = judge(_claims(ends))
    ahead = less(ends[f"azure-1to8/{HADIS}"].fid_run, ends[f"azure-1to8/{PROTEUS}"].fid_run)
    return Answer(
        name=__name__.rpartition(".")[2],
        title="HADIS: pairs by demand, SLOs, easy and hard phases",
        verdict=f"{in_a_word(judged, falls, rise >= RISE)}: {counted(judged)}. The pair gets lighter as demand grows: "
        f"{'yes' if falls else 'no'}; at constant demand the slow models' share rises by {100 * rise:.0f} points "
        f"within {NEAR_S / 60:.0f} minutes of hard prompts (asked: {100 * RISE:.0f}); on azure-1to8 its FID is "
        f"{percent(gain)} below DiffServe's fixed pair's and {percent(ahead)} below Proteus's (paper: 7 to 23 %).",
        tables=(claims_table(judged), pairs, compared, slos, phases, ablations),
        numbers={"heavy_share_rise": round(rise, 4), "pair_falls": falls, "fid_below_cascade_share": round(gain, 4)},
        facts={
            "catalog": BASE.catalog,
            "workers": str(BASE.workers),
            "slo": f"{BASE.slo_s:g}",
            "period": f"{BASE.period_s:g}",
            "loads": _loads(),
            "seeds": str(few),
        },
    )


def _loads() -> str:
    times = [variant.load_ms / 1000 for variant in catalog_of(BASE.catalog).variants.values()]
    return f"{min(times):.0f} to {max(times):.0f}"


def _claims(ends: dict[str, Mean]) -> list[Claim]:
    ours, cascade, proteus = (ends[f"azure-1to8/{policy}"] for policy in (HADIS, DIFFSERVE, PROTEUS))
    return [
        Claim("HADIS's FID is below that of DiffServe's fixed pair", "7 to 23 % (4.2)", ours, cascade, FID),
        Claim("its FID is below Proteus's", "7 to 23 % (4.2)", ours, proteus, FID),
    ]


def _rates(asking: Asking) -> tuple[float, ...]:
    return RATES[1:3] if asking.scale.is_quick else RATES


def _ends(asking: Asking) -> dict[str, Cell]:
    """What is run with several seeds."""
    compared = COMPARED[2:5] if asking.scale.is_quick else COMPARED
    traces = ("azure-1to8",) if asking.scale.is_quick else ("azure-1to8", "azure-1to28")
    one = (("batch", 1.0),)
    cells = {
        f"{trace}/{policy}": dataclasses.replace(
            BASE, trace=trace, policy=policy, parameters=one if policy in (LIGHT, HEAVY) else ()
        )
        for trace in traces
        for policy in compared
    }
    for name, signals in SIGNALS.items():
        cells[f"signals/{name}"] = with_parameters(BASE, {"signals": signals})
    for name, cache in CACHES.items():
        cells[f"cache/{name}"] = with_parameters(BASE, {"cache": cache})
    return cells


def _sides(asking: Asking) -> dict[str, Cell]:
    """What is run once."""
    cells = {
        f"rate/{rate:g}": dataclasses.replace(BASE, trace=f"constant-{rate:g}", slo_s=60) for rate in _rates(asking)
    }
    for slo in SLOS[:2] if asking.scale.is_quick else SLOS:
        for policy in (PROTEUS, DIFFSERVE, HADIS) if asking.scale.is_quick else (PROTEUS, DIFFSERVE, HADIS, JOINT):
            cells[f"slo/{slo}/{policy}"] = dataclasses.replace(BASE, policy=policy, slo_s=slo)
    return cells | {"phases": dataclasses.replace(BASE, trace="phases")}


def _pairs(sides: dict[str, Mean]) -> Table:
    rows = []
    for name, mean in sides.items():
        kind, _, rate = name.partition("/")
        if kind == "rate":
            told = ", ".join(f"{pair} {percent(share, 0)}" for pair, share in _most(mean))
            rows.append((rate, told, number(mean.fid), percent(mean.violations, 2), CODE.get(float(rate), "-")))
    columns = ("demand /s", "pair (share of time)", "FID", "violations", "its code: heavy model, FID planned")
    title = "Pair by constant demand (4.3; planner/policies/SOURCES.md 5)"
    return Table(title=title, columns=columns, rows=tuple(rows))


def _most(mean: Mean) -> list[tuple[str, float]]:
    pairs = mean.runs[0].pairs
    return sorted(pairs.items(), key=lambda item: -item[1])[:2]


def _heavy_of(mean: Mean) -> str:
    return _most(mean)[0][0].rpartition(" > ")[2]


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
    told = {name.split("/")[1:][0]: None for name in sides if name.startswith("slo/")}
    policies = dict.fromkeys(name.split("/")[2] for name in sides if name.startswith("slo/"))
    rows = tuple(
        (policy, *(f"{number(sides[f'slo/{slo}/{policy}'].fid)} "
        f"({percent(sides[f'slo/{slo}/{policy}'].violations)})" for slo in told))
        for policy in policies
    )  # fmt: skip
    columns = ("FID (violations)", *(f"SLO {slo} s" for slo in told))
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
    """The table, and by how much the slow models' share rises in the minutes after a hard phase begins."""
    course, slow = mean.runs[0].course, _slow(catalog_of(BASE.catalog))
    quarter = len(course.levels) // len(PHASES)
    near = min(quarter, max(1, round(NEAR_S / course.width_s)))
    starts = [at * quarter for at in range(len(PHASES))]
    rows = []
    for start, name in zip(starts, PHASES, strict=True):
        counts = _answers(course, start, start + quarter)
        told = ", ".join(f"{level} {count}" for level, count in sorted(counts.items()))
        ends = _answers(course, start, start + near), _answers(course, start + quarter - near, start + quarter)
        rows.append((name, *(percent(_share(each, slow)) for each in (counts, *ends)), told))
    rises = [
        _share(_answers(course, start, start + near), slow) - _share(_answers(course, start - near, start), slow)
        for start, name in zip(starts, PHASES, strict=True)
        if name == "hard"
    ]
    title = "Easy and hard phases, 10 min, 2/s: share of the 50-step models (4.7, Fig. 10: rises at each hard phase)"
    columns = ("phase", "all of it", "first 2 min", "last 2 min", "answers by model")
    return Table(title=title, columns=columns, rows=tuple(rows)), sum(rises) / len(rises)


def _slow(catalog: Catalog) -> list[str]:
    """The levels that take over ten times as long as the fastest."""
    fastest = run_ms(catalog.cheapest(), 1)
    return [name for name, variant in catalog.variants.items() if run_ms(variant, 1) > 10 * fastest]


def _answers(course: Course, first: int, last: int) -> Counter[str]:
    """By level, of the requests that arrived in these intervals."""
    return sum((Counter(counts) for counts in course.levels[first:last]), Counter[str]())


def _share(counts: Counter[str], slow: list[str]) -> float:
    return sum(counts[level] for level in slow) / max(1, counts.total())
