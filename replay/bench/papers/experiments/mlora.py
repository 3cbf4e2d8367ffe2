"""MLoRA's experiments: components of image models in tiers of memory, at Alibaba (SoCC '25).

Its comparison (7.1) splits 300 GPUs in two equal halves and one stream of requests by chance. Here both sides get the
same requests, on as many workers each, so that runs are pairs. Its baseline is LRU in several tiers and round robin.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Final

from replay.bench.papers.answers import Mean, number, percent
from replay.bench.papers.claims import BUSY, DISK, MEAN, NETWORK, NEWCOMER, P99, PER_WORKER, QUEUE, UPDATES, Claim
from replay.bench.papers.experiments.experiment import Check, Experiment, Fact, Runs, Suspect, Traces, of_size
from replay.bench.papers.experiments.suspects import changed
from replay.bench.papers.runs.arrivals import EVERY_REQUEST, REQUESTS, SPARSE
from replay.bench.papers.runs.cells import Cell
from replay.bench.papers.runs.names import IN_TURN
from replay.bench.papers.runs.names import MLORA as MLORA_POLICY
from replay.bench.papers.runs.tiers import FEW_PARTS, MANY_PARTS, Tiers
from replay.bench.skew import POPULAR_SHARE, RARE, skew_of
from replay.bench.traces.combinations import N_ADAPTERS, N_BASES, N_CONTROLS
from replay.simulation.setup import Outage

MLORA: Final = "MLoRA"
WORKERS: Final = 16
OURS, BASELINE = "placed", "least recent"
POLICIES: Final = {OURS: MLORA_POLICY, BASELINE: IN_TURN}
SPEED, SATURATED = 40, 400  # times as fast as recorded: bursts overload 16 workers; all requests wait from the start
NEWCOMERS: Final = 4  # of the workers, that come after COME_S
COME_S: Final = 1200.0
NEAR: Final = 0.05  # a share is the paper's where it is so near. Ours
LOADING: Final = Suspect(
    "a call loads its components one after the other; MLoRA loads adapters beside the base (6.3.1)",
    "simulate --overlap",
    lambda cell: cell if cell.tiers is None else dataclasses.replace(cell, tiers=cell.tiers._replace(overlaps=True)),
)
ROOM: Final = Suspect(
    "tiers are small: a volume holds a quarter of the bytes in use, as all devices do; the paper gives no sizes",
    "simulate --budgets",
    lambda cell: cell if cell.tiers is None else dataclasses.replace(cell, tiers=cell.tiers._replace(share=0.5)),
)
SLOWER: Final = Suspect(
    f"at {SPEED} times the recorded speed bursts overload the fleet, and requests wait for workers more than for loads",
    "simulate --speed 10",
    lambda cell: dataclasses.replace(cell, trace=cell.trace.replace(f"x{SPEED}", "x10"), period_s=480.0),
)
ONE_ROUTER: Final = Suspect(
    "the baseline's round robin is enhanced, the paper does not say how",
    "simulate --dispatch least-cost",
    changed(dispatch="least-cost"),
)


def _cell(trace: str, policy: str, period_s: float = 120.0) -> Cell:
    return Cell(
        catalog="genai2026",
        trace=trace,
        policy=policy,
        slo_s=120,
        workers=WORKERS,
        period_s=period_s,
        tiers=Tiers(),
        drops=False,
        beat_s=5.0,
    )


def compared(trace: str, period_s: float = 120.0) -> dict[str, Cell]:
    """Return a cell of each side on a trace."""
    return {side: _cell(trace, policy, period_s) for side, policy in POLICIES.items()}


def requests_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of the comparison on GenTD26's requests."""
    del is_quick
    return compared(f"{REQUESTS}{SPEED}")


def saturated_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of the comparison where requests come so fast that no worker is idle."""
    del is_quick
    return compared(f"{REQUESTS}{SATURATED}", 60.0)


def sparse_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of the comparison on made requests whose combinations seldom come again."""
    del is_quick
    return compared(f"{SPARSE}{SPEED}")


def newcomer_cells(is_quick: bool) -> dict[str, Cell]:
    """Return the cells of workers that come during the run; the router is the same on both sides."""
    del is_quick
    late = [f"w-{WORKERS - 1 - nth:02}" for nth in range(NEWCOMERS)]
    outages = tuple(
        Outage(at_ms=at_ms, worker_id=worker_id, is_up=is_up)
        for at_ms, is_up in ((0.0, False), (1000 * COME_S, True))
        for worker_id in late
    )
    cells = compared(f"{REQUESTS}{SPEED}")
    return {side: dataclasses.replace(cell, outages=outages, dispatch="least-cost") for side, cell in cells.items()}


def less(ours: float, baseline: float) -> float:
    """Return by which share of the baseline ours is less; nan where the baseline is 0."""
    return 1 - ours / baseline if baseline else math.nan


def _falls(what: str, paper: float, runs: Runs, figure: str) -> Fact:
    """Hold the share by which a figure falls against the paper's: half of it to twice."""
    share = less(runs[OURS].of(figure), runs[BASELINE].of(figure))
    return Fact(f"{what} falls by a share of the paper's size", f"-{percent(paper)}", f"-{percent(share)}",
                of_size(share, paper))  # fmt: skip


