"""Whether two evaluations of the same models, on prompts of their own, tell the same: figure by figure.

A figure of a second sample falls outside the first one's 95 % interval in about one case in six by chance alone, since
both samples vary. So beside "within" stands the interval of the difference, by the square-and-add method of Zou and
Donner (2008, "Construction of confidence limits about effect measures: a general approach").
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.evaluation.intervals import Estimate
from schemas.errors import PochadeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A figure of the reference and the same one here."""

    name: str
    reference: Estimate
    here: Estimate

    @property
    def is_within(self) -> bool:
        """Whether this one lies in the reference's interval."""
        return self.reference.low <= self.here.value <= self.reference.high

    @property
    def difference(self) -> Estimate:
        """Here less the reference, with an interval of the same confidence."""
        of, to = self.here, self.reference
        value = of.value - to.value
        below = math.hypot(of.value - of.low, to.high - to.value)
        return Estimate(value, value - below, value + math.hypot(of.high - of.value, to.value - to.low))

    @property
    def differs(self) -> bool:
        """Whether the difference is more than chance makes of it: its interval leaves out 0."""
        return not self.difference.low <= 0 <= self.difference.high

    @property
    def row(self) -> dict[str, Any]:
        """All of it, for JSON."""
        sides = {"reference": self.reference, "here": self.here, "difference": self.difference}
        rows = {name: side.fields("value", "ci") for name, side in sides.items()}
        return {"name": self.name, **rows, "is_within": self.is_within, "differs": self.differs}


def read(file: Path) -> dict[str, Any]:
    """An evaluate.json to compare with. Raises PochadeError for any other file."""
    try:
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
        list(_figures(found))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise PochadeError(f"{file} is no evaluate.json ({error!r}): name one that `pochade evaluate` wrote") from None
    return found


def compare(reference: Mapping[str, Any], here: Mapping[str, Any]) -> list[Compared]:
    """The figures of two evaluate.json that have an interval in both: levels, rankers of the main pair, verdicts."""
    known = dict(_figures(here))
    return [
        Compared(name=name, reference=figure, here=known[name]) for name, figure in _figures(reference) if name in known
    ]


def _figures(summary: Mapping[str, Any]) -> Iterator[tuple[str, Estimate]]:
    for name, level in summary["levels"].items():
        for key in ("quality", "all_facts"):
            yield from _one(f"{name}: {key}", level.get(key), level.get(f"{key}_ci"))
    ranking = {**summary["discriminators"], **summary["classifiers"], "hybrid": summary["hybrid"] or {}}
    for name, ranker in ranking.items():
        yield from _one(f"{name}: auc", ranker.get("auc"), ranker.get("auc_ci"))
        yield from _one(f"{name}: recovery_at_half", ranker.get("recovery_at_half"), ranker.get("ci"))
    for verdict in summary["verdicts"]:
        yield from _one(verdict["name"], verdict["got"], verdict["ci"])


def _one(name: str, value: float | None, ends: list[float | None] | None) -> Iterator[tuple[str, Estimate]]:
    if value is not None and ends is not None and ends[0] is not None and ends[1] is not None:
        yield name, Estimate(value, ends[0], ends[1])
