"""Hand-written pairs of prompts, and the share of them that a guard lets through."""

import hashlib
import importlib.resources
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from planner.reuse.guard import Compare, Verdict

ADVERSARIAL: Final = "adversarial"  # one stated fact differs
PARAPHRASES: Final = "paraphrases"  # every stated fact is equal
DIFFERENT: Final = "labelled_different"  # by somebody else, and harder: facts differ
REGRESSIONS: Final = "regressions"  # facts differ; what guards of other versions once took for equal, or might
SAME: Final = "labelled_same"  # and facts are equal
PASSES: Final = (Verdict.EQUAL, Verdict.STYLE)  # what a guard of any plan takes for equal facts


class Pair(NamedTuple):
    """Two prompts, with the kind of change between them in a word."""

    kind: str
    first: str
    second: str
    id: str = ""  # of labelled pairs; "w-...": on the tiny world


def read_pairs(name: str) -> list[Pair]:
    """Read the shipped pairs of a name: a line has kind, both prompts and maybe an id between tabs."""
    text = importlib.resources.files("agents.lab.reuse_bench").joinpath(f"pairs/{name}.tsv").read_text(encoding="utf-8")
    return [Pair(*line.split("\t")) for line in text.splitlines()]


def is_sealed(pair: Pair) -> bool:
    """Return whether a labelled pair is in the half, by a hash of its id, that guards are developed without."""
    return hashlib.sha256(pair.id.encode()).digest()[0] % 2 == 1


def passing(pairs: Sequence[Pair], compare: Compare) -> dict[str, Any]:
    """Return the share of the pairs whose facts a guard finds equal, in all and by kind of change."""
    passed = [pair.kind for pair in pairs if compare(pair.first, pair.second).verdict in PASSES]
    counted, let_through = Counter(pair.kind for pair in pairs), Counter(passed)
    return {
        "share": round(len(passed) / len(pairs), 4) if pairs else None,
        "pairs": len(pairs),
        "by_kind": {kind: round(let_through[kind] / count, 4) for kind, count in sorted(counted.items())},
    }