def _near(what: str, paper: float, share: float, made: str) -> Fact:
    return Fact(what, percent(paper), f"{percent(share)}{made}", abs(share - paper) <= NEAR)


def _synthetic_note(source: str) -> str:
    return ", of made requests" if source.startswith("made: ") else ""


def _skewed(traces: Traces) -> list[Fact]:
    trace = traces(EVERY_REQUEST)
    skew, made = skew_of(trace), _synthetic_note(trace.source)
    gini = Fact("the Gini coefficient of the bases is near the paper's", ".876 (3.1)", f"{skew.gini:.3f}{made}",
                abs(skew.gini - 0.876) <= NEAR)  # fmt: skip
    return [
        gini,
        _near("the most popular base has its share of the requests", 0.288, skew.first, made),
        _near("so have the first five", 0.704, skew.first_five, made),
    ]


def _long_tail(traces: Traces) -> list[Fact]:
    trace = traces(EVERY_REQUEST)
    skew, made = skew_of(trace), _synthetic_note(trace.source)
    return [
        _near(f"adapters that serve {POPULAR_SHARE:.0%} of the uses", 0.235, skew.popular_adapters, made),
        _near("requests without an adapter", 0.788, skew.without_adapters, made),
        Fact("a request asks for six adapters at most", "1 to 6 (3.2)", f"{skew.most_adapters}{made}",
             1 <= skew.most_adapters <= 6),
    ]  # fmt: skip


def _sparse_facts(traces: Traces) -> list[Fact]:
    skew = skew_of(traces(f"{SPARSE}1"))
    space = N_BASES * N_ADAPTERS * N_CONTROLS
    return [
        Fact(f"combinations that come fewer than {RARE} times are of the paper's share",
             f"89.3 % of the combinations of {space:,}", f"{percent(skew.rare)} of {skew.combinations} that came",
             abs(skew.rare - 0.893) <= NEAR),
    ]  # fmt: skip


def _sparse(runs: Runs) -> list[Check]:
    few_s, many_s = (IMAGE_S + runs[BASELINE].of(f"moved.{name}_s") for name in ("few", "many"))
    return [
        Claim("placed by demand, requests have a shorter mean latency than by LRU", "sparsity defies LRU (5.3)",
              runs[OURS], runs[BASELINE], MEAN),
        Fact(f"under LRU a request of {MANY_PARTS} components takes longer than one of {FEW_PARTS}, as in the paper",
             "63.8 s, not 23.9: +167 %",
             f"{number(many_s, 1)} s, not {number(few_s, 1)}: +{percent(many_s / few_s - 1)}",
             of_size(many_s / few_s - 1, 1.67)),
    ]  # fmt: skip


IMAGE_S: Final = 9.0  # to generate one image in the catalog `genai2026`
MIXED: Final = ((0.35, "near, about 3.1 s in the public trace"), (0.60, "far, about 33.5 s"))


def _update_costs(runs: Runs) -> list[Check]:
    base, adapter, control, near, cv = (
        runs[BASELINE].of(f"moved.{name}") for name in ("base_s", "adapter_s", "control_s", "base_near", "base_cv")
    )
    (near_share, near_told), (far_share, far_told) = MIXED
    ratio = base / max(adapter, control) if adapter and control else math.nan
    return [
        Fact("updates of a base take several times as long as those of an adapter or a ControlNet",
             "22.6 s, not 4.6 and 5.1: 4.5 times", f"{number(base, 1)} s, not {number(adapter, 1)} and "
             f"{number(control, 1)}: {number(ratio, 1)} times", of_size(ratio, 4.43)),
        Fact("updates of bases vary as in the paper", "coefficient of variation .986", number(cv, 3),
             of_size(cv, 0.986)),
        Fact("updates of bases from memory", f"{percent(near_share)} {near_told}", percent(near),
             of_size(near, near_share)),
        Fact("updates of bases from disk or remote", f"{percent(far_share)} {far_told}", percent(1 - near),
             of_size(1 - near, far_share)),
    ]  # fmt: skip


def _newcomers(runs: Runs) -> list[Check]:
    return [
        Claim("new workers wait less for components where their start is coupled with prefetching",
              "up to 47 s until they are as fast as others, -62.4 % coupled (6.1.2)", runs[OURS], runs[BASELINE],
              NEWCOMER),
        _falls("the wait of new workers", 0.624, runs, "moved.newcomer_s"),
    ]  # fmt: skip


def _same_work(runs: Runs) -> Fact:
    """Hold the set-up of the comparison (7.1): both sides have the same requests, and as many workers."""
    ours, theirs = (
        [(run.requests, round(run.fleet.workers, 3)) for run in mean.runs] for mean in (runs[OURS], runs[BASELINE])
    )
    here = f"{sum(requests for requests, _ in ours)} requests each, {WORKERS} workers"
    return Fact("both sides have the same requests and as many workers", "two equal halves of 300 GPUs (7.1)", here,
                ours == theirs)  # fmt: skip


