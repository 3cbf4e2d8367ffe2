"""Quality against the step K from which the heavy model starts: the table, and the choice of K."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.profiling.statistics.intervals import Resampling, mean, proportion

TOLERANCE = 0.03  # of quality, that a start from an image may lose against generating from noise
OF_A_QUARTER = 1.5  # tolerances that the prompts of one quarter of hardness may lose on average: they are few


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """The heavy model started at step K from an image or a latent, for several K; m of the n prompts."""

    rows: np.ndarray  # [m] int, which prompts
    k: np.ndarray  # [p] int, rising
    cost_share: np.ndarray  # [p] of generating from noise with the same model; the draft's own cost is not counted
    quality: np.ndarray  # [p, m]
    facts: np.ndarray  # [p, m] share of the facts that hold
    blank_quality: np.ndarray  # [m] the same model and noise, generated from step 0
    blank_facts: np.ndarray  # [m]

    def where(self, prompts: np.ndarray) -> "Sweep":
        """The part of this sweep over the prompts for which bool [n] holds."""
        keep = prompts[self.rows]
        return Sweep(
            rows=self.rows[keep],
            k=self.k,
            cost_share=self.cost_share,
            quality=self.quality[:, keep],
            facts=self.facts[:, keep],
            blank_quality=self.blank_quality[keep],
            blank_facts=self.blank_facts[keep],
        )


def quarters(hardness: np.ndarray) -> np.ndarray:
    """int [n]: 0 for the easiest quarter of these prompts to 3 for the hardest; equal hardness goes by position."""
    rank = np.empty(len(hardness), int)
    rank[np.argsort(hardness, kind="stable")] = np.arange(len(hardness))
    return np.asarray(4 * rank // len(hardness))


def points(sweep: Sweep, hardness: np.ndarray, how: Resampling) -> list[dict[str, Any]]:
    """One row for each K; hardness [n] is of all the evaluation's prompts, so quarters are the same everywhere."""
    quarter = quarters(hardness)[sweep.rows]
    return [
        {
            "k": int(k),
            **proportion(quality == 1).fields("quality"),
            **mean(facts, how).fields("facts"),
            "cost_share": float(cost_share),
            **mean(quality - sweep.blank_quality, how).fields("above_blank"),
            "quality_by_quarter": [proportion(quality[quarter == q] == 1).fields("value", "ci") for q in range(4)],
        }
        for k, cost_share, quality, facts in zip(sweep.k, sweep.cost_share, sweep.quality, sweep.facts, strict=True)
    ]


def blank(sweep: Sweep, how: Resampling) -> dict[str, Any]:
    """Quality and facts of the swept prompts generated from noise: what the rows of `points` are compared with."""
    return {
        **proportion(sweep.blank_quality == 1).fields("quality"),
        **mean(sweep.blank_facts, how).fields("facts"),
        "prompts": len(sweep.rows),
    }


def choose_k(sweep: Sweep, hardness: np.ndarray, how: Resampling, tolerance: float = TOLERANCE) -> int | None:
    """The largest K up to which every K is shown to lose at most `tolerance`, of a sweep over calibration prompts.

    A K passes if the interval of (quality - blank) lies above -tolerance, and no quarter of the prompts by `hardness`
    [n] loses more than one and a half of that on average: most drafts that are refined are of the hardest. They
    are tested from the smallest upwards until the first fails, so that the confidence holds for the K returned. None:
    generate from noise.
    """
    quarter = quarters(hardness)[sweep.rows]
    chosen = None
    for k, quality in zip(sweep.k, sweep.quality, strict=True):
        above = quality - sweep.blank_quality
        worst = min(float(above[quarter == q].mean()) for q in np.unique(quarter))
        if not (mean(above, how).low >= -tolerance and worst >= -OF_A_QUARTER * tolerance):  # nan fails as well
            return chosen
        chosen = int(k)
    return chosen
