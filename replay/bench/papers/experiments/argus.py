"""ARGUS's experiments. Sections, figures and tables are the paper's; "reuse" is its default strategy."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from planner.catalog.bands import bounds_of
from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.catalog.quality import levels_of
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from planner.policies import named
from replay.bench.papers.answers import Mean, percent
from replay.bench.papers.claims import MOVES, PICKSCORE, VIOLATIONS, Claim
from replay.bench.papers.experiments.experiment import Check, Experiment, Fact, Runs, Suspect, of_size
from replay.bench.papers.experiments.suspects import BESIDE, FREE_LOADS, RANDOM_PUSH, TREND
from replay.bench.papers.runs.cells import AFFINITY, MISREAD, REUSE, Cell, Course, catalog_of, setup_of, with_parameters
from replay.bench.papers.runs.names import ARGUS, HEAVY, LIGHT, NIRVANA, PAC, PROTEUS, SOMMELIER
from replay.simulation.setup import VECTOR_STORE, Outage

PAPER: Final = "ARGUS"
CATALOG, BEST = "argus-a100", 20.9  # and SDXL's PickScore (Fig. 10)
BASE: Final = Cell(catalog=CATALOG, trace="twitter-minutes", policy=ARGUS, slo_s=12.6, workers=8, period_s=60)
CACHED: Final = f"{ARGUS}, reuse"
ONE: Final = (("batch", 1.0),)
SYSTEMS: Final[Mapping[str, Cell]] = {
    LIGHT: dataclasses.replace(BASE, policy=LIGHT, parameters=ONE),
    HEAVY: dataclasses.replace(BASE, policy=HEAVY, parameters=ONE),
    NIRVANA: dataclasses.replace(BASE, catalog=CATALOG + REUSE, policy=NIRVANA),
    PROTEUS: dataclasses.replace(BASE, policy=PROTEUS),
    SOMMELIER: dataclasses.replace(BASE, policy=SOMMELIER),
    PAC: dataclasses.replace(BASE, policy=PAC),
    ARGUS: BASE,
    CACHED: dataclasses.replace(BASE, catalog=CATALOG + REUSE),
}
TRACES: Final = ("twitter-minutes", "bursts")
LOST, LOST_S, AGAIN_S = 4, 1200.0, 3600.0  # workers, and when they go and come back: 40 minutes, as in 5.6
LOADS: Final = (50, 90, 150)  # a minute: half the workers carry it in full, on the fastest level, not at all
MODERATE, HIGH = LOADS[1:]
RAMP: Final = (40.0, 540.0, 3600.0)  # a minute, and seconds
SATURATES, WINDOW_S, LATE = 560.0, 300.0, 0.1  # a minute (5.3); saturated: this long above this share of violations
PROVISIONED: Final = 15  # workers that carry the 200 a minute of Twitter's peak with SDXL alone
MISREADS: Final = (0.0, 0.25, 0.5, 1.0)  # shares of prompts whose class is wrong
TINY, TINY_WORKERS = "tiny", 4
TINY_RPS: Final = (20.0, 30.0, 60.0, 110.0)  # that share four workers between two levels and more
AFFINITY_RPS: Final = (2.0, 2.5, 3.0)  # that share eight workers so

OTHER_TIMES = ("time.sdxl=1.548", "time.sd15=0.391", "time.small-sd=0.33", "time.tiny-sd=0.275")
"""Times of ARGUS's second table on an A100 (6.5, 1.5 and .6 s) by those of Table 2; of Small, not in it, ours."""


def on_catalog(*suffixes: str) -> Callable[[Cell], Cell]:
    """Return the change that adds suffixes to ARGUS's catalog, before that of reuse."""

    def change(cell: Cell) -> Cell:
        base = cell.catalog.removesuffix(REUSE)
        return dataclasses.replace(cell, catalog=base + "".join(suffixes) + cell.catalog[len(base) :])

    return change


PROMPTS = Suspect(
    "prompts differ in what they lose on a fast level (the fitted affinities), and not by the level alone",
    "replay/bench/papers/affinity.py",
    on_catalog(AFFINITY),
)
TIMES = Suspect(
    "the fleet has the run times of ARGUS's second table, not those of Table 2",
    "bench simulate --truth time.VARIANT=FACTOR, for policies too",
    on_catalog(*(f"+{aspect}" for aspect in OTHER_TIMES)),
)