def _end_to_end(runs: Runs) -> list[Check]:
    return [
        Claim("mean latency is shorter than the baseline's", "-49.8 % (7.2)", runs[OURS], runs[BASELINE], MEAN),
        Claim("p99 is shorter", "-12.8 % (7.2)", runs[OURS], runs[BASELINE], P99),
        _falls("mean latency", 0.498, runs, "mean_s"),
        _falls("p99", 0.128, runs, "p99_s"),
        _same_work(runs),
    ]


PUBLISHED: Final = {"base": (22.6, 7.2), "adapter": (4.6, 1.2), "control": (5.1, 1.9), "pipeline": (14.4, 4.4)}


def _updates(runs: Runs) -> list[Check]:
    claims = [
        Claim(f"an update takes less time ({kind})", f"{before:g} s to {after:g} s (7.3)", runs[OURS], runs[BASELINE],
              UPDATES[kind])
        for kind, (before, after) in PUBLISHED.items()
    ]  # fmt: skip
    sizes = [
        _falls(f"the time of an update ({kind})", less(after, before), runs, f"moved.{kind}_s")
        for kind, (before, after) in PUBLISHED.items()
    ]
    return [*claims, *sizes]


def _traffic(runs: Runs) -> list[Check]:
    ours, theirs = runs[OURS], runs[BASELINE]
    return [
        Claim("fewer bytes come over the network", "-89.5 % (7.4)", ours, theirs, NETWORK),
        Claim("fewer bytes go to and from disks", "-60.2 %", ours, theirs, DISK),
        Claim("an update of all that a call loads takes less time", "38.9 s to 4.2 s", ours, theirs,
              UPDATES["pipeline"]),
        Claim("requests wait less for a worker", "queues of -82.9 %", ours, theirs, QUEUE),
        Claim("responses come sooner", "-51.4 %", ours, theirs, MEAN),
        _falls("bytes over the network", 0.895, runs, "moved.network_gb"),
        _falls("bytes to and from disks", 0.602, runs, "moved.disk_gb"),
        _falls("waiting for a worker", 0.829, runs, "moved.queue_s"),
        _falls("mean latency", 0.514, runs, "mean_s"),
    ]  # fmt: skip


def _throughput(runs: Runs) -> list[Check]:
    ours, theirs = runs[OURS], runs[BASELINE]
    ratio = ours.of("moved.per_worker_h") / max(theirs.of("moved.per_worker_h"), 1e-9) - 1
    return [
        Claim("a worker answers more requests in an hour", "QPS of a container +107.4 % (7.5)", ours, theirs,
              PER_WORKER),
        Claim("workers generate for more of their time", "duty cycle 6.0 % to 14.1 %", ours, theirs, BUSY),
        Fact("throughput rises by a share of the paper's size", "+107.4 %", f"+{percent(ratio)}",
             of_size(ratio, 1.074)),
    ]  # fmt: skip


def _experiment(
    where: str, about: str, cells: Callable[[bool], dict[str, Cell]], checks: Callable[[Runs], Sequence[Check]],
    suspects: tuple[Suspect, ...], trace_facts: Callable[[Traces], Sequence[Fact]] = lambda _: (),
) -> Experiment:  # fmt: skip
    return Experiment(paper=MLORA, where=where, about=about, cells=cells, checks=checks, suspects=suspects,
                      trace_facts=trace_facts)  # fmt: skip


EXPERIMENTS: Final = (
    Experiment(paper=MLORA, where="section 3.1", about="how skewed models are asked for", trace_facts=_skewed),
    Experiment(paper=MLORA, where="section 3.2", about="the long tail of adapters", trace_facts=_long_tail),
    Experiment(paper=MLORA, where="Figs. 4-7, 13a", about="SM utilisation, memory and its contention on 300 GPUs",
               why_not="workers here sleep as long as models take: nothing is computed or copied to be measured"),
    _experiment("Fig. 8b, section 5.2", "what updates cost by kind", requests_cells, _update_costs, (ROOM,)),
    _experiment("section 5.3", "combinations that seldom come again", sparse_cells, _sparse, (LOADING, ROOM),
                _sparse_facts),
    _experiment("section 6.1.2", "workers that come, with prefetching and without", newcomer_cells, _newcomers,
                (ROOM, LOADING)),
    _experiment("Fig. 10, section 7.1", "latency against LRU and round robin", requests_cells, _end_to_end,
                (SLOWER, ONE_ROUTER, ROOM)),
    _experiment("Fig. 11", "time of updates by kind", requests_cells, _updates, (SLOWER, ROOM, LOADING)),
    _experiment("Fig. 12", "bytes over network and disks, updates, queues", requests_cells, _traffic,
                (SLOWER, ONE_ROUTER, ROOM)),
    _experiment("Fig. 13", "throughput of a worker", saturated_cells, _throughput, (ONE_ROUTER, ROOM)),
)  # fmt: skip


def side_rows(runs: Runs) -> Sequence[tuple[str, Mean]]:
    """Return the sides of a comparison with the names of their policies."""
    return [(POLICIES[side], runs[side]) for side in POLICIES]
