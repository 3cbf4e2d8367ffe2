"""Prompts with their hardness, from a CSV: a column `prompt`, and `hardness` or the eight counts of HADIS's rules."""

import pathlib
from importlib import resources
from typing import Final

import numpy as np

from planner.serving.hardness import FEATURES, PromptFeatures, Reference, hardness, raw_score
from replay.traces.formats.csv_rows import table
from replay.traces.formats.faults import Faults, quoted
from replay.traces.formats.fields import Unfit, share, whole
from replay.traces.formats.lines import open_lines
from replay.traces.shapes import Graded
from replay.traces.trace import InvalidTrace

WHAT: Final = "a CSV with the columns prompt and hardness, or prompt and the rules' counts " + ", ".join(FEATURES)


def read_graded(path: pathlib.Path, reference: Reference, *, is_lenient: bool = False) -> Graded:
    """The prompts of a file; counts are judged by the rules on the `reference`. Raises: InvalidTrace."""
    faults = Faults(str(path), is_lenient=is_lenient)
    texts: list[str] = []
    values: list[float] = []
    with open_lines(path, faults, InvalidTrace, WHAT) as lines:
        found = table(lines, faults)
        has_hardness, has_counts = "hardness" in found.columns, set(FEATURES) <= set(found.columns)
        if "prompt" not in found.columns or not (has_hardness or has_counts):
            got = quoted(",".join(found.columns))
            raise InvalidTrace(f"{path}:{found.line}: not {WHAT}: got the columns {got}")
        for where, fields in found.rows:
            try:
                value = share(fields["hardness"], "hardness") if has_hardness else _by_rules(fields, reference)
                texts.append(fields["prompt"])
                values.append(value)
            except Unfit as fault:
                faults.found(where, fault.kind, str(fault))
    if not texts:
        raise InvalidTrace(f"{path} has no prompts{faults.describe()}: give {WHAT}")
    return Graded(texts=tuple(texts), hardness=np.array(values, dtype=np.float64))


def _by_rules(fields: dict[str, str], reference: Reference) -> float:
    counts = PromptFeatures(**{name: whole(fields[name], name) for name in FEATURES})
    return hardness(raw_score(counts, reference.weights), reference)


def of_rules() -> Reference:
    """The reference of the rules that ships."""
    return Reference.parse(
        resources.files("planner.serving").joinpath("hardness_reference.json").read_text(encoding="utf-8")
    )