def compared_cells(trace: str) -> Callable[[bool], dict[str, Cell]]:
    """Return the cells of Fig. 16 on a trace."""

    def cells(is_quick: bool) -> dict[str, Cell]:
        names = (HEAVY, PROTEUS, ARGUS, CACHED) if is_quick else tuple(SYSTEMS)
        return {name: dataclasses.replace(SYSTEMS[name], trace=trace) for name in names}

    return cells


def lost_workers(cell: Cell) -> Cell:
    """Return the cell in which half of the workers are away for 40 minutes."""
    return dataclasses.replace(cell, outages=_outages(setup_of(cell).worker_ids()[:LOST]))


def lost_cache(cell: Cell) -> Cell:
    """Return the cell in which no stored image is found for 40 minutes; new ones can still be handed out."""
    return dataclasses.replace(cell, outages=_outages([VECTOR_STORE]))


def _outages(names: list[str]) -> tuple[Outage, ...]:
    moments = ((LOST_S, False), (AGAIN_S, True))
    return tuple(Outage(at_ms=1000 * at, worker_id=name, is_up=is_up) for at, is_up in moments for name in names)


def lost_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of Fig. 20a."""
    loads = (MODERATE,) if is_quick else (MODERATE, HIGH)
    return {f"{load}": lost_workers(dataclasses.replace(SYSTEMS[CACHED], trace=f"steady-{load}")) for load in loads}


def cut_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of Fig. 20b: with the switch of strategies, and without."""
    loads = (HIGH,) if is_quick else (MODERATE, HIGH)
    own = {f"{load}": lost_cache(dataclasses.replace(SYSTEMS[CACHED], trace=f"steady-{load}")) for load in loads}
    return {
        f"{load}/{name}": with_parameters(cell, {"switch": switch})
        for load, cell in own.items()
        for name, switch in (("switch", 1), ("none", 0))
    }


def ramp_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of Fig. 17."""
    names = (PROTEUS, CACHED) if is_quick else (HEAVY, PROTEUS, ARGUS, CACHED)
    return {name: dataclasses.replace(SYSTEMS[name], trace="ramp") for name in names}


def moved_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of 5.7."""
    del is_quick
    own = {name: SYSTEMS[name] for name in (PROTEUS, PAC, CACHED)}
    return own | {"provisioned": dataclasses.replace(SYSTEMS[HEAVY], workers=PROVISIONED)}


def misread_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of Fig. 19: classes that are wrong for a share of the prompts."""
    del is_quick
    own = dataclasses.replace(BASE, catalog=CATALOG + AFFINITY)
    return {
        f"{share:g}": dataclasses.replace(own, truth=f"{CATALOG}{AFFINITY}{MISREAD}{share:g}") for share in MISREADS
    }


def relative(mean: Mean) -> float:
    """Return quality of answers in time, relative to SDXL's."""
    return mean.of("quality_in_slo") / BEST


def _compared(papers: Mapping[str, str], least: float) -> Callable[[Runs], list[Check]]:
    def checks(runs: Runs) -> list[Check]:
        ours = runs[CACHED]
        made = list[Check]()
        for name, figure in papers.items():
            if name in runs:
                what = f"with reuse it violates less than {name}"
                made.append(Claim(what, figure, ours, runs[name], VIOLATIONS))
        late = ours.violations
        made.append(Fact("it violates little", "< 5 % (5.2)", percent(late), late < 0.05))
        if least:
            good = relative(ours)
            made.append(Fact("its relative quality stays high", "> 90 % (5.2)", percent(good), good > least))
            light = relative(runs[LIGHT]) if LIGHT in runs else float("nan")
            made.append(Fact("that of the fastest model is as published", "85 % (5.2)", percent(light),
                             abs(light - 0.85) < 0.05))  # fmt: skip
        return made

    return checks


def saturated(runs: Mapping[str, Mean]) -> dict[str, float]:
    """Return the demand a minute from which on a tenth is late, for systems that reach it; mean over redraws."""
    low, high, seconds = RAMP
    found = {}
    for name, mean in runs.items():
        moments = [late_from(run.course) for run in mean.runs]
        known = [at_s for at_s in moments if at_s is not None]
        if len(known) == len(moments):
            found[name] = low + (high - low) * sum(known) / len(known) / seconds
    return found


def late_from(course: Course) -> float | None:
    """Return the first second of a window with too many violations, or None."""
    width = max(1, round(WINDOW_S / course.width_s))
    for first in range(len(course.arrived) - width + 1):
        if 1 - in_time(course, first, first + width) > LATE:
            return first * course.width_s
    return None


