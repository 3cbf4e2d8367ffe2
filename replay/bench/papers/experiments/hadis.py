"""HADIS's experiments. Sections and figures are the paper's."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from replay.bench.papers.answers import less, percent
from replay.bench.papers.claims import FID, VIOLATIONS, Claim
from replay.bench.papers.experiments.experiment import Check, Experiment, Fact, Runs, Suspect, of_size
from replay.bench.papers.experiments.suspects import FREE_LOADS, RANDOM_PUSH, TREND, changed
from replay.bench.papers.runs.cells import PAIR, Cell, Course, catalog_of, with_parameters
from replay.bench.papers.runs.names import DIFFSERVE, HADIS, HEAVY, LIGHT, PROTEUS

PAPER: Final = "HADIS"
BASE: Final = Cell(catalog="hadis-l40s", trace="azure-1to8", policy=HADIS, slo_s=60)
ONE: Final = (("batch", 1.0),)
SLOS: Final = (15, 30, 60, 105)  # .25 to 1.75 of 60 s: 4.6, Fig. 9
SIGNALS: Final = {"both": 0, "router alone": 1, "discriminator alone": 2, "random": 3}  # 4.4, Fig. 7
CACHES: Final = {"solved each time": 0, "Cache-D": 1, "Cache-D+Q": 2}  # 4.5, Fig. 8
PHASES: Final = ("easy", "hard", "easy", "hard")
NEAR_S: Final = 120.0
PAIRS: Final = ("sdxl-lightning>sd35-turbo", "sd35-turbo>sd35-medium", "sd35-medium>sd35-large")
LOW_RPS, HIGH_RPS = (
    0.5,
    6.0,
)  # ours: Fig. 3 gives no rates
WITHIN: Final = 0.05  # violations: "SLO violation ratios remain low (1%~5%)" (4.3)
STEPS: Final = 5  # levels of demand of the trace "steps", equally long: Fig. 6 has four, up and down

TIGHT = Suspect("the SLO is too long for a pass through light to matter", "--slo 20", changed(slo_s=20.0))
BURSTY = Suspect(
    "demand shifts too slowly for plans of another range to be stale", "TRACE azure-1to28", changed(trace="azure-1to28")
)
HALF = Suspect(
    "the fleet is fuller than the paper's, whose rates are not known: at half the demand",
    "32 workers",
    changed(workers=32),
)


def compared_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of Fig. 5."""
    traces = ("azure-1to8",) if is_quick else ("azure-1to8", "azure-1to28")
    return {
        f"{trace}/{policy}": dataclasses.replace(
            BASE, trace=trace, policy=policy, parameters=ONE if policy in (LIGHT, HEAVY) else ()
        )
        for trace in traces
        for policy in (LIGHT, HEAVY, PROTEUS, DIFFSERVE, HADIS)
    }


def signal_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of Fig. 7."""
    del is_quick
    return {name: with_parameters(BASE, {"signals": signals}) for name, signals in SIGNALS.items()}


def cache_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of Fig. 8."""
    del is_quick
    return {name: with_parameters(BASE, {"cache": cache}) for name, cache in CACHES.items()}


def slo_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of Fig. 9."""
    return {
        f"{slo}/{policy}": dataclasses.replace(BASE, policy=policy, slo_s=slo)
        for slo in (SLOS[:1] if is_quick else SLOS)
        for policy in (PROTEUS, DIFFSERVE, HADIS)
    }


def phase_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cell of Fig. 10."""
    del is_quick
    return {"phases": dataclasses.replace(BASE, trace="phases")}


def step_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cell of Fig. 6."""
    del is_quick
    return {"steps": dataclasses.replace(BASE, trace="steps")}


def pair_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of Fig. 3: a fixed pair each, served by DiffServe's rule."""
    del is_quick
    own = dataclasses.replace(BASE, policy=DIFFSERVE)
    return {
        f"{rate:g}/{pair}": dataclasses.replace(own, catalog=BASE.catalog + PAIR + pair, trace=f"constant-{rate:g}")
        for rate in (LOW_RPS, HIGH_RPS)
        for pair in PAIRS
    }


def _tradeoffs(_: Runs) -> list[Check]:
    rows = sorted(catalog_of(BASE.catalog).pair_rows, key=lambda row: (row.latency_ms, -row.quality))
    front, best = list[str](), float("-inf")
    for row in rows:
        if row.quality > best:
            best = row.quality
            front.append(f"{row.light}>{row.heavy}")
    regimes = [pair for at, pair in enumerate(front) if not at or front[at - 1] != pair]
    here = ", then ".join(regimes)
    return [
        Fact("the best pair varies with the latency: three regimes, from light to heavy", ", then ".join(PAIRS), here,
             regimes == list(PAIRS)),
    ]  # fmt: skip


