"""The numbers wanted of the main pair of levels, each compared with what was measured.

A number is met by its point estimate, unless the wish is about an interval. The rankers judged are those the hybrid is
made of: they were chosen on calibration prompts, so the best of several on the test prompts is never picked here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agents.lab.evaluation.intervals import proportion
from agents.lab.evaluation.levels import EASY, HARD, cost_ratio, dominated
from agents.lab.evaluation.observations import Evaluation
from schemas.errors import Unknown

PAINT_OVER_LOSS = 0.02
HEAVY_FEW_OBJECTS, GAP_ON_HARD = 0.95, 0.15
LIGHT_ON_EASY, LIGHT_ON_HARD = 0.80, 0.50
IMAGE_AUC, IMAGE_RECOVERY, IMAGE_RECOVERY_LOW = 0.78, 0.55, 0.40
PROMPT_AUC, PROMPT_RECOVERY, PROMPT_MS = 0.72, 0.40, 5.0
WORK_SHARE, COST_RATIO = 0.50, 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One number wanted and got; got is None where it could not be measured, which does not meet it."""

    name: str
    wanted: str
    got: float | None
    met: bool
    ci: tuple[float, float] | None = None
    why: str | None = None  # why a number was not reached, in the words of who tried


def verdicts(evaluation: Evaluation, main: Mapping[str, Any], paint_over: list[dict[str, Any]]) -> list[Verdict]:
    """From the main pair's part of evaluate.json (`pairs.figures`) and the rows of the shipped paint-over."""
    return [*_levels(evaluation, main), *_rankers(main), *_paint_over(paint_over, evaluation.chosen_k)]


def explained(found: Iterable[Verdict], notes: Mapping[str, str]) -> list[Verdict]:
    """With each note beside the verdict of its name. Raises Unknown for a note on no verdict."""
    listed = list(found)
    names = [verdict.name for verdict in listed]
    for name in notes:
        if name not in names:
            raise Unknown("verdict", name, names)
    return [replace(verdict, why=notes.get(verdict.name)) for verdict in listed]


def _at_least(name: str, limit: float, figure: Mapping[str, Any], key: str = "value", ci: str = "ci") -> Verdict:
    return _verdict(name, f"≥ {limit:g}", figure, key, ci, lambda got: got >= limit)


def _at_most(name: str, limit: float, figure: Mapping[str, Any], key: str = "value", ci: str = "ci") -> Verdict:
    return _verdict(name, f"≤ {limit:g}", figure, key, ci, lambda got: got <= limit)


def _verdict(
    name: str, wanted: str, figure: Mapping[str, Any], key: str, ci: str, holds: Callable[[float], bool]
) -> Verdict:
    got, interval = figure.get(key), figure.get(ci)
    if got is None or np.isnan(got):
        return Verdict(name=name, wanted=wanted, got=None, met=False)
    ends = (interval[0], interval[1]) if interval is not None else None
    return Verdict(name=name, wanted=wanted, got=got, met=bool(holds(got)), ci=ends)


def _levels(evaluation: Evaluation, main: Mapping[str, Any]) -> list[Verdict]:
    few = proportion(evaluation.levels[main["pair"]["heavy"]].all_facts[evaluation.objects <= 2])
    light = main["light_at_least_as_good_by_quarter"]
    beaten = len(dominated(evaluation.levels))
    return [
        _at_least("heavy: all facts right, one or two objects", HEAVY_FEW_OBJECTS, few.fields("value", "ci")),
        _at_least("hardest quarter: heavy above light, all facts", GAP_ON_HARD, main["all_facts_gap_by_quarter"][HARD]),
        _at_least("easiest quarter: light at least as good", LIGHT_ON_EASY, light[EASY]),
        _at_most("hardest quarter: light at least as good", LIGHT_ON_HARD, light[HARD]),
        _at_least("cost of the dearest level over the cheapest", COST_RATIO, {"value": cost_ratio(evaluation.levels)}),
        _verdict(
            "levels dominated in cost and quality", "0", {"value": float(beaten)}, "value", "", lambda got: got == 0
        ),
    ]


def _rankers(main: Mapping[str, Any]) -> list[Verdict]:
    hybrid = main["hybrid"]
    image, prompt = main["discriminators"][hybrid["image"]], main["classifiers"][hybrid["prompt"]]
    low = {"value": image["ci"][0]}
    return [
        _at_least("discriminator: AUC", IMAGE_AUC, image, "auc", "auc_ci"),
        _at_least("discriminator: recovery at half", IMAGE_RECOVERY, image, "recovery_at_half"),
        _verdict(
            "discriminator: recovery at half, lower end",
            f"> {IMAGE_RECOVERY_LOW:g}", low, "value", "ci", lambda got: got > IMAGE_RECOVERY_LOW,
        ),
        _at_least("classifier: AUC", PROMPT_AUC, prompt, "auc", "auc_ci"),
        _at_least("classifier: recovery at half", PROMPT_RECOVERY, prompt, "recovery_at_half"),
        _at_most("classifier: ms a prompt", PROMPT_MS, prompt, "ms", ""),
        _verdict(
            "hybrid above the better of its two, recovery at half",
            "interval reaches 0", hybrid, "above_better", "above_better_ci",
            lambda _: hybrid["above_better_ci"][1] >= 0,
        ),
    ]  # fmt: skip


def _paint_over(rows: list[dict[str, Any]], chosen_k: int | None) -> list[Verdict]:
    row: Mapping[str, Any] = next((row for row in rows if row["k"] == chosen_k), {})
    return [
        _at_least(
            "paint over at the chosen K: quality above blank", -PAINT_OVER_LOSS, row, "above_blank", "above_blank_ci"
        ),
        _at_most("paint over at the chosen K: share of the work", WORK_SHARE, row, "cost_share"),
    ]
