"""The offline sweep: what a setting costs and gives, which rows no other beats, and what is said of them."""

import dataclasses
import itertools
import json
from typing import Any

import numpy as np
import pytest

from agents.profiling.cascades.settings import grounds, known, settings
from agents.profiling.cascades.sweep import Sweep, front, intervals, optimism, sweep
from agents.profiling.cascades.table import MIN_PROMPTS, Choice, of_catalog_cascades, remarks, table_of, with_table
from agents.profiling.statistics.intervals import Resampling
from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog, Pair
from planner.catalog.profile import Profile
from planner.catalog.prompt_table import PromptTable, prompt_table
from planner.solvers.two_stage.problem import by_step
from streams.parsing.profile import parse
from tests.builders import a_catalog, a_variant
from tests.streams.parsing.test_profile import LEVEL, a_profile_file

ABOUT = {"created": "today", "command": "pochade profile cascades"}
QUICK = Choice(resampling=Resampling(seed=1, resamples=100))


def a_catalog_of_three(**changes: Any) -> Catalog:
    """`light` 20 ms, `middle` 80, `heavy` 200 in 25 steps; only light then heavy is offered."""
    variants = a_catalog().variants | {"middle": a_variant(name="middle", latency_ms={1: 80.0}, quality=0.9)}
    return a_catalog(**({"variants": variants} | changes))


def a_profile() -> Profile:
    levels = {name: LEVEL | {"quality": q} for name, q in (("light", 0.7), ("middle", 0.9), ("heavy", 0.95))}
    return parse(json.dumps(a_profile_file(levels=levels)), "test.json")


def some_prompts(n: int = 400, seed: int = 0, **changes: Any) -> PromptTable:
    """Light fails on the harder ones and its judge sees it through noise; over a draft from step 10 loses a bit."""
    rng = np.random.default_rng(seed)
    hardness = rng.random(n)
    light = (rng.random(n) > hardness**2).astype(float)
    heavy, middle = ((rng.random(n) > share * hardness).astype(float) for share in (0.05, 0.15))
    confidence = np.clip(0.6 * light + 0.3 + rng.normal(0, 0.15, n), 0, 1)
    rows = np.arange(0, n, 2)
    arrays = {
        "prompts": np.array([f"prompt {at}" for at in range(n)]), "seeds": np.arange(n), "hardness": hardness,
        "levels": np.array(["light", "middle", "heavy"]), "cost_ms": np.array([20.0, 80.0, 200.0]),
        "quality": np.stack([light, middle, heavy], axis=1), "facts": np.zeros((n, 3)),
        "judged": np.array(["look: light > heavy"]), "confidence": confidence[:, None], "over_rows": rows,
        "over_k": np.array([10]), "over_quality": np.clip(heavy[rows] - 0.1, 0, 1)[:, None],
    }  # fmt: skip
    return prompt_table(arrays | changes, "test.npz")


def swept(prompts: PromptTable | None = None, catalog: Catalog | None = None) -> Sweep:
    return sweep(catalog or a_catalog_of_three(), a_profile(), prompts or some_prompts(), lambda _: None)


def found_with(seen: Sweep, heavy: str, **wanted: float) -> list[int]:
    return [
        at
        for at, s in enumerate(seen.settings)
        if s.pair.heavy == heavy and all(getattr(s, name) == value for name, value in wanted.items())
    ]


def test_light_alone_is_worth_its_own_mean_by_bands_of_equal_weight() -> None:
    prompts, seen = some_prompts(), swept()
    (alone,) = found_with(seen, "heavy", hardness=1.0, threshold=0.0)
    easy = prompts.hardness < 0.5
    by_hand = [prompts.of("light")[easy].mean(), prompts.of("light")[~easy].mean()]
    assert seen.by_band(alone) == pytest.approx(by_hand)
    assert seen.quality[alone] == pytest.approx(np.mean(by_hand))
    assert seen.settings[alone].cost_ms == seen.settings[alone].path_ms == 20


def test_all_straight_is_heavy_s_own_and_costs_heavy_s_time() -> None:
    prompts, seen = some_prompts(), swept()
    (direct,) = found_with(seen, "heavy", hardness=0.0)
    easy = prompts.hardness < 0.5
    assert seen.quality[direct] == pytest.approx(
        np.mean([prompts.of("heavy")[easy].mean(), prompts.of("heavy")[~easy].mean()])
    )
    assert (seen.settings[direct].cost_ms, seen.settings[direct].straight) == (200, 1)


