"""Tests a paper's claims about two sides on redraws, by the rule of `replay/bench/comparison.py`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from replay.bench.comparison import FID_MARGIN, PairedDifference, paired, verdicts
from replay.bench.papers.answers import Mean

FID, OPTIMISTIC, VIOLATIONS, P99 = "FID", "FID, blind mixtures at their upper bound", "violations, points", "p99, s"
PICKSCORE, MOVES, BUSY = "PickScore of answers in time", "moves by 100 requests", "workers busy, points"
MEAN, NETWORK, DISK = "mean latency, s", "GB over the network", "GB to and from disks"
QUEUE, PER_WORKER, NEWCOMER = "waiting for a worker, s", "answers of a worker in an hour", "wait of new workers, s"
UPDATES: Final = {kind: f"one update ({kind}), s" for kind in ("base", "adapter", "control", "pipeline")}
FIGURES: Final = {
    FID: "quality_run", OPTIMISTIC: "quality_run_optimistic", VIOLATIONS: "violations", P99: "p99_s",
    PICKSCORE: "quality_in_slo", MOVES: "moves_a_request", BUSY: "utilization", MEAN: "mean_s",
    NETWORK: "moved.network_gb", DISK: "moved.disk_gb", QUEUE: "moved.queue_s",
    PER_WORKER: "moved.per_worker_h", NEWCOMER: "moved.newcomer_s",
    **{figure: f"moved.{kind}_s" for kind, figure in UPDATES.items()},
}  # fmt: skip
SIGNS: Final = {  # so that more is better
    FID: 1.0, OPTIMISTIC: 1.0, VIOLATIONS: -100.0, P99: -1.0, PICKSCORE: 1.0, MOVES: -100.0, BUSY: 100.0,
    MEAN: -1.0, NETWORK: -1.0, DISK: -1.0, QUEUE: -1.0, PER_WORKER: 1.0, NEWCOMER: -1.0,
    **dict.fromkeys(UPDATES.values(), -1.0),
}  # fmt: skip
MARGINS: Final = {  # that do not matter. Ours
    FID: FID_MARGIN, OPTIMISTIC: FID_MARGIN, VIOLATIONS: 1.0, P99: 0.1, PICKSCORE: 0.05, MOVES: 0.05, BUSY: 1.0,
    MEAN: 1.0, NETWORK: 1.0, DISK: 1.0, QUEUE: 1.0, PER_WORKER: 0.1, NEWCOMER: 0.1,
    **dict.fromkeys(UPDATES.values(), 0.1),
}  # fmt: skip


class Claim(NamedTuple):
    """The first side is better than the second."""

    what: str
    paper: str  # its figure, with the section
    first: Mean
    second: Mean
    figure: str  # of FIGURES


class Judged(NamedTuple):
    """A claim, by how much the first side is better, and the verdict."""

    claim: Claim
    difference: PairedDifference
    verdict: str


def judge(claims: Sequence[Claim]) -> list[Judged]:
    """Return the verdict on each claim of a question, which are one table of comparisons."""
    differences = [paired(_values(claim.first, claim.figure), _values(claim.second, claim.figure)) for claim in claims]
    words = verdicts(differences, [MARGINS[claim.figure] for claim in claims])
    return [Judged(*each) for each in zip(claims, differences, words, strict=True)]


def _values(mean: Mean, figure: str) -> list[float]:
    return [SIGNS[figure] * value for value in mean.each(FIGURES[figure])]
