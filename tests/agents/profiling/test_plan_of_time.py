"""The plan of time of a profile: by one timed call of each level, and cut to what a budget allows."""

import pathlib
from dataclasses import replace
from typing import Any

import pytest

from agents.profiling import plan_of_time
from agents.profiling.plan_of_time import LEAST, in_words, probe, probed, within, work_of
from agents.profiling.profiling import REPEATS, WARM_UP, Besides
from agents.profiling.run import Wanted
from agents.profiling.seeded_prompts import SeededPrompts
from planner.catalog.entries import Variant
from streams.parsing.catalog import parse as parse_catalog
from tests.agents.lab.evaluation.catalogs import CATALOG, a_level

TIMES = {"light": (1000.0, 10.0), "heavy": (9000.0, 1000.0)}


def wanted_of(**changes: Any) -> Wanted:
    asked = SeededPrompts(prompts=tuple(f"prompt {n}" for n in range(1000)), seeds=tuple(range(1000)))
    values: dict[str, Any] = {
        "catalog": parse_catalog(CATALOG, "small"), "levels": ("light", "heavy"), "asked": asked, "batches": (1, 4),
        "models": pathlib.Path("none"), "seed": 1, "scorer": "a-clip", "drafts": 300,
    }  # fmt: skip
    return Wanted(**values | changes)


def variants_of(wanted: Wanted) -> dict[str, Variant]:
    return {
        name: replace(wanted.catalog.level(name), load_ms=TIMES[name][0], latency_ms={1: TIMES[name][1]})
        for name in wanted.levels
    }


def test_one_call_of_each_level_says_how_long_loading_and_generating_take() -> None:
    load_ms, call_ms = probe(a_level(latency_ms={1: 30.0}, load_ms=50.0), 1, None)
    assert load_ms >= 50
    assert call_ms >= 30


def test_a_probe_is_made_in_a_process_of_its_own_and_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = wanted_of(levels=("light",))
    found = probed(wanted, tmp_path)
    assert list(found["light"].latency_ms) == [1], "a batch takes as long as its images"
    monkeypatch.setattr(plan_of_time, "pinned_pool", None)
    assert probed(wanted, tmp_path) == found


def test_the_work_is_counted_by_the_probed_times() -> None:
    wanted = wanted_of(besides=Besides(steps=(1, 2)))
    work = work_of(wanted, variants_of(wanted))
    assert work.timing_calls == wanted.rounds * 2 * (2 + 2) * (WARM_UP + REPEATS)
    assert work.images == 2000
    assert work.drafts == 3 * 300, "heavy begins at each of its steps 1 to 3"
    assert 1000 * (1000 + 10) < work.images_ms < 1000 * (1000 + 10 + 40)
    assert work.seconds(wanted, 4) < work.seconds(wanted, 1)
    assert work_of(wanted_of(is_generating=False), variants_of(wanted)).images == 0


def test_what_fits_the_budget_is_not_cut() -> None:
    wanted = wanted_of()
    assert within(wanted, variants_of(wanted), 1, 1e6) is wanted


def test_a_budget_cuts_prompts_and_drafts_alike_and_says_so() -> None:
    wanted = wanted_of()
    variants = variants_of(wanted)
    limit_s = work_of(wanted, variants).seconds(wanted, 1) / 2
    cut = within(wanted, variants, 1, limit_s)
    assert work_of(cut, variants).seconds(cut, 1) == pytest.approx(limit_s, rel=0.02)
    prompts = len(cut.asked.prompts)
    assert (cut.rounds, cut.drafts) == (5, pytest.approx(0.3 * prompts, abs=1))
    assert cut.left_out == (
        f"{1000 - prompts} of 1000 prompts: no time within --budget",
        f"{300 - cut.drafts} of 300 drafts to refine: no time within --budget",
    )
    assert f"left out: {cut.left_out[0]}" in list(in_words(cut, variants, 1))


def test_a_budget_that_is_too_small_for_all_leaves_one_round_and_four_prompts() -> None:
    wanted = wanted_of()
    cut = within(wanted, variants_of(wanted), 1, 1.0)
    assert (cut.rounds, len(cut.asked.prompts), cut.drafts) == (1, LEAST, 1)
    assert cut.left_out[0] == "4 of 5 rounds of timing: no time within --budget"


def test_the_plan_says_what_each_part_takes_and_on_how_many_cards() -> None:
    wanted = replace(wanted_of(), devices=(0, 1, 2, 3))
    lines = list(in_words(wanted, variants_of(wanted), 4))
    assert lines[1] == "heavy: loads in 9 s, an image in 1e+03 ms (one call)"
    assert lines[3].startswith("images: 2000, ")
    assert lines[4].startswith("drafts to refine: 900, ")
    assert lines[-1].endswith("with 4 cards, less what an earlier run has finished")
