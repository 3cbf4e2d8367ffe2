"""MLoRA: components placed by demand against LRU tiers and jobs in turn, on requests of a production service."""

from collections.abc import Mapping
from typing import Final

from replay.bench.papers.answer import Answer
from replay.bench.papers.answers import Asking, Mean, Table, number, over_seeds, percent
from replay.bench.papers.experiments.experiment import counted, in_a_word, settle, tables_of
from replay.bench.papers.experiments.mlora import (
    BASELINE,
    COME_S,
    EXPERIMENTS,
    NEWCOMERS,
    OURS,
    SATURATED,
    SPEED,
    WORKERS,
    less,
    newcomer_cells,
    requests_cells,
    saturated_cells,
    side_rows,
    sparse_cells,
)
from replay.bench.papers.runs.arrivals import COMPONENTS_RPS, CONTROL_SHARE, STRETCH
from replay.bench.papers.runs.names import IN_TURN
from replay.bench.papers.runs.names import MLORA as MLORA_POLICY

ONE_ROUTER: Final = "with new workers, one router"
RUNS = {
    f"requests, x{SPEED}": requests_cells,
    f"requests, x{SATURATED}": saturated_cells,
    f"sparse combinations, x{SPEED}": sparse_cells,
    ONE_ROUTER: newcomer_cells,
}
COLUMNS = {
    "mean s": ("mean_s", 1),
    "p99 s": ("p99_s", 0),
    "queue s": ("moved.queue_s", 1),
    "loads s": ("moved.load_s", 1),
    "update s: base": ("moved.base_s", 1),
    "adapter": ("moved.adapter_s", 1),
    "control": ("moved.control_s", 1),
    "all of a call": ("moved.pipeline_s", 1),
    "network GB": ("moved.network_gb", 0),
    "disk GB": ("moved.disk_gb", 0),
    "answers of a worker in an hour": ("moved.per_worker_h", 1),
    "new workers' wait s": ("moved.newcomer_s", 1),
}


def ask(asking: Asking) -> Answer:
    """Both sides on stretches of GenTD26, as recorded but faster, and on made requests of sparse combinations."""
    outcomes = settle(EXPERIMENTS, asking)
    found = {
        what: over_seeds(asking.run, cells(asking.scale.is_quick), asking.scale.few) for what, cells in RUNS.items()
    }
    runs = found[f"requests, x{SPEED}"]
    network = {side: number(found[ONE_ROUTER][side].of(FIGURES["network"]), 0) for side in (OURS, BASELINE)}
    shares = {name: less(runs[OURS].of(figure), runs[BASELINE].of(figure)) for name, figure in FIGURES.items()}
    return Answer(
        name=__name__.rpartition(".")[2],
        title="MLoRA: components placed by demand against LRU and round robin",
        verdict=f"{in_a_word(outcomes)}: {counted(outcomes)}. On the same requests {MLORA_POLICY} moves "
        f"{percent(shares['network'])} less over the network than {IN_TURN} (paper: 89.5 %), its mean latency is "
        f"{percent(shares['mean'])} less (49.8 %), its p99 {percent(shares['p99'])} (12.8 %), an update of a base "
        f"{percent(shares['base'])} (68.2 %). With one router for both it is {network[OURS]} GB over the network, and "
        f"{network[BASELINE]} by LRU.",
        tables=(*tables_of(outcomes), _table(found)),
        numbers={f"less_{name}": round(share, 5) for name, share in shares.items()},
        facts={
            "workers": str(WORKERS),
            "requests": f"{STRETCH:,}",
            "rate": f"{COMPONENTS_RPS:g}",
            "speeds": f"{SPEED} and {SATURATED}",
            "controls": percent(CONTROL_SHARE, 0),
            "newcomers": str(NEWCOMERS),
            "come": f"{COME_S / 60:g}",
            "seeds": str(asking.scale.few),
        },
        outcomes=tuple(outcomes),
    )


FIGURES = {"network": "moved.network_gb", "mean": "mean_s", "p99": "p99_s", "base": "moved.base_s"}


def _table(found: Mapping[str, Mapping[str, Mean]]) -> Table:
    rows = tuple(
        (what, policy, *(number(mean.of(figure), digits) for figure, digits in COLUMNS.values()))
        for what, runs in found.items()
        for policy, mean in side_rows(runs)
    )
    return Table(title="Means of both sides", columns=("runs", "policy", *COLUMNS), rows=rows)
