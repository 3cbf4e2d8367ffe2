"""Whether two evaluations tell the same."""

import dataclasses
import json
import math
import pathlib
from typing import Any

import numpy as np
import pytest

from agents.lab.evaluation.reproduction import Compared, compare, doubts, read
from agents.profiling.statistics.intervals import proportion
from schemas.errors import PochadeError
from streams.shipped import MODELS

EMPTY = '{"levels": {}, "discriminators": {}, "classifiers": {}, "hybrid": null, "verdicts": []}'
WORD = EMPTY.replace('"levels": {}', '"levels": {"light": {"quality": "x", "quality_ci": [0, 1]}}')


def figures(value: float, low: float, high: float, **verdict: Any) -> dict[str, Any]:
    """The parts of an evaluate.json that are compared, with one level."""
    level = {"quality": value, "quality_ci": [low, high], "facts": None, "facts_ci": None}
    told = [{"name": "wanted", "got": None, "ci": None} | verdict]
    return {"levels": {"light": level}, "discriminators": {}, "classifiers": {}, "hybrid": None, "verdicts": told}


def test_a_figure_outside_the_interval_of_the_other_may_still_be_chance() -> None:
    (same,) = compare(figures(0.80, 0.78, 0.82), figures(0.825, 0.80, 0.85))
    assert (same.name, same.is_within, same.differs) == ("light: quality", True, False)
    reach = math.hypot(0.025, 0.02)
    assert dataclasses.astuple(same.difference) == pytest.approx((0.025, 0.025 - reach, 0.025 + reach))
    (other,) = compare(figures(0.80, 0.78, 0.82), figures(0.85, 0.83, 0.87))
    assert other.differs


def test_fewer_prompts_may_lie_further_from_the_reference() -> None:
    reference, other = {**figures(0.80, 0.78, 0.82), "prompts": 4000}, figures(0.84, 0.80, 0.88)
    for prompts, low, high, is_within in ((4000, 0.7717, 0.8283, False), (1000, 0.7553, 0.8447, True)):
        (found,) = compare(reference, {**other, "prompts": prompts})
        assert dataclasses.astuple(found.predicted) == pytest.approx((0.80, low, high), abs=1e-4)
        assert found.is_within == is_within


def test_lopsided_intervals_are_added_end_by_end() -> None:
    (found,) = compare(figures(0.80, 0.70, 0.82), figures(0.90, 0.80, 0.93))
    below, above = math.hypot(0.10, 0.02), math.hypot(0.03, 0.10)
    assert dataclasses.astuple(found.difference) == pytest.approx((0.10, 0.10 - below, 0.10 + above))


def test_figures_of_another_pair_hybrid_or_step_are_not_compared_and_that_is_told() -> None:
    shipped = read(MODELS / "evaluate.json")
    for change, lost in (
        ({"chosen_k": 6}, {"paint over at the chosen K: quality above blank"}),
        (
            {"hybrid": shipped["hybrid"] | {"image": "real"}},
            {"hybrid: auc", "hybrid: recovery_at_half", "hybrid above the better of its two, recovery at half"},
        ),
    ):
        other = {**shipped, "seed": 1, **change}
        assert {each.name for each in compare(shipped, shipped)} - {
            each.name for each in compare(shipped, other)
        } == lost
        (told,) = doubts(shipped, other)
        assert all(name in told for name in lost)
    other = {**shipped, "pair": {"light": "middle", "heavy": "heavy"}}
    assert {each.name.split(": ")[1] for each in compare(shipped, other)} == {"quality", "facts"}


def test_no_figure_is_told_twice() -> None:
    shipped = read(MODELS / "evaluate.json")
    told = [dataclasses.astuple(each.here) for each in compare(shipped, shipped)]
    assert len(set(told)) == len(told)


def test_the_same_prompts_and_few_prompts_are_told() -> None:
    few = {**figures(0.8, 0.7, 0.9), "seed": 1, "prompts": 48, "stream": "easy"}
    told = "\n".join(doubts(few, few))
    assert "take another seed" in told
    assert "of 48 prompts" in told
    assert doubts({**few, "prompts": 900}, {**few, "prompts": 900, "seed": 2}) == []
    (told,) = doubts({**few, "prompts": 900}, {**few, "prompts": 900, "seed": 2, "stream": "standard"})
    assert "two streams, easy and standard" in told


def test_what_one_of_the_two_has_not_measured_is_left_out() -> None:
    known = figures(0.8, 0.7, 0.9, got=0.5, ci=[0.4, 0.6])
    assert [figure.name for figure in compare(known, known)] == ["light: quality", "wanted"]
    assert [figure.name for figure in compare(known, figures(0.8, 0.7, 0.9))] == ["light: quality"]


def test_two_samples_of_the_same_differ_or_lie_elsewhere_in_about_one_case_of_twenty() -> None:
    rng = np.random.default_rng(7)
    seen = []
    for _ in range(400):
        first, second = (proportion(rng.random(count) < 0.8) for count in (1000, 600))
        seen.append(Compared(name="it", reference=first, here=second, prompts_ratio=1000 / 600))
    differ = np.mean([each.differs for each in seen])
    outside = np.mean([not each.is_within for each in seen])
    assert 0.02 <= differ <= 0.08
    assert 0.02 <= outside <= 0.08


def test_the_shipped_evaluation_is_itself() -> None:
    shipped = read(MODELS / "evaluate.json")
    found = compare(shipped, shipped)
    assert len(found) > 20
    assert all(figure.is_within and not figure.differs for figure in found)
    assert json.loads(json.dumps([figure.row for figure in found]))[0]["difference"]["value"] == 0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"levels": {"light": 3}}', "null", EMPTY, WORD])
def test_another_file_is_refused_in_words(tmp_path: pathlib.Path, text: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(PochadeError, match=r"other\.json is no evaluate\.json .* name one that"):
        read(file)