def test_a_setting_s_time_is_light_judging_and_what_heavy_still_generates() -> None:
    catalog = a_catalog_of_three()
    for setting in swept(catalog=catalog).settings[::37]:
        heavy_ms = run_ms(catalog.level(setting.pair.heavy), 1)
        over_ms = run_ms(catalog.level(setting.pair.heavy), 1, setting.pair.refine_from_step)
        drafts = 1 - setting.straight
        judged_ms = 20 + (1 if setting.threshold > 0 else 0)
        assert setting.cost_ms == pytest.approx(
            setting.straight * heavy_ms + drafts * (judged_ms + setting.deferred * over_ms)
        )
        assert setting.path_ms <= judged_ms + max(over_ms, heavy_ms)


def test_a_higher_threshold_of_the_discriminator_defers_more_and_of_the_router_sends_less_straight() -> None:
    """HADIS 3.3: monotone in both."""
    seen = swept().settings
    for setting, other in itertools.pairwise(s for s in seen if s.pair == Pair("light", "middle", "look")):
        if setting.hardness == other.hardness:
            assert other.deferred >= setting.deferred
        else:
            assert other.straight <= setting.straight


def test_what_a_start_step_changes_rests_on_the_prompts_it_was_generated_for() -> None:
    prompts, pair = some_prompts(), Pair("light", "heavy", "look")
    rows = known(pair, prompts)
    seen = list(settings(pair, a_catalog_of_three(), grounds(pair, a_profile(), prompts, rows)))
    wanted = [(s, v.sum()) for s, v in seen if s.hardness == 1.0 and s.threshold == 1.0]
    (blank, whole), (over, changed) = wanted
    assert (blank.pair.refine_from_step, over.pair.refine_from_step) == (0, 10)
    again = prompts.over_quality[:, 0] - prompts.of("heavy")[prompts.over_rows]
    easy = prompts.hardness[prompts.over_rows] < 0.5
    assert changed - whole == pytest.approx(np.mean([again[easy].mean(), again[~easy].mean()]))
    assert (blank.prompts, over.prompts) == (400, 200)
    assert over.cost_ms == pytest.approx(21 + 200 * 15 / 25)


def test_no_row_of_the_front_is_beaten_by_another_setting() -> None:
    seen = swept()
    quality = seen.quality
    for at in front(seen, 0.0):
        mine = seen.settings[at]
        beaten = [
            other
            for k, other in enumerate(seen.settings)
            if other.cost_ms <= mine.cost_ms and other.path_ms <= mine.path_ms and quality[k] > quality[at] + 1e-12
        ]
        assert not beaten


def test_a_gain_within_chance_makes_no_row() -> None:
    seen = swept()
    strict, sure = front(seen, 0.0), front(seen, 2.0)
    assert 1 < len(sure) < len(strict)
    noise = dataclasses.replace(seen, values=np.zeros_like(seen.values))
    assert len(front(noise, 0.0)) == 1


def test_a_shorter_way_stays_though_another_is_cheaper_and_better() -> None:
    """An SLO between the two ways leaves nothing else."""
    seen = swept()
    (direct,) = found_with(seen, "middle", hardness=0.0)
    other = next(at for at, s in enumerate(seen.settings) if s.cost_ms < 80 and s.path_ms > 80)
    values = np.zeros_like(seen.values[:2])
    values[0, 0], values[1, 0] = 0.9, 0.8
    both = dataclasses.replace(seen.of([other, direct]), values=values)
    assert front(both, 0.0) == [0, 1]


def test_half_of_the_prompts_promise_more_than_the_other_half_keeps() -> None:
    gap = optimism(swept(some_prompts(120)), 0.0, seed=1)
    assert gap is not None
    assert gap > 0
    assert gap == optimism(swept(some_prompts(120)), 0.0, seed=1)


def test_intervals_hold_the_value_and_narrow_with_more_prompts() -> None:
    few, many = (swept(some_prompts(n)) for n in (60, 600))
    widths = []
    for seen in (few, many):
        (alone,) = found_with(seen, "heavy", hardness=1.0, threshold=0.0)
        (found,) = intervals(seen.of([alone]), Resampling(seed=2, resamples=200))
        assert found.low <= seen.quality[alone] <= found.high
        assert found.value == pytest.approx(seen.quality[alone])
        widths.append(found.high - found.low)
    assert widths[1] < 0.6 * widths[0]