def in_time(course: Course, first: int, last: int) -> float:
    """Return the share of the requests in these intervals that were answered in time."""
    arrived = sum(course.arrived[first:last])
    return sum(course.in_time[first:last]) / arrived if arrived else 1.0


def late_parts(course: Course) -> list[float]:
    """Return the shares that were late before, while and after workers or stores are lost."""
    ends = [0, *(round(at / course.width_s) for at in (LOST_S, AGAIN_S)), len(course.arrived)]
    return [1 - in_time(course, first, last) for first, last in itertools.pairwise(ends)]


def _parts(mean: Mean) -> list[float]:
    each = [late_parts(run.course) for run in mean.runs]
    return [sum(values) / len(each) for values in zip(*each, strict=True)]


def _ramp(runs: Runs) -> Iterator[Check]:
    at = saturated(runs)
    ours = at.get(CACHED, float("inf"))
    yield Fact("with reuse it saturates where the paper's does", "about 560 a minute (5.3)", f"{ours:.0f} a minute",
               of_size(ours, SATURATES))  # fmt: skip
    for name in (HEAVY, PROTEUS):
        if name in runs:
            other = at.get(name, float("inf"))
            here = f"{ours:.0f} against {other:.0f} a minute"
            yield Fact(f"it saturates later than {name}", "highest throughput (5.3, Fig. 17)", here, ours > other)


def _lost(runs: Runs) -> Iterator[Check]:
    for load, mean in runs.items():
        before, while_lost, after = _parts(mean)
        here = f"{percent(before)} become {percent(while_lost)}"
        times = while_lost / before if before else float("inf")
        yield Fact(f"at {load} a minute violations grow", "3 to 5 times (5.6, Fig. 20a)", here, 1.5 <= times <= 10)
        here = f"{percent(after)} after {percent(before)}"
        yield Fact(f"at {load} a minute they are as few again afterwards", "regained (Fig. 20a)", here,
                   after <= before + 0.03)  # fmt: skip
    moderate = _parts(runs[f"{MODERATE}"])[1]
    yield Fact("at moderate load throughput rarely suffers", "rarely degrades (5.6)", f"{percent(moderate)} late",
               moderate < 0.1)  # fmt: skip


def _cut(runs: Runs) -> Iterator[Check]:
    switch, none = runs[f"{HIGH}/switch"], runs[f"{HIGH}/none"]
    said = "without the switch performance is severely hit (5.6, Fig. 20b)"
    yield Claim(f"at {HIGH} a minute the switch spares violations", said, switch, none, VIOLATIONS)
    before, gone, after = _parts(switch)
    here = f"{percent(before)}, {percent(gone)}, {percent(after)} late before, meanwhile, after"
    yield Fact("performance comes back with the smaller models, and with the cache", "gets back (5.6)", here,
               gone < 0.5 and after <= before + 0.05)  # fmt: skip
    if f"{MODERATE}/switch" in runs:
        less = _parts(runs[f"{MODERATE}/switch"])[1]
        here = f"{percent(gone)} at {HIGH}, {percent(less)} at {MODERATE} a minute"
        yield Fact("violations are higher under the higher load", "even higher (5.6)", here, gone > less)
    better = none.of("quality_in_slo") - switch.of("quality_in_slo")
    yield Fact("without the switch only quality improves", "only quality improves (5.6)", f"{better:+.2f}", better > 0)


def _moved(runs: Runs) -> list[Check]:
    ours, proteus, pac = (runs[name] for name in (CACHED, PROTEUS, PAC))
    said = "27 to 42 % of the requests (5.7)"
    moves = proteus.of("moves_a_request")
    busy, static = ours.of("utilization"), runs["provisioned"].of("utilization")
    here = f"{percent(busy, 0)} against {percent(static, 0)}"
    return [
        Claim("with reuse workers move less than Proteus's", said, ours, proteus, MOVES),
        Claim("with reuse they move less than PAC's", said, ours, pac, MOVES),
        Fact("Proteus moves as often", said, percent(moves), of_size(moves, 0.345)),
        Fact("workers are busier than those provisioned for the peak", "1.5 to 2 times (5.7)", here,
             1.25 <= busy / static <= 2.5),
    ]  # fmt: skip


