"""Is what a catalog promises of kept drafts so, and how many drafts does that cost?

One pool of judged drafts is split again and again: n of them make the thresholds, as `pochade profile` does
(`agents/learning/bounds.py`), and the others show how many of those kept are wrong. Baseline: the threshold that keeps
the most with the promise, the whole pool known. `pochade bench guarantee` runs this module in a process of its own and
is answered by JSON: `python -m agents.lab.guarantee_bench ASKED`.
"""

import datetime
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from agents.lab.judged_drafts import STANDARD, Drafts
from agents.learning.bounds import CANDIDATES, bounds_of
from planner.catalog.guarantees import OVERALL

TOGETHER = "together"  # all promises of one split: they share delta


def run(
    drafts: Drafts, *, seeds: Sequence[int], n: int, alphas: Sequence[float], delta: float,
    track: Callable[[Sequence[int]], Iterable[int]] = iter,
) -> dict[str, Any]:  # fmt: skip
    """Return a row for each alpha and band, over one split a seed. `n`: drafts that thresholds are made of.

    within_share: of splits, in which at most alpha of the kept test drafts are wrong, or the promise was refused.
    kept_share: of the test drafts, mean over splits in which it was not refused; true_kept_share: of the pool, by the
    true threshold.
    """
    bands = np.clip(np.searchsorted(drafts.bounds, drafts.hardness, side="right") - 1, 0, len(drafts.bounds) - 2)
    parts = {OVERALL: np.ones(len(bands), bool)} | {band: bands == band for band in range(len(drafts.bounds) - 1)}
    seen: dict[tuple[float, int], list[tuple[bool, float] | None]] = {(a, band): [] for a in alphas for band in parts}
    for seed in track(seeds):
        chosen = np.zeros(len(bands), bool)
        chosen[np.random.default_rng(seed).permutation(len(bands))[:n]] = True
        guarantee = bounds_of(
            drafts.level, drafts.discriminator, drafts.scores[chosen], drafts.right[chosen], drafts.hardness[chosen],
            drafts.bounds, delta=delta, alphas=alphas, standard=STANDARD, date="2026-11-29",
        )  # fmt: skip
        rows = {(row.alpha, row.band): row.threshold for row in guarantee.rows}
        for (alpha, band), results in seen.items():
            test, threshold = parts[band] & ~chosen, rows.get((alpha, band))
            results.append(None if threshold is None else _tested(drafts, test, threshold, alpha))
    return {
        "delta": delta, "n": n, "pool": len(bands), "splits": len(seeds), "level": drafts.level,
        "discriminator": drafts.discriminator,
        "rows": [row for alpha in alphas for row in _rows(drafts, alpha, parts, seen)],
    }  # fmt: skip


def _tested(drafts: Drafts, test: np.ndarray, threshold: float, alpha: float) -> tuple[bool, float]:
    kept = test & (drafts.scores >= threshold)
    wrong = int((kept & ~drafts.right).sum())
    return wrong <= alpha * kept.sum(), float(kept.sum() / test.sum())


def _rows(
    drafts: Drafts, alpha: float, parts: dict[int, np.ndarray],
    seen: dict[tuple[float, int], list[tuple[bool, float] | None]],
) -> list[dict[str, Any]]:  # fmt: skip
    names = ["overall", *(f"{low:g} to {high:g}" for low, high in pairwise(drafts.bounds))]
    found = []
    for (band, mask), name in zip(parts.items(), names, strict=True):
        results = seen[alpha, band]
        shares = [share for result in results if result for share in (result[1],)]
        truth = _true_kept(drafts, mask, alpha)
        kept = float(np.mean(shares)) if shares else None
        found.append({
            "alpha": alpha, "band": name, "within_share": _within(results), "kept_share": _rounded(kept),
            "refused_share": results.count(None) / len(results), "true_kept_share": _rounded(truth),
            "kept_of_true": _rounded(kept / truth) if kept is not None and truth else None,
        })  # fmt: skip
    together = list(zip(*(seen[alpha, band] for band in parts), strict=True))
    within = sum(all(result is None or result[0] for result in results) for results in together) / len(together)
    refused = sum(not any(results) for results in together) / len(together)
    return [*found, {"alpha": alpha, "band": TOGETHER, "within_share": within, "refused_share": refused}]


def _within(results: Sequence[tuple[bool, float] | None]) -> float:
    return sum(result is None or result[0] for result in results) / len(results)


def _true_kept(drafts: Drafts, mask: np.ndarray, alpha: float) -> float:
    """The largest share of the pool's drafts that a threshold of the grid keeps of which at most alpha are wrong."""
    scores, right = drafts.scores[mask], drafts.right[mask]
    kept = [scores >= threshold for threshold in CANDIDATES]
    return max((float(each.mean()) for each in kept if (~right[each]).sum() <= alpha * each.sum()), default=0.0)


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def main() -> None:
    """Measure what the only argument asks for, JSON of the command's options; print the report."""
    from rich.console import Console
    from rich.progress import track

    from agents.lab.judged_drafts import judged_drafts, write_promises
    from agents.profiling.catalog import relocated
    from agents.profiling.machine import usual_jobs
    from streams import catalogs

    asked = json.loads(sys.argv[1])
    models = Path(asked["models"])
    catalog, jobs = relocated(catalogs.load("tiny"), models), asked["jobs"] or usual_jobs()
    pool = judged_drafts(catalog, models, asked["drafts"], asked["pool_seed"], Path(asked["folder"]), jobs)
    if asked["into"]:
        write_promises(pool, Path(asked["into"]), datetime.date.today().isoformat())
    found = run(
        pool, seeds=range(asked["seed"], asked["seed"] + asked["seeds"]), n=asked["calibration"],
        alphas=asked["alphas"], delta=asked["delta"],
        track=lambda each: track(each, "splitting", console=Console(stderr=True)),
    )  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main()
