"""OctoAI's experiments: pull against push, a fleet that grows and shrinks, and what cold starts cost.

Source: "Stable Diffusion at scale" (2023), a post by its operators with few figures.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

from replay.bench.papers.claims import P99, VIOLATIONS, Claim
from replay.bench.papers.experiments.experiment import Check, Experiment, Fact, Runs, Suspect
from replay.bench.papers.experiments.suspects import FREE_LOADS, changed
from replay.bench.papers.runs.cells import Cell
from replay.bench.papers.runs.names import DIFFSERVE, HEAVY
from replay.bench.papers.runs.names import OCTOAI as OCTOAI_POLICY
from replay.bench.papers.runs.scaling import Scaling
from replay.simulation.draws.hop_latencies import RANKS
from replay.simulation.shipped_latencies import shipped_hop_latencies

OCTOAI = "OctoAI"
DISPATCHES: Final = ("pull", "least-work", "round-robin", "random")  # its answer, ours, and what it left
PULL, LEAST, ROBIN, CHANCE = DISPATCHES
LOADS: Final = (0.6, 0.9)  # of eight workers that generate one image in 4.2 s
IMAGE_S, WORKERS = 4.2, 8

UNLIKE = Suspect(
    "all images take the same time here, and OctoAI's differ in steps and size: run times vary by half",
    "simulate --run-cv 0.5",
    changed(run_cv=0.5),
)


def bases() -> dict[str, Cell]:
    """Return what is dispatched: one model at two loads, and a cascade."""
    one = Cell(catalog="argus-a100", trace="", policy=HEAVY, slo_s=60, workers=WORKERS, parameters=(("batch", 1),))
    rates = {load: load * WORKERS / IMAGE_S for load in LOADS}
    cells = {
        f"one model, {load:.0%} busy": dataclasses.replace(one, trace=f"constant-{rate:.3f}")
        for load, rate in rates.items()
    }
    cascade = Cell(catalog="diffserve-sdturbo", trace="azure-4to32", policy=DIFFSERVE, slo_s=5)
    return cells | {"a cascade, 4 to 32 a second": cascade}


def dispatch_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of request routing: each base under four ways of dispatch."""
    del is_quick
    return {
        f"{what}/{how}": dataclasses.replace(base, dispatch=how) for what, base in bases().items() for how in DISPATCHES
    }


def _routing(runs: Runs) -> list[Check]:
    calm, busy, cascade = bases()
    said = 'push adds latency, "especially at p-90 and above"'
    return [
        Claim("pulling has a shorter p99 than a random push", said, runs[f"{busy}/{PULL}"], runs[f"{busy}/{CHANCE}"],
              P99),
        Claim("pulling has a shorter p99 than round robin", said, runs[f"{busy}/{PULL}"], runs[f"{busy}/{ROBIN}"], P99),
        Claim("in a cascade pulling violates less than a random push", said, runs[f"{cascade}/{PULL}"],
              runs[f"{cascade}/{CHANCE}"], VIOLATIONS),
        Claim("in a cascade pulling violates less than round robin", said, runs[f"{cascade}/{PULL}"],
              runs[f"{cascade}/{ROBIN}"], VIOLATIONS),
        _queue(runs[f"{calm}/{PULL}"].of("mean_s"), runs[f"{calm}/{CHANCE}"].of("mean_s")),
    ]  # fmt: skip