def _misread(runs: Runs) -> list[Check]:
    right, wrong = runs["0"], runs["1"]
    course = [runs[f"{share:g}"].of("quality_in_slo") for share in MISREADS]
    here, said = ", ".join(f"{quality:.2f}" for quality in course), "20.6 falls to 18.0 (5.5, Fig. 19)"
    return [
        Claim("right classes give better images than wrong ones", said, right, wrong, PICKSCORE),
        Fact("quality falls with every share of wrong classes", said, here, course == sorted(course, reverse=True)),
        Fact("by as much as in the paper", said, f"{course[0] - course[-1]:.2f}", of_size(course[0] - course[-1], 2.6)),
    ]


def class_shares(catalog: Catalog) -> dict[str, float]:
    """Return the share of the prompts that are of each class of the strategy "models", sums to 1."""
    known = catalog.measured
    predicted = known.predicted.get("models", ()) if known else ()
    bounds = bounds_of(catalog)
    if predicted:
        widths = [high - low for low, high in itertools.pairwise(bounds)]
        names = {name for own in predicted for name in own}
        return {
            name: sum(width * own.get(name, 0.0) for width, own in zip(widths, predicted, strict=True))
            for name in names
        }
    ends = [0.0, *(cut.hardness for cut in catalog.class_cuts["models"])]
    return {cut.level: cut.hardness - low for cut, low in zip(catalog.class_cuts["models"], ends, strict=False)}


def quality_of(catalog: Catalog, spread: Mapping[str, Mapping[str, float]]) -> float:
    """Return the mean quality where prompts of each class go to levels by these shares."""
    assert catalog.measured is not None
    table = catalog.measured.classes["models"]
    return sum(
        part * sum(share * table[own][level] for level, share in spread[own].items())
        for own, part in class_shares(catalog).items()
    )


def _affinity_of(name: str) -> Callable[[Runs], list[Check]]:
    def checks(_: Runs) -> list[Check]:
        catalog = catalog_of(name)
        levels = [level.name for level in levels_of(catalog, "models")]
        own = quality_of(catalog, {level: {level: 1.0} for level in class_shares(catalog)})
        blind = dict.fromkeys(levels, 1 / len(levels))
        random = quality_of(catalog, dict.fromkeys(class_shares(catalog), blind))
        drop = 1 - random / own
        here = f"{own:.3f} and {random:.3f} on {name}"
        return [
            Fact("prompts on their own level look better than on a random one", "20.6 and 18.2 (5.5)", here, drop > 0),
            Fact("by as much as in the paper", "11.7 % (5.5)", percent(drop), of_size(drop, 0.117)),
        ]

    return checks


def _plan_spread(catalog: Catalog, policy: str, rps: float) -> dict[str, dict[str, float]]:
    """Return class -> level -> share by the plan of a policy for a known demand on empty queues."""
    count = TINY_WORKERS if catalog.name == TINY else BASE.workers
    workers = tuple(
        WorkerView(worker_id=f"w-{at}", variant="", state="ready", seen_ms=60_000, remaining_ms=0.0)
        for at in range(count)
    )
    shares = class_shares(catalog)
    seen = Observation(
        now_ms=60_000, demand_rps=rps, workers=workers, classes={"models": shares}, slo_ms=1000 * catalog.slo_s
    )
    plan = named(policy)(seen, catalog, {}, {"overprovision": 1.0, "reuse": 0})
    blind = next((dict(route.levels) for route in plan.routes if not route.label), {})
    by_class = {route.label: dict(route.levels) for route in plan.routes if route.label}
    return {name: by_class.get(name, blind) for name in shares}


def _redistributed(name: str) -> Callable[[Runs], list[Check]]:
    def checks(_: Runs) -> list[Check]:
        catalog = catalog_of(name)
        shares = class_shares(catalog)
        ideal = quality_of(catalog, {level: {level: 1.0} for level in shares})
        closed, here = list[float](), list[str]()
        for rps in TINY_RPS if name == TINY else AFFINITY_RPS:
            aligned = _plan_spread(catalog, ARGUS, rps)
            mixed: dict[str, float] = {}
            for own, part in shares.items():
                for level, share in aligned[own].items():
                    mixed[level] = mixed.get(level, 0.0) + part * share
            random = quality_of(catalog, dict.fromkeys(shares, mixed))
            ours = quality_of(catalog, aligned)
            if ideal - random > 1e-9:
                closed.append((ours - random) / (ideal - random))
                here.append(f"{random:.3f} to {ours:.3f} of {ideal:.3f} at {rps:g}/s")
        mean = sum(closed) / len(closed) if closed else 0.0
        said = "17.8 to 19.5 of 20.9, 55 % of the gap (Fig. 10)"
        return [
            Fact("aligned redistribution looks better than a random one", said, "; ".join(here), mean > 0),
            Fact("it closes as much of the gap to the ideal", said, percent(mean), of_size(mean, 0.55)),
        ]

    return checks