def test_the_table_holds_only_offered_pairs_and_reads_back_from_the_profile() -> None:
    catalog, seen = a_catalog_of_three(), swept()
    table = table_of(of_catalog_cascades(seen, catalog), catalog, QUICK, ABOUT)
    assert {(row.row.light, row.row.heavy) for row in table.rows} == {("light", "heavy")}
    assert all(row.low <= row.row.quality <= row.high for row in table.rows)
    text = with_table(json.dumps(a_profile_file()), table, "test.json")
    assert parse(text, "test.json").settings == table
    again = with_table(text, dataclasses.replace(table, rows=table.rows[:1]), "test.json")
    assert len(parse(again, "test.json").settings.rows) == 1  # type: ignore[union-attr]
    assert text.count('"light": "light", "heavy": "heavy"') == len(table.rows), "a row a line"


def test_two_discriminators_of_the_same_levels_have_rows_of_their_own() -> None:
    catalog, prompts = a_catalog_of_three(), some_prompts()
    look, guess = catalog.pair(), catalog.pair()._replace(discriminator="guess")
    judges = catalog.discriminators | {"guess": catalog.discriminator("look")}
    catalog = dataclasses.replace(catalog, discriminators=judges, cascades=(look, guess))
    confidence = np.column_stack([prompts.confidence, np.random.default_rng(3).permutation(prompts.confidence)])
    both = dataclasses.replace(prompts, judged=(*prompts.judged, "guess: light > heavy"), confidence=confidence)
    seen, own = swept(both, catalog), {}
    for pair in (look, guess):
        mine = seen.of([at for at, setting in enumerate(seen.settings) if setting.pair.key == pair.key])
        own[pair] = {row.row for row in table_of(mine, catalog, QUICK, ABOUT).rows}
    catalog = dataclasses.replace(catalog, pair_rows=(*own[look], *own[guess]))
    for pair, rows in own.items():
        assert {row for each in by_step(catalog, pair).values() for row in each} == rows
    best, worst = (max(row.quality for row in own[pair] if row.latency_ms < 100) for pair in (look, guess))
    assert best > worst, "at the same cost"


def test_what_to_know_of_a_table_is_said() -> None:
    catalog, seen = a_catalog_of_three(), swept()
    table = table_of(of_catalog_cascades(seen, catalog), catalog, QUICK, ABOUT)
    told = "\n".join(remarks(seen, catalog, table))
    assert "middle then heavy is not swept: middle's images were not judged" in told
    assert "light then middle would have rows too, but the catalog offers no such cascade" in told
    assert "less quality on the other half" in told
    few = [at for at, row in enumerate(table.rows, 1) if row.prompts < MIN_PROMPTS]
    assert (f"rows {', '.join(map(str, few))} rest on fewer than 30" in told) == bool(few)


def test_a_level_that_a_rule_drops_is_in_no_pair_and_is_named() -> None:
    """HADIS 3.2, candidate selection: here dominance."""
    levels = {name: LEVEL | {"quality": q} for name, q in (("light", 0.7), ("middle", 0.6), ("heavy", 0.95))}
    profile = parse(json.dumps(a_profile_file(levels=levels)), "test.json")
    catalog = a_catalog_of_three()
    seen = sweep(catalog, profile, some_prompts(), lambda _: None)
    assert {s.pair.heavy for s in seen.settings} == {"heavy"}
    table = table_of(of_catalog_cascades(seen, catalog), catalog, QUICK, ABOUT)
    assert "middle is left out of all pairs: dominated (HADIS 3.2)" in remarks(seen, catalog, table)


def test_prompts_that_nobody_judged_are_left_out_of_all_pairs() -> None:
    prompts = some_prompts()
    holes = prompts.confidence.copy()
    holes[:100] = np.nan
    assert swept(dataclasses.replace(prompts, confidence=holes)).values.shape[1] == 300


def test_nothing_judged_is_nothing_swept() -> None:
    prompts = some_prompts(judged=np.array([], str), confidence=np.zeros((400, 0)))
    seen = swept(prompts)
    assert seen.settings == ()
    assert front(seen, 1.0) == []
    assert optimism(seen, 1.0, 1) is None
