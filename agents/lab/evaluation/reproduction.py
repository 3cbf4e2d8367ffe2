"""Compares two evaluations of the same models on different prompts, figure by figure.

A figure of a second sample falls outside the first one's 95 % interval more often than in one case in twenty, since
both samples vary: in one of six if they are of one size, in two of five if the second has a quarter of the prompts. So
a figure is within if it lies in the range that the reference predicts for the second number of prompts: its interval,
made wider by sqrt(1 + prompts of the reference / prompts here) (Hahn and Meeker, 1991, "Statistical Intervals":
prediction). The interval of the difference is by the square-and-add method of Zou and Donner (2008, "Construction of
confidence limits about effect measures: a general approach").
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from agents.lab.evaluation.summary import VERSION
from agents.lab.evaluation.verdicts import REFINEMENT
from agents.profiling.statistics.intervals import Estimate
from schemas.errors import PochadeError

# prompts; by simulation, equal samples with a quality of .93 are reported to differ in 10 % of cases where one has 48
# prompts, in 44 % where it has 12
MIN_PROMPTS = 200

About = tuple[str, str]  # a figure's name, and what it is of: another pair's, or another K's, is another figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A figure of the reference and the same one here."""

    name: str
    reference: Estimate
    here: Estimate
    prompts_ratio: float = 1.0  # of the reference to those here

    @property
    def predicted(self) -> Estimate:
        """The reference with the range in which 95 of 100 evaluations of as many prompts as here would lie."""
        of, wider = self.reference, math.sqrt(1 + self.prompts_ratio)
        return Estimate(of.value, of.value - wider * (of.value - of.low), of.value + wider * (of.high - of.value))

    @property
    def is_within(self) -> bool:
        """Whether this one lies in the range that the reference predicts."""
        return self.predicted.low <= self.here.value <= self.predicted.high

    @property
    def difference(self) -> Estimate:
        """Here less the reference, with an interval of the same confidence."""
        of, to = self.here, self.reference
        value = of.value - to.value
        below = math.hypot(of.value - of.low, to.high - to.value)
        return Estimate(value, value - below, value + math.hypot(of.high - of.value, to.value - to.low))

    @property
    def differs(self) -> bool:
        """Whether the difference is beyond chance: its interval excludes 0."""
        return not self.difference.low <= 0 <= self.difference.high

    @property
    def row(self) -> dict[str, Any]:
        """All of it, for JSON."""
        sides = {
            "reference": self.reference, "predicted": self.predicted, "here": self.here, "difference": self.difference
        }  # fmt: skip
        rows = {name: side.fields("value", "ci") for name, side in sides.items()}
        return {"name": self.name, **rows, "is_within": self.is_within, "differs": self.differs}


def read(file: Path) -> dict[str, Any]:
    """An evaluate.json to compare with. Raises PochadeError for any other file."""
    try:
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
        if not list(_figures(found)):
            raise ValueError("it has no figure with an interval")
        if found.get("version") != VERSION:
            raise ValueError(f"its version is {found.get('version')}, this is {VERSION}: quality is counted otherwise")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise PochadeError(f"{file} is no evaluate.json ({error!r}): name one that `pochade evaluate` wrote") from None
    return found


def compare(reference: Mapping[str, Any], here: Mapping[str, Any]) -> list[Compared]:
    """The figures of two evaluate.json that are of the same thing and have an interval in both."""
    known, sizes = dict(_figures(here)), (_sizes(reference), _sizes(here))
    return [
        Compared(name=about[0], reference=figure, here=known[about], prompts_ratio=_ratio(about[0], *sizes))
        for about, figure in _figures(reference)
        if about in known
    ]


class _Sizes(NamedTuple):
    """On how many prompts the figures of an evaluation rest."""

    prompts: int
    swept: int  # refined


def _sizes(summary: Mapping[str, Any]) -> _Sizes:
    swept = next(iter(summary.get("paint_over_variants", {}).values()), {"blank": {"prompts": 1}})
    return _Sizes(summary.get("prompts", 1), swept["blank"]["prompts"])


def _ratio(name: str, reference: _Sizes, here: _Sizes) -> float:
    if name.startswith(REFINEMENT):
        return reference.swept / here.swept
    return reference.prompts / here.prompts


def doubts(reference: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return the limits of the comparison: why figures are missing, or intervals are too narrow or too wide."""
    found = []
    if reference.get("seed") == here.get("seed"):
        found.append(
            "both generated the same prompts: figures differ by less than their intervals say; take another seed"
        )
    asked, here_asked = reference.get("stream"), here.get("stream")
    if asked != here_asked:
        found.append(f"the prompts are of two streams, {asked} and {here_asked}: that alone makes figures differ")
    fewest = min(reference.get("prompts", 0), here.get("prompts", 0))
    if fewest < MIN_PROMPTS:
        found.append(
            f"of {fewest} prompts intervals are too narrow, and more figures differ by chance: take {MIN_PROMPTS}"
        )
    odd = dict(_figures(reference)).keys() ^ dict(_figures(here)).keys()
    if names := sorted({name for name, _ in odd}):
        found.append(f"not compared, as only one has them or they are of something else: {', '.join(names)}")
    return found


def _figures(summary: Mapping[str, Any]) -> Iterator[tuple[About, Estimate]]:
    """Yield the figures of levels, of the main pair's rankers and of verdicts that repeat none of these."""
    pair, hybrid = str(summary.get("pair")), summary["hybrid"] or {}
    members = f"{pair} {hybrid.get('prompt')} {hybrid.get('image')}"
    for name, level in summary["levels"].items():
        for key in ("quality", "facts"):
            yield from _one((f"{name}: {key}", ""), level.get(key), level.get(f"{key}_ci"))
    for name, ranker in {**summary["discriminators"], **summary["classifiers"], "hybrid": hybrid}.items():
        of = members if name == "hybrid" else pair
        yield from _one((f"{name}: auc", of), ranker.get("auc"), ranker.get("auc_ci"))
        yield from _one((f"{name}: recovery_at_half", of), ranker.get("recovery_at_half"), ranker.get("ci"))
    of_verdicts = {"hybrid": members, REFINEMENT: f"{pair} {summary.get('chosen_k')}"}
    for verdict in summary["verdicts"]:
        name = verdict["name"]
        if not (name.startswith(("discriminator: ", "classifier: ")) or name.endswith(": quality")):
            of = next((of for begin, of in of_verdicts.items() if name.startswith(begin)), pair)
            yield from _one((name, of), verdict["got"], verdict["ci"])


def _one(about: About, value: float | None, ends: list[float | None] | None) -> Iterator[tuple[About, Estimate]]:
    if value is not None and ends is not None and ends[0] is not None and ends[1] is not None:
        yield about, Estimate(float(value), float(ends[0]), float(ends[1]))