def _batching(_: Runs) -> Iterator[Check]:
    gains, last = {}, {}
    for name in ("diffserve-sdturbo", "diffserve-sdxs", "diffserve-sdxlltn"):
        for variant in catalog_of(name).variants.values():
            rates = {batch: batch / run_ms(variant, batch) for batch in sorted(variant.latency_ms)}
            most, before = max(rates), sorted(rates)[-2]
            gains[variant.name] = rates[most] / rates[1]
            last[variant.name] = rates[most] / rates[before] - 1
    slowest = "sdxl"
    said = "speed-ups plateau rapidly (3.2, Fig. 14)"
    yield Fact("batches hardly speed up SDXL", said, f"{gains[slowest]:.2f} times", gains[slowest] < 1.5)
    here = ", ".join(f"{name} {gain:.1f}" for name, gain in gains.items())
    yield Fact("no diffusion model gains more than threefold", said, here, max(gains.values()) < 3)
    here = ", ".join(f"{name} {percent(gain, 0)}" for name, gain in last.items())
    yield Fact("the last doubling of the batch gains less than a tenth", said, here, max(last.values()) < 0.1)


ON_TWITTER: Final = {PROTEUS: "25 to 30 % (5.2)", HEAVY: "25 % (5.2)", NIRVANA: "20 % (5.2)", SOMMELIER: "25 to 30 %"}
ON_BURSTS: Final = {PROTEUS: "high (5.2)", SOMMELIER: "high (5.2)", NIRVANA: "40 to 50 % (5.2)"}

EXPERIMENTS: Final = (
    Experiment(
        paper=PAPER, where="Fig. 9, 5.5", about="own level against a random one, judged on prompts of the tiny family",
        checks=_affinity_of(TINY),
        suspects=(Suspect("the tiny family's levels are nearer to each other than the paper's: its fitted affinities",
                          "replay/bench/papers/affinity.py", checks=_affinity_of(CATALOG + AFFINITY)),),
    ),
    Experiment(
        paper=PAPER, where="Fig. 10", about="aligned against random redistribution, on prompts of the tiny family",
        checks=_redistributed(TINY),
        suspects=(Suspect("the tiny family's classes differ from the paper's: its fitted affinities",
                          "replay/bench/papers/affinity.py", checks=_redistributed(CATALOG + AFFINITY)),),
    ),
    Experiment(paper=PAPER, where="Fig. 14", about="batches, by DiffServe's published run times",
               checks=lambda runs: list(_batching(runs))),
    Experiment(
        paper=PAPER, where="Fig. 16, Twitter", about="systems on Twitter's shape", cells=compared_cells(TRACES[0]),
        checks=_compared(ON_TWITTER, 0.9), suspects=(PROMPTS, RANDOM_PUSH, BESIDE),
    ),
    Experiment(
        paper=PAPER, where="Fig. 16, bursts", about="systems under bursts", cells=compared_cells(TRACES[1]),
        checks=_compared(ON_BURSTS, 0.0), suspects=(TREND, RANDOM_PUSH, BESIDE),
    ),
    Experiment(paper=PAPER, where="Fig. 17", about="a ramp of demand", cells=ramp_cells,
               checks=lambda runs: list(_ramp(runs)), suspects=(TIMES, FREE_LOADS)),
    Experiment(paper=PAPER, where="Fig. 19", about="classes that are wrong, by the fitted affinities",
               cells=misread_cells, checks=_misread, suspects=(FREE_LOADS,)),
    Experiment(paper=PAPER, where="Fig. 20a", about="half of the workers lost", cells=lost_cells,
               checks=lambda runs: list(_lost(runs)), suspects=(TREND, RANDOM_PUSH)),
    Experiment(paper=PAPER, where="Fig. 20b", about="the cache lost, with and without the switch", cells=cut_cells,
               checks=lambda runs: list(_cut(runs)), suspects=(TREND, BESIDE)),
    Experiment(paper=PAPER, where="5.7", about="moves and utilisation", cells=moved_cells, checks=_moved,
               suspects=(BESIDE, TREND)),
)  # fmt: skip