def _queue(pulled_s: float, pushed_s: float) -> Fact:
    """Hold the way through the topics to an idle worker against what a push by chance adds by waiting."""
    hops = shipped_hop_latencies()
    hop_s = sum(slots[0][len(RANKS) // 2] for slots in (hops.arrive, hops.fetch)) / 1000
    added_s = pushed_s - pulled_s
    return Fact(
        f"the queue adds a tenth at most of what busy workers add at {LOADS[0]:.0%} load",
        "typically 50 ms, against seconds of inference",
        f"{1000 * hop_s:.0f} ms (medians of a live run), against {added_s:.1f} s",
        hop_s <= added_s / 10,
    )


BURST, IDLE, STEADY = "burst-8x", "silence", f"constant-{LOADS[0] * WORKERS / IMAGE_S:.3f}"
SCALED_SLO_S: Final = 60.0
POOL: Final = 8  # workers ready for a burst: as many as serve
POOLED, COLD, SLOW, AS_IT_IS = "pool", "no pool", "slow starts", "as it is"
FLEETS: Final = {  # the last two starts are those that the post gives: "less than a minute", "5+ minutes"
    POOLED: Scaling(warm=POOL),
    COLD: Scaling(),
    SLOW: Scaling(start_s=300.0),
    AS_IT_IS: None,
}
ROUNDS: Final = 1.0  # changes of the fleet in ten minutes of constant load, at most. Ours


def _fleet(trace: str, scaling: Scaling | None, workers: int = WORKERS) -> Cell:
    return Cell(catalog="argus-a100", trace=trace, policy=OCTOAI_POLICY, slo_s=SCALED_SLO_S, workers=workers,
                scaling=scaling)  # fmt: skip


def burst_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of a burst of eight times the load, under each of FLEETS."""
    del is_quick
    return {name: _fleet(BURST, scaling) for name, scaling in FLEETS.items()}


def scaling_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of scaling: the burst, constant load, and silence between two times of load."""
    return burst_cells(is_quick) | {
        STEADY: _fleet(STEADY, FLEETS[COLD]),
        IDLE: _fleet(IDLE, Scaling(warm=1), workers=2),
    }


def _scaling(runs: Runs) -> list[Check]:
    growth = max(run.fleet.growth for run in runs[COLD].runs)
    changes = max(run.fleet.changes for run in runs[STEADY].runs)
    returns = [0 in run.fleet.targets and run.fleet.targets[-1] > 0 for run in runs[IDLE].runs]
    return [
        Claim("a fleet that grows violates less in a burst than one that stays", '"bursts of traffic", no figure',
              runs[COLD], runs[AS_IT_IS], VIOLATIONS),
        Fact("one decision at most doubles the workers, also in a burst of eight times the load",
             '"at most doubles"', f"{growth:.2f} times", 1 < growth <= 2),
        Fact("constant load changes the fleet once in ten minutes at most", '"consistent signal over several periods"',
             f"{changes:.2f} times", changes <= ROUNDS),
        Fact("in a silence of half an hour the fleet goes to zero, and the next requests bring it back",
             '"both from and to zero"', f"in {sum(returns)} of {len(returns)} runs", all(returns)),
    ]  # fmt: skip


def _cold_starts(runs: Runs) -> list[Check]:
    return [
        Claim("with a warm pool a burst violates less than without", '"some amount of warm capacity on hand"',
              runs[POOLED], runs[COLD], VIOLATIONS),
        Claim("starts of a minute violate less than starts of five", '"5+ minutes", "less than a minute"',
              runs[COLD], runs[SLOW], VIOLATIONS),
    ]  # fmt: skip


def _scaled(change: Callable[[Scaling], Scaling]) -> Callable[[Cell], Cell]:
    """Return the change of a cell's limits of scaling; a fleet that stays as it is stays so."""
    return lambda cell: cell if cell.scaling is None else dataclasses.replace(cell, scaling=change(cell.scaling))


QUICK_PERIODS = Suspect(
    "the fleet is decided on every 10 s, which is slow beside a burst of five minutes",
    "planner.scale.period_s=2",
    _scaled(lambda scaling: scaling._replace(period_s=2.0)),
)


EXPERIMENTS: Final = (
    Experiment(paper=OCTOAI, where="request routing", about="pull against push", cells=dispatch_cells, checks=_routing,
               suspects=(UNLIKE,)),
    Experiment(paper=OCTOAI, where="automatic scaling", about="replicas at most doubled by logical utilisation",
               cells=scaling_cells, checks=_scaling, suspects=(QUICK_PERIODS, FREE_LOADS)),
    Experiment(paper=OCTOAI, where="cold starts", about="a warm pool, and starts of one and of five minutes",
               cells=burst_cells, checks=_cold_starts, suspects=(QUICK_PERIODS, FREE_LOADS)),
)  # fmt: skip
