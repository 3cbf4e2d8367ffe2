"""Does it matter whether work is pushed to workers or pulled by those that are free?"""

from collections.abc import Mapping

from replay.bench.papers.answer import Answer
from replay.bench.papers.answers import Asking, Mean, Table, number, over_seeds, percent
from replay.bench.papers.experiments.experiment import counted, in_a_word, settle, tables_of
from replay.bench.papers.experiments.production import (
    CHANCE,
    DISPATCHES,
    EXPERIMENTS,
    IMAGE_S,
    LEAST,
    LOADS,
    PULL,
    ROBIN,
    WORKERS,
    bases,
    dispatch_cells,
)
from replay.bench.papers.names import DIFFSERVE

Rows = Mapping[tuple[str, str], Mean]


def ask(asking: Asking) -> Answer:
    """One model at two loads, and a cascade on Azure's trace, under four ways of dispatch."""
    outcomes = settle(EXPERIMENTS, asking)
    found = over_seeds(asking.run, dispatch_cells(asking.scale.is_quick), asking.scale.few)
    rows = {(what, how): found[f"{what}/{how}"] for what in bases() for how in DISPATCHES}
    _, busy, cascade = bases()
    p99 = {how: rows[busy, how].of("p99_s") for how in DISPATCHES}
    lost = {how: rows[cascade, how].violations for how in DISPATCHES}
    return Answer(
        name=__name__.rpartition(".")[2],
        title="OctoAI: push against pull",
        verdict=f"{in_a_word(outcomes)}: {counted(outcomes)}. At {LOADS[1]:.0%} load pulling has a p99 of "
        f"{p99[PULL]:.1f} s where a random push has {p99[CHANCE]:.1f} s and a push to the least work "
        f"{p99[LEAST]:.1f} s; in the cascade pulling violates {percent(lost[PULL], 2)}, least work "
        f"{percent(lost[LEAST], 2)}, round robin {percent(lost[ROBIN], 2)}, random {percent(lost[CHANCE], 2)}.",
        tables=(*tables_of(outcomes), _table(rows)),
        numbers={f"p99_s_{how}": round(value, 3) for how, value in p99.items()}
        | {f"violations_{how}": round(value, 5) for how, value in lost.items()},
        facts={
            "workers": str(WORKERS),
            "picture": f"{IMAGE_S:g}",
            "seeds": str(asking.scale.few),
            "cascade": f"{DIFFSERVE} on {bases()[cascade].workers} workers, {bases()[cascade].trace}",
        },
        outcomes=tuple(outcomes),
    )


def _table(rows: Rows) -> Table:
    told = tuple(
        (what, how, number(mean.of("p50_s")), number(mean.of("p90_s")), number(mean.of("p99_s")),
         percent(mean.violations, 2), percent(mean.of("utilization")))
        for (what, how), mean in rows.items()
    )  # fmt: skip
    columns = ("work", "dispatch", "p50 s", "p90 s", "p99 s", "violations", "busy")
    return Table(title="Latency from arrival to picture", columns=columns, rows=told)