def _pairs_by_load(runs: Runs) -> Iterator[Check]:
    best = {}
    for rate in (LOW_RPS, HIGH_RPS):
        own = {pair: runs[f"{rate:g}/{pair}"] for pair in PAIRS}
        within = {pair: mean for pair, mean in own.items() if mean.violations <= WITHIN}
        best[rate] = min(within, key=lambda pair: within[pair].fid_run) if within else "none"
    here = f"{best[LOW_RPS]} at {LOW_RPS:g}/s, {best[HIGH_RPS]} at {HIGH_RPS:g}/s"
    yield Fact("the pair of the lowest FID at few violations gets lighter with load", "it does (2.3, Fig. 3)", here,
               "none" not in best.values() and PAIRS.index(best[HIGH_RPS]) < PAIRS.index(best[LOW_RPS]))  # fmt: skip
    late = [runs[f"{LOW_RPS:g}/{pair}"].violations for pair in PAIRS]
    here = ", ".join(percent(share) for share in late)
    yield Fact("at low load all pairs keep violations small", "small (2.3)", here, max(late) <= WITHIN)
    lightest, slowest = runs[f"{HIGH_RPS:g}/{PAIRS[0]}"], runs[f"{HIGH_RPS:g}/{PAIRS[-1]}"]
    said = "large, and within the SLO (2.3)"
    yield Claim("at high load the lightest pair violates less than the slowest", said, lightest, slowest, VIOLATIONS)


def _real_traces(runs: Runs) -> Iterator[Check]:
    ours = {name.partition("/")[0]: mean for name, mean in runs.items() if name.endswith(f"/{HADIS}")}
    for trace, mean in ours.items():
        cascade, proteus, heavy, light = (runs[f"{trace}/{policy}"] for policy in (DIFFSERVE, PROTEUS, HEAVY, LIGHT))
        said = "7 to 23 % (4.2)"
        yield Claim(f"{trace}: its FID is below that of DiffServe's fixed pair", said, mean, cascade, FID)
        yield Claim(f"{trace}: its FID is below Proteus's", said, mean, proteus, FID)
        for name, other, low, high in ((DIFFSERVE, cascade, 0.07, 0.23), (LIGHT, light, 0.07, 0.23)):
            gain = less(mean.fid_run, other.fid_run)
            yield Fact(f"{trace}: below {name}'s by as much", said, percent(gain), low / 2 <= gain <= 2 * high)
        yield Fact(f"{trace}: {HEAVY} violates as in the paper", "77 % (4.2)", percent(heavy.violations),
                   of_size(heavy.violations, 0.77))  # fmt: skip
        said = "4.2 times fewer (4.2)"
        yield Claim(f"{trace}: it violates less than Proteus", said, mean, proteus, VIOLATIONS)


def answers(course: Course, first: int, last: int) -> Counter[str]:
    """Return the answers by level of the requests that arrived in these intervals."""
    return sum((Counter(counts) for counts in course.levels[first:last]), Counter[str]())


def share(counts: Mapping[str, int], levels: Sequence[str]) -> float:
    """Return the share of answers that are of these levels."""
    return sum(counts.get(level, 0) for level in levels) / max(1, sum(counts.values()))


def slow_levels(catalog: Catalog) -> list[str]:
    """Return the levels that take over ten times as long as the fastest."""
    fastest = run_ms(catalog.cheapest(), 1)
    return [name for name, variant in catalog.variants.items() if run_ms(variant, 1) > 10 * fastest]


def slow_by_phase(course: Course, phases: int) -> list[float]:
    """Return the share of the slow models in each of `phases` equally long phases."""
    part = len(course.levels) // phases
    slow = slow_levels(catalog_of(BASE.catalog))
    return [share(answers(course, part * at, part * (at + 1)), slow) for at in range(phases)]


def rises_at_hard(course: Course) -> list[float]:
    """Return by how much the slow models' share rises in the two minutes after each hard phase begins."""
    slow, quarter = slow_levels(catalog_of(BASE.catalog)), len(course.levels) // len(PHASES)
    near = min(quarter, max(1, round(NEAR_S / course.width_s)))
    return [
        share(answers(course, at * quarter, at * quarter + near), slow)
        - share(answers(course, at * quarter - near, at * quarter), slow)
        for at, name in enumerate(PHASES)
        if name == "hard"
    ]


