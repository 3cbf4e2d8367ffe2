"""The numbers wanted of the main pair of levels, each compared with what was measured.

A number is met by its point estimate, unless the wish is about an interval. The rankers judged are those the hybrid is
made of: they were chosen on calibration prompts, so the best of several on the test prompts is never picked here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agents.lab.evaluation.observations import Evaluation
from agents.lab.evaluation.statistics.levels import best_shares, cost_ratio, dominated
from agents.profiling.statistics.intervals import proportion
from schemas.errors import Unknown

MAX_REFINEMENT_LOSS = 0.03
LIGHT_MIN, LIGHT_MAX = 0.40, 0.60  # so that there is something to win, and light still worth asking
MIDDLE_ABOVE_LIGHT, HEAVY_ABOVE_MIDDLE, HEAVY = 0.15, 0.05, 0.86
CLASS_SHARE = 0.60  # of prompts with one best choice: above it, a classifier that says nothing else is hard to beat
GAIN_LOW = 0.02  # of quality above blind choice at equal cost
IMAGE_AUC, PROMPT_AUC, PROMPT_MS = 0.78, 0.72, 5.0
WORK_SHARE, COST_RATIO = 0.50, 15.0
REFINEMENT = "paint over"  # begins the names of refinement's verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One number wanted and got; got is None where it could not be measured, which does not meet it."""

    name: str
    wanted: str
    got: float | None
    met: bool
    ci: tuple[float, float] | None = None
    why: str | None = None  # note on why a number was not reached


def verdicts(
    evaluation: Evaluation, pairs: Sequence[Mapping[str, Any]], paint_over: list[dict[str, Any]]
) -> list[Verdict]:
    """From the pairs' parts of evaluate.json (`pairs.figures`), the main one first, and the shipped refinement's rows.

    A second pair has the same heavy level, and a light one that stands between the two of the main pair.
    """
    main, strong = pairs[0], pairs[1] if len(pairs) > 1 else None
    return [*_levels(evaluation, main, strong), *_rankers(main), *_refinement_verdicts(paint_over, evaluation.chosen_k)]


def explained(found: Iterable[Verdict], notes: Mapping[str, str]) -> list[Verdict]:
    """With each note beside the verdict of its name. Raises Unknown for a note on no verdict."""
    listed = list(found)
    names = [verdict.name for verdict in listed]
    for name in notes:
        if name not in names:
            raise Unknown("verdict", name, names)
    return [replace(verdict, why=notes.get(verdict.name)) for verdict in listed]


def _minimum(name: str, limit: float, figure: Mapping[str, Any], key: str = "value", ci: str = "ci") -> Verdict:
    return _verdict(name, f"≥ {limit:g}", figure, key, ci, lambda got: got >= limit)


def _maximum(name: str, limit: float, figure: Mapping[str, Any], key: str = "value", ci: str = "ci") -> Verdict:
    return _verdict(name, f"≤ {limit:g}", figure, key, ci, lambda got: got <= limit)


def _verdict(
    name: str, wanted: str, figure: Mapping[str, Any], key: str, ci: str, holds: Callable[[float], bool]
) -> Verdict:
    got, interval = figure.get(key), figure.get(ci)
    if got is None or np.isnan(got):
        return Verdict(name=name, wanted=wanted, got=None, met=False)
    ends = (interval[0], interval[1]) if interval is not None else None
    return Verdict(name=name, wanted=wanted, got=got, met=bool(holds(got)), ci=ends)


def _levels(evaluation: Evaluation, main: Mapping[str, Any], strong: Mapping[str, Any] | None) -> list[Verdict]:
    names, beaten = main["pair"], len(dominated(evaluation.levels))
    light, heavy = (proportion(evaluation.levels[names[side]].is_right).fields("value", "ci") for side in names)
    commonest = {"value": max(best_shares(evaluation.levels).values())}
    return [
        _verdict(
            f"{names['light']}: quality",
            f"{LIGHT_MIN:.2f} to {LIGHT_MAX:.2f}", light, "value", "ci",
            lambda got: LIGHT_MIN <= got <= LIGHT_MAX,
        ),
        *_middle(strong, light["value"]),
        _minimum(f"{names['heavy']}: quality", HEAVY, heavy),
        _maximum("share of the commonest best choice", CLASS_SHARE, commonest),
        _minimum("cost of the dearest level over the cheapest", COST_RATIO, {"value": cost_ratio(evaluation.levels)}),
        _verdict(
            "levels dominated in cost and quality", "0", {"value": float(beaten)}, "value", "", lambda got: got == 0
        ),
    ]  # fmt: skip


def _middle(strong: Mapping[str, Any] | None, light: float) -> list[Verdict]:
    """Verdicts on the strong light level, between the two of the main pair; none where the catalog has none."""
    if strong is None:
        return []
    names = strong["pair"]
    above = {"value": strong["light_quality"] - light}
    return [
        _minimum(f"{names['light']} above the cheapest", MIDDLE_ABOVE_LIGHT, above),
        _minimum(
            f"{names['heavy']} above {names['light']}", HEAVY_ABOVE_MIDDLE, strong,
            "heavy_above_light", "heavy_above_light_ci",
        ),
    ]  # fmt: skip


def _rankers(main: Mapping[str, Any]) -> list[Verdict]:
    hybrid = main["hybrid"]
    image, prompt = main["discriminators"][hybrid["image"]], main["classifiers"][hybrid["prompt"]]
    return [
        _minimum("discriminator: AUC", IMAGE_AUC, image, "auc", "auc_ci"),
        _gain("discriminator", image),
        _minimum("classifier: AUC", PROMPT_AUC, prompt, "auc", "auc_ci"),
        _gain("classifier", prompt),
        _maximum("classifier: ms a prompt", PROMPT_MS, prompt, "ms", ""),
        _verdict(
            "hybrid above the better of its two, recovery at half",
            "interval reaches 0", hybrid, "above_better", "above_better_ci",
            lambda _: hybrid["above_better_ci"][1] >= 0,
        ),
    ]  # fmt: skip


def _gain(kind: str, ranker: Mapping[str, Any]) -> Verdict:
    """Quality above a random choice at half heavy: met if the lower end of its interval is above GAIN_LOW."""
    low = ranker["gain_at_half_ci"][0]
    return _verdict(
        f"{kind}: gain at half", f"lower end > {GAIN_LOW:g}", ranker, "gain_at_half", "gain_at_half_ci",
        lambda _: bool(low > GAIN_LOW),
    )  # fmt: skip


def _refinement_verdicts(rows: list[dict[str, Any]], chosen_k: int | None) -> list[Verdict]:
    row: Mapping[str, Any] = next((row for row in rows if row["k"] == chosen_k), {})
    return [
        _minimum(
            f"{REFINEMENT} at the chosen K: quality above blank",
            -MAX_REFINEMENT_LOSS,
            row,
            "above_blank",
            "above_blank_ci",
        ),
        _maximum(f"{REFINEMENT} at the chosen K: share of the work", WORK_SHARE, row, "cost_share"),
    ]
