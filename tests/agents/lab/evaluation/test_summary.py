"""evaluate.json: its schema, its figures, its verdicts."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from agents.lab.evaluation.observations import Evaluation, Judged, Pair
from agents.lab.evaluation.statistics.merits import recovery_at
from agents.lab.evaluation.summary import schema, summarise
from agents.lab.world.facts import KINDS
from agents.learning.calibration import auc
from agents.profiling.statistics.intervals import Resampling
from schemas.errors import Unknown
from tests.agents.lab.evaluation.builders import an_evaluation, with_the_pair_alone

HOW = Resampling(seed=1, resamples=30)
WHOLE = an_evaluation()


@cache
def summary() -> dict[str, Any]:
    return summarise(WHOLE, HOW)


def verdict(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(v for v in found["verdicts"] if v["name"] == name)


def with_main(**changes: object) -> Evaluation:
    main: Pair = replace(WHOLE.main, **changes)
    return replace(WHOLE, pairs={"main": main})


def test_the_schema_is_itself_valid_and_wants_every_field_the_issue_names() -> None:
    Draft202012Validator.check_schema(schema())
    assert set(schema()["required"]) >= {
        "prompts", "seed", "levels", "pair", "light_at_least_as_good", "discriminators", "classifiers", "hybrid",
        "random_quality_at_half", "oracle_quality_at_half", "paint_over", "reuse",
    }  # fmt: skip
    wanted = {
        "level": {"quality", "facts", "quality_easy", "quality_hard", "cost_ms", "fid"},
        "named_pair": {"light", "heavy"},
        "discriminator": {"auc", "recovery_at_half", "ci"},
        "classifier": {"auc", "recovery_at_half", "ci", "ms"},
        "hybrid": {"auc", "recovery_at_half", "ci"},
        "step": {"k", "quality", "cost_share"},
    }
    assert all(set(schema()["$defs"][name]["required"]) >= fields for name, fields in wanted.items())


def test_a_summary_keeps_to_the_schema_through_json() -> None:
    Draft202012Validator(schema()).validate(json.loads(json.dumps(summary(), allow_nan=False)))


def test_a_summary_with_nothing_measured_beyond_the_pair_keeps_to_it_too() -> None:
    bare = with_the_pair_alone(WHOLE)
    found = summarise(bare, HOW)
    Draft202012Validator(schema()).validate(found)
    assert found["levels"]["tiny"]["fid"] is None
    assert verdict(found, "paint over at the chosen K: share of the work")["got"] is None
    assert not verdict(found, "paint over at the chosen K: share of the work")["met"]


def test_where_light_and_heavy_always_tie_recovery_is_null_and_nothing_is_claimed() -> None:
    found = summarise(with_main(light="large"), HOW)
    Draft202012Validator(schema()).validate(found)
    assert found["discriminators"]["facts"]["recovery_at_half"] is None
    assert found["light_at_least_as_good"] == 1
    assert found["discriminators"]["facts"]["gain_at_half"] == 0
    assert not verdict(found, "discriminator: gain at half")["met"]


def test_the_schema_notices_a_missing_and_a_foreign_field() -> None:
    validator = Draft202012Validator(schema())
    assert not validator.is_valid({k: v for k, v in summary().items() if k != "hybrid"})
    assert not validator.is_valid(summary() | {"surprise": 1})


def test_figures_are_those_of_the_arrays() -> None:
    light, heavy = WHOLE.levels["tiny"], WHOLE.levels["large"]
    scores = WHOLE.main.discriminators["facts"].light
    found = summary()
    assert found["levels"]["tiny"]["quality"] == pytest.approx(light.quality.mean(), abs=1e-5)
    hard = np.argsort(WHOLE.hardness)[-100:]
    assert found["levels"]["tiny"]["quality_hard"] == pytest.approx(light.quality[hard].mean(), abs=1e-5)
    assert found["discriminators"]["facts"]["auc"] == pytest.approx(
        auc(scores, light.quality >= heavy.quality), abs=1e-5
    )
    assert found["discriminators"]["facts"]["recovery_at_half"] == pytest.approx(
        recovery_at(scores, light.quality, heavy.quality, 0.5), abs=1e-5
    )
    assert found["random_quality_at_half"] == pytest.approx((light.quality + heavy.quality).mean() / 2, abs=1e-5)
    three = WHOLE.objects == 3
    assert found["levels"]["tiny"]["quality_by_objects"]["3"]["value"] == pytest.approx(
        light.quality[three].mean(), abs=1e-5
    )


def test_each_pair_has_metrics_and_judges_beside_what_a_random_choice_reaches() -> None:
    for pair in summary()["pairs"].values():
        assert set(pair["discriminators"]) == {"facts", "cosine"}
        curves = pair["curves"]
        chance = pair["light_quality"] + np.array(curves["share"]) * (pair["heavy_quality"] - pair["light_quality"])
        assert curves["quality"]["random"]["value"] == pytest.approx(chance, abs=1e-4)
        assert set(curves["quality"]) == {"mlp", "rule", "facts", "cosine", "hybrid", "oracle", "random"}


def test_misses_are_told_by_kind_where_they_were_looked_at() -> None:
    misses = summary()["levels"]["tiny"]["misses"]
    assert list(misses) == list(KINDS)
    assert misses["count"]["value"] == pytest.approx(1 - summary()["levels"]["tiny"]["quality"], abs=1e-5)
    assert {misses[kind]["value"] for kind in KINDS[1:]} == {0.0}
    assert "misses" not in summarise(with_the_pair_alone(WHOLE), HOW)["levels"]["tiny"]


def test_the_same_evaluation_and_seed_give_the_same_summary() -> None:
    assert summarise(WHOLE, HOW) == summary()


def test_every_interval_holds_its_figure() -> None:
    def check(value: Any) -> int:
        if isinstance(value, list):
            return sum(check(inner) for inner in value)
        if not isinstance(value, dict):
            return 0
        named = [(value[key], value[f"{key}_ci"]) for key in value if f"{key}_ci" in value]
        for figure, (low, high) in named:
            assert low - 1e-5 <= figure <= high + 1e-5
        return len(named) + sum(check(inner) for inner in value.values())

    assert check(summary()["levels"]) + check(summary()["pairs"]) > 40


def test_no_ranker_is_ever_chosen_on_the_test_prompts() -> None:
    truth = WHOLE.levels["tiny"].quality - WHOLE.levels["large"].quality
    clairvoyant = {**WHOLE.main.discriminators, "clairvoyant": Judged(light=truth)}
    found, before = summarise(with_main(discriminators=clairvoyant), HOW), summary()
    assert found["discriminators"]["clairvoyant"]["recovery_at_half"] == 1
    assert found["hybrid"]["image"] == "facts"
    assert found["hybrid"]["recovery_at_half"] == before["hybrid"]["recovery_at_half"]
    assert verdict(found, "discriminator: AUC") == verdict(before, "discriminator: AUC")


def test_a_hybrid_that_is_surely_worse_than_its_better_half_is_told() -> None:
    truth = WHOLE.levels["tiny"].quality - WHOLE.levels["large"].quality
    pair = with_main(
        discriminators={"facts": Judged(light=truth)},
        benefits={"mlp": -truth},
        hybrid=replace(WHOLE.main.hybrid, prompt_scale=np.sort(-truth), image_scale=np.sort(truth)),
        thresholds={},
    )
    name = "hybrid above the better of its two, recovery at half"
    assert not verdict(summarise(pair, HOW), name)["met"]
    assert verdict(summary(), name)["met"]


def test_verdicts_follow_the_figures() -> None:
    assert verdict(summary(), "levels dominated in cost and quality")["got"] == 1
    assert not verdict(summary(), "levels dominated in cost and quality")["met"]
    assert verdict(summary(), "cost of the dearest level over the cheapest")["met"]
    slow = replace(WHOLE, classifiers={**WHOLE.classifiers, "mlp": replace(WHOLE.classifiers["mlp"], ms=5.1)})
    assert verdict(summary(), "classifier: ms a prompt")["met"]
    assert not verdict(summarise(slow, HOW), "classifier: ms a prompt")["met"]
    late = summarise(replace(WHOLE, chosen_k=40), HOW)
    assert not verdict(late, "paint over at the chosen K: quality above blank")["met"]
    assert verdict(late, "paint over at the chosen K: share of the work")["got"] == pytest.approx(0.2)


def test_a_note_stands_beside_its_verdict_and_a_note_on_nothing_is_refused() -> None:
    found = summarise(WHOLE, HOW, {"classifier: AUC": "a bag of words sees no positions"})
    assert verdict(found, "classifier: AUC")["why"] == "a bag of words sees no positions"
    with pytest.raises(Unknown, match="did you mean 'classifier: AUC'"):
        summarise(WHOLE, HOW, {"classifier: AUK": "typo"})


def test_bad_drafts_are_those_with_a_fact_wrong() -> None:
    rows = WHOLE.shipped_refinement.rows
    wrong = int((~WHOLE.levels["tiny"].is_right[rows]).sum())
    assert summary()["paint_over_variants"]["bad drafts only"]["blank"]["prompts"] == wrong


def test_a_threshold_is_told_with_what_became_of_it_on_fresh_prompts() -> None:
    found = summary()["discriminators"]["facts"]["threshold"]
    kept = WHOLE.main.discriminators["facts"].light >= found["value"]
    assert found["fresh_kept_share"] == pytest.approx(kept.mean(), abs=1e-5)
    assert found["fresh_wrong_share"] == pytest.approx((~WHOLE.levels["tiny"].is_right[kept]).mean(), abs=1e-5)