def _steps(runs: Runs) -> list[Check]:
    mean = runs["steps"]
    by_phase = [slow_by_phase(run.course, STEPS) for run in mean.runs]
    first, peak, last = (sum(each[at] for each in by_phase) / len(by_phase) for at in (0, STEPS // 2, STEPS - 1))
    here = f"{percent(first, 0)}, {percent(peak, 0)}, {percent(last, 0)}"
    late = mean.violations
    return [
        Fact("answers shift to faster models at the peak, and back: slow models' share", "shifts (4.3, Fig. 6)", here,
             peak < min(first, last)),
        Fact("violations stay low", "1 to 5 % (4.3)", percent(late), late <= WITHIN),
    ]  # fmt: skip


def _signals(runs: Runs) -> list[Check]:
    both = runs["both"]
    said = "lowest FID and violations (4.4, Fig. 7)"
    return [
        Claim("with both signals FID is lower than with random ones", said, both, runs["random"], FID),
        Claim("with both FID is lower than with the router alone", said, both, runs["router alone"], FID),
        Claim("with both FID is lower than with the discriminator alone", said, both, runs["discriminator alone"], FID),
        Claim("with both violations are fewer than with the discriminator alone", said, both,
              runs["discriminator alone"], VIOLATIONS),
    ]  # fmt: skip


def _caches(runs: Runs) -> list[Check]:
    solved = runs["solved each time"]
    said = "lower violations, comparable or better FID (4.5, Fig. 8)"
    checks = list[Check]()
    for name in ("Cache-D", "Cache-D+Q"):
        checks.append(Claim(f"solving each time violates less than {name}", said, solved, runs[name], VIOLATIONS))
    for name in ("Cache-D", "Cache-D+Q"):
        ahead = runs[name].fid_run - solved.fid_run
        checks.append(Fact(f"its FID is as low as with {name}", said, f"{ahead:+.2f}", ahead > -0.05))
    return checks


def _slos(runs: Runs) -> Iterator[Check]:
    slos = list(dict.fromkeys(name.partition("/")[0] for name in runs))
    for slo in slos:
        ours = runs[f"{slo}/{HADIS}"]
        for other, figure in ((PROTEUS, "11 %"), (DIFFSERVE, "7 %")):
            said = f"up to {figure} lower (4.6, Fig. 9)"
            yield Claim(f"at {slo} s its FID is below {other}'s", said, ours, runs[f"{slo}/{other}"], FID)
    late = {slo: runs[f"{slo}/{HADIS}"].violations for slo in slos}
    worst = max(late, key=lambda slo: late[slo])
    here = f"{percent(late[worst])} at {worst} s"
    yield Fact("violations are low at every SLO", "low (4.6); here: 5 % at most", here, late[worst] <= WITHIN)


def _phases(runs: Runs) -> list[Check]:
    rises = [rises_at_hard(run.course) for run in runs["phases"].runs]
    means = [sum(each) / len(rises) for each in zip(*rises, strict=True)]
    wholes = [slow_by_phase(run.course, len(PHASES)) for run in runs["phases"].runs]
    whole = [sum(each) / len(wholes) for each in zip(*wholes, strict=True)]
    here = ", ".join(f"{100 * rise:+.0f} points" for rise in means)
    said = "rises at each hard phase (4.7, Fig. 10)"
    return [
        Fact("the slow models' share rises at each hard phase, within two minutes", said, here, min(means) > 0.05),
        Fact("it is higher in each hard phase than in the easy one before", said,
             ", ".join(percent(each, 0) for each in whole), whole[1] > whole[0] and whole[3] > whole[2]),
    ]  # fmt: skip


EXPERIMENTS: Final = (
    Experiment(paper=PAPER, where="Fig. 2", about="pairs by latency, from its own table", checks=_tradeoffs),
    Experiment(paper=PAPER, where="Fig. 3", about="fixed pairs under low and high load", cells=pair_cells,
               checks=lambda runs: list(_pairs_by_load(runs)), suspects=(FREE_LOADS, RANDOM_PUSH)),
    Experiment(paper=PAPER, where="Fig. 5", about="Azure's traces", cells=compared_cells,
               checks=lambda runs: list(_real_traces(runs)), suspects=(RANDOM_PUSH, FREE_LOADS, HALF)),
    Experiment(paper=PAPER, where="Fig. 6", about="demand in steps, up and down", cells=step_cells, checks=_steps,
               suspects=(TREND, FREE_LOADS)),
    Experiment(paper=PAPER, where="Fig. 7", about="router and discriminator, each alone", cells=signal_cells,
               checks=_signals, suspects=(TIGHT, RANDOM_PUSH, HALF)),
    Experiment(paper=PAPER, where="Fig. 8", about="plans from caches", cells=cache_cells, checks=_caches,
               suspects=(BURSTY, FREE_LOADS)),
    Experiment(paper=PAPER, where="Fig. 9", about="SLOs", cells=slo_cells, checks=lambda runs: list(_slos(runs)),
               suspects=(RANDOM_PUSH, FREE_LOADS, HALF)),
    Experiment(paper=PAPER, where="Fig. 10", about="easy and hard phases at constant demand", cells=phase_cells,
               checks=_phases, suspects=(FREE_LOADS, TREND)),
)  # fmt: skip
