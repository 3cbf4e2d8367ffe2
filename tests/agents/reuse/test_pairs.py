"""The guard on hand-labelled pairs: what it lets through and what it refuses, as its README tells.

`pairs.jsonl` was written by somebody who had not seen the reader. Half of the pairs, by a hash of their id, were looked
at to mend it; the other half, "sealed", was only measured.
"""

import hashlib
import json
from functools import cache
from typing import Any

import pytest

from agents.reuse.prompt_facts import FactReader
from planner.reuse.guard import Verdict
from tests.paths import ROOT

PAIRS = ROOT / "tests" / "agents" / "reuse" / "pairs.jsonl"


@cache
def verdicts() -> list[tuple[dict[str, Any], bool]]:
    """Each pair, and whether the guard lets it pass."""
    reader = FactReader()
    pairs = [json.loads(line) for line in PAIRS.read_text().splitlines()]
    return [(pair, reader.compare(pair["a"], pair["b"]).verdict in (Verdict.EQUAL, Verdict.STYLE)) for pair in pairs]


def is_sealed(pair: dict[str, Any]) -> bool:
    """Whether nobody looked at a pair while the reader was mended."""
    return hashlib.sha256(pair["id"].encode()).digest()[0] % 2 == 1


def share(label: str, **wanted: bool) -> float:
    """Share of the pairs with this label that pass; `wanted`: of the world, sealed."""
    passed = [
        has_passed
        for pair, has_passed in verdicts()
        if pair["label"] == label
        and all((pair["world"] if name == "world" else is_sealed(pair)) == value for name, value in wanted.items())
    ]
    assert len(passed) > 60
    return sum(passed) / len(passed)


@pytest.mark.parametrize("wanted", [{}, {"world": True}, {"world": False}, {"sealed": True}, {"sealed": False}])
def test_at_most_one_in_a_hundred_different_pairs_passes(wanted: dict[str, bool]) -> None:
    assert share("different", **wanted) <= 0.01


@pytest.mark.parametrize(
    ("wanted", "least"),
    [
        ({}, 0.69),
        ({"world": True}, 0.83),
        ({"world": False}, 0.55),
        ({"sealed": True}, 0.63),
        ({"sealed": True, "world": True}, 0.80),
        ({"sealed": True, "world": False}, 0.45),
    ],
)
def test_paraphrases_pass_as_often_as_was_measured_less_a_little(wanted: dict[str, bool], least: float) -> None:
    assert share("same", **wanted) >= least
