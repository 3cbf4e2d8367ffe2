"""OctoAI: dispatch of jobs, growth of a fleet, and the cost of cold starts in a burst."""

from collections.abc import Mapping

from replay.bench.papers.answer import Answer
from replay.bench.papers.answers import Asking, Mean, Table, number, over_seeds, percent
from replay.bench.papers.experiments.experiment import counted, in_a_word, settle, tables_of
from replay.bench.papers.experiments.octoai import (
    BURST,
    CHANCE,
    COLD,
    DISPATCHES,
    EXPERIMENTS,
    FLEETS,
    IMAGE_S,
    LEAST,
    LOADS,
    POOL,
    POOLED,
    PULL,
    ROBIN,
    SCALED_SLO_S,
    WORKERS,
    bases,
    burst_cells,
    dispatch_cells,
)
from replay.bench.papers.runs.names import DIFFSERVE

Rows = Mapping[tuple[str, str], Mean]


def ask(asking: Asking) -> Answer:
    """One model at two loads and a cascade under four ways of dispatch, and a burst on fleets that may grow."""
    outcomes = settle(EXPERIMENTS, asking)
    fleets = over_seeds(asking.run, burst_cells(asking.scale.is_quick), asking.scale.few)
    found = over_seeds(asking.run, dispatch_cells(asking.scale.is_quick), asking.scale.few)
    rows = {(what, how): found[f"{what}/{how}"] for what in bases() for how in DISPATCHES}
    _, busy, cascade = bases()
    p99 = {how: rows[busy, how].of("p99_s") for how in DISPATCHES}
    lost = {how: rows[cascade, how].violations for how in DISPATCHES}
    return Answer(
        name=__name__.rpartition(".")[2],
        title="OctoAI: push against pull, scaling, cold starts",
        verdict=f"{in_a_word(outcomes)}: {counted(outcomes)}. At {LOADS[1]:.0%} load pulling has a p99 of "
        f"{p99[PULL]:.1f} s where a random push has {p99[CHANCE]:.1f} s and a push to the least work "
        f"{p99[LEAST]:.1f} s; in the cascade pulling violates {percent(lost[PULL], 2)}, least work "
        f"{percent(lost[LEAST], 2)}, round robin {percent(lost[ROBIN], 2)}, random {percent(lost[CHANCE], 2)}. "
        f"In a burst of eight times the load "
        f"{percent(fleets[POOLED].violations)} are late with a warm pool, {percent(fleets[COLD].violations)} without.",
        tables=(*tables_of(outcomes), _table(rows), _fleets_table(fleets)),
        numbers={f"p99_s_{how}": round(value, 3) for how, value in p99.items()}
        | {f"violations_{how}": round(value, 5) for how, value in lost.items()}
        | {f"violations_in_burst_{name}": round(mean.violations, 5) for name, mean in fleets.items()},
        facts={
            "workers": str(WORKERS),
            "picture": f"{IMAGE_S:g}",
            "seeds": str(asking.scale.few),
            "slo": f"{SCALED_SLO_S:g}",
            "pool": str(POOL),
            "starts": " and ".join(f"{each.start_s:g}" for each in FLEETS.values() if each and not each.warm),
            "most": str(max(each.max_workers for each in FLEETS.values() if each)),
            "cascade": f"{DIFFSERVE} on {bases()[cascade].workers} workers, {bases()[cascade].trace}",
        },
        outcomes=tuple(outcomes),
    )


def _table(rows: Rows) -> Table:
    cells = tuple(
        (what, how, number(mean.of("p50_s")), number(mean.of("p90_s")), number(mean.of("p99_s")),
         percent(mean.violations, 2), percent(mean.of("utilization")))
        for (what, how), mean in rows.items()
    )  # fmt: skip
    columns = ("work", "dispatch", "p50 s", "p90 s", "p99 s", "violations", "busy")
    return Table(title="Latency from arrival to image", columns=columns, rows=cells)


def _fleets_table(fleets: Mapping[str, Mean]) -> Table:
    cells = tuple(
        (name, percent(mean.violations), number(mean.of("p99_s"), 1), number(mean.of("fleet.workers"), 1),
         " ".join(str(target) for target in mean.runs[0].fleet.targets) or "-")
        for name, mean in fleets.items()
    )  # fmt: skip
    columns = ("fleet", "violations", "p99 s", "workers, mean", "workers that should serve, in the first run")
    return Table(title=f"A burst ({BURST})", columns=columns, rows=cells)
