"""Does it matter whether work is pushed to workers or pulled by those that are free?"""

import dataclasses
from collections.abc import Mapping

from replay.bench.papers.answers import Answer, Asking, Mean, Table, number, over_seeds, percent
from replay.bench.papers.cells import Cell
from replay.bench.papers.claims import P99, VIOLATIONS, Claim, claims_table, counted, in_a_word, judge
from replay.bench.papers.names import DIFFSERVE, HEAVY

DISPATCHES = ("pull", "least-work", "round-robin", "random")  # the papers' and OctoAI's; "pull" is its answer
PULL, LEAST, ROBIN, CHANCE = DISPATCHES
LOADS = (0.6, 0.9)  # of eight workers that paint one picture in 4.2 s
PICTURE_S, WORKERS = 4.2, 8

Rows = Mapping[tuple[str, str], Mean]


def ask(asking: Asking) -> Answer:
    """One model at two loads, and a cascade on Azure's trace, under four ways of dispatch."""
    bases = _bases()
    cells = {
        f"{what}/{how}": dataclasses.replace(base, dispatch=how) for what, base in bases.items() for how in DISPATCHES
    }
    found = over_seeds(asking.run, cells, 1 if asking.scale.is_quick else asking.scale.few)
    rows = {(what, how): found[f"{what}/{how}"] for what in bases for how in DISPATCHES}
    busy, cascade = list(bases)[1], list(bases)[2]
    p99 = {how: rows[busy, how].of("p99_s") for how in DISPATCHES}
    lost = {how: rows[cascade, how].violations for how in DISPATCHES}
    judged = judge(_claims(rows, busy, cascade))
    return Answer(
        name=__name__.rpartition(".")[2],
        title="OctoAI: push against pull",
        verdict=f"{in_a_word(judged)}: {counted(judged)}. At {LOADS[1]:.0%} load pulling has a p99 of "
        f"{p99[PULL]:.1f} s where a random push has {p99[CHANCE]:.1f} s and a push to the least work "
        f"{p99[LEAST]:.1f} s; in the cascade pulling violates {percent(lost[PULL], 2)}, least work "
        f"{percent(lost[LEAST], 2)}, round robin {percent(lost[ROBIN], 2)}, random {percent(lost[CHANCE], 2)}.",
        tables=(claims_table(judged), _table(rows)),
        numbers={f"p99_s_{how}": round(value, 3) for how, value in p99.items()}
        | {f"violations_{how}": round(value, 5) for how, value in lost.items()},
        facts={
            "workers": str(WORKERS),
            "picture": f"{PICTURE_S:g}",
            "seeds": str(asking.scale.few),
            "cascade": f"{DIFFSERVE} on {bases[cascade].workers} workers, {bases[cascade].trace}",
        },
    )


def _claims(rows: Rows, busy: str, cascade: str) -> list[Claim]:
    said = 'push adds latency, "especially at p-90 and above"'
    return [
        Claim("pulling has a shorter p99 than a random push", said, rows[busy, PULL], rows[busy, CHANCE], P99),
        Claim("pulling has a shorter p99 than round robin", said, rows[busy, PULL], rows[busy, ROBIN], P99),
        Claim("pulling has a shorter p99 than least work", "-", rows[busy, PULL], rows[busy, LEAST], P99),
        Claim("in a cascade pulling violates less than a random push", "-", rows[cascade, PULL],
              rows[cascade, CHANCE], VIOLATIONS),
    ]  # fmt: skip


def _bases() -> dict[str, Cell]:
    one = Cell(catalog="argus-a100", trace="", policy=HEAVY, slo_s=60, workers=WORKERS, parameters=(("batch", 1),))
    rates = {load: load * WORKERS / PICTURE_S for load in LOADS}
    cells = {
        f"one model, {load:.0%} busy": dataclasses.replace(one, trace=f"constant-{rate:.3f}")
        for load, rate in rates.items()
    }
    cascade = Cell(catalog="diffserve-sdturbo", trace="azure-4to32", policy=DIFFSERVE, slo_s=5)
    return cells | {"a cascade, 4 to 32/s": cascade}


def _table(rows: Rows) -> Table:
    told = tuple(
        (what, how, number(mean.of("p50_s")), number(mean.of("p90_s")), number(mean.of("p99_s")),
         percent(mean.violations, 2), percent(mean.of("utilization")))
        for (what, how), mean in rows.items()
    )  # fmt: skip
    columns = ("work", "dispatch", "p50 s", "p90 s", "p99 s", "violations", "busy")
    return Table(title="Latency from arrival to picture", columns=columns, rows=told)
