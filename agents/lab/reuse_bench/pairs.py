"""Hand-written pairs of prompts, and the share of them that a guard lets through."""

import importlib.resources
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from planner.reuse.guard import Verdict
from planner.reuse.lookups.lookup import Compare

ADVERSARIAL: Final = "adversarial"  # one stated fact differs
PARAPHRASES: Final = "paraphrases"  # every stated fact is equal
PASSES: Final = (Verdict.EQUAL, Verdict.STYLE)  # what a guard of any plan takes for equal facts


class Pair(NamedTuple):
    """Two prompts, with the kind of change between them in a word."""

    kind: str
    first: str
    second: str


def read_pairs(name: str) -> list[Pair]:
    """Read the shipped pairs of a name: one a line, kind and both prompts separated by tabs."""
    text = importlib.resources.files("agents.lab.reuse_bench").joinpath(f"pairs/{name}.tsv").read_text(encoding="utf-8")
    return [Pair(*line.split("\t")) for line in text.splitlines()]


def passing(pairs: Sequence[Pair], compare: Compare) -> dict[str, Any]:
    """Return the share of the pairs whose facts a guard finds equal, in all and by kind of change."""
    passed = [pair.kind for pair in pairs if compare(pair.first, pair.second).verdict in PASSES]
    counted, let_through = Counter(pair.kind for pair in pairs), Counter(passed)
    return {
        "share": round(len(passed) / len(pairs), 4) if pairs else None,
        "pairs": len(pairs),
        "by_kind": {kind: round(let_through[kind] / count, 4) for kind, count in sorted(counted.items())},
    }
