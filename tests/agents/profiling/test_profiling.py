"""Profiling: what is measured of a level, and how it becomes a profile, a table and lines of a catalog."""

import json
import os
import pathlib
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from agents.commands.profile import profile
from agents.engines import open_engine
from agents.profiling import page_cache, plan_of_time, profiling, world
from agents.profiling import rounds as profiling_rounds
from agents.profiling.catalog import on_pinned_cards, snippet, updated
from agents.profiling.file import deferral
from agents.profiling.generation import orders
from agents.profiling.generation.orders import GeneratedImages, Order, generate_images
from agents.profiling.generation.pool import pinned_pool
from agents.profiling.profiling import (
    Besides,
    Round,
    Sample,
    clock_of,
    in_turns,
    samples,
    times_of,
    timing,
    usual_order,
)
from agents.profiling.rounds import ROUNDS, Measured, together
from planner.catalog.entries import Loading
from planner.catalog.prompt_table import prompt_table
from schemas.errors import PochadeError
from streams.cli import LazySettings
from streams.parsing.catalog import parse as parse_catalog
from streams.parsing.profile import parse
from tests.agents.lab.evaluation.catalogs import (
    CATALOG,
    a_catalog_file,
    a_level,
    dearer_is_better,
    no_rules_to_load,
    opening_in,
)
from tests.builders import a_catalog
from tests.patience import PATIENCE_S
from tests.streams.parsing.test_profile import LEVEL, a_profile_file, parsed

__all__ = ["dearer_is_better", "no_rules_to_load"]  # fixtures

CALLS = [Sample(4.0, 4.0), Sample(4.5, 5.0), Sample(5.0, 7.0)]


def a_round(**changes: Any) -> Round:
    values: dict[str, Any] = {
        "cold_load_ms": 900.0, "load_ms": 90.0, "memory_bytes": 1000, "cuda_bytes": 0, "calls": {1: CALLS, 2: CALLS},
        "failed": {8: "out of memory"},
    }  # fmt: skip
    return Round(**values | changes)


@pytest.fixture(autouse=True)
def _planned_by_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of time goes by the catalog's times, as a call of each level would cost a process of its own."""
    monkeypatch.setattr(
        plan_of_time, "probed", lambda wanted, _folder: {name: wanted.catalog.level(name) for name in wanted.levels}
    )


def run_profile(folder: pathlib.Path, *options: str) -> str:
    catalog = a_catalog_file(folder)
    told = CliRunner().invoke(
        profile,
        ["--catalog", str(catalog), "--out", str(folder), "--prompts", "12", "--jobs", "1", "--batches", "1,2",
         "--models", str(folder / "none"), *options],
        obj=LazySettings({"home": folder / "home"}, None), catch_exceptions=False,
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    return told.output


def test_a_call_is_timed_by_the_clock_that_counts() -> None:
    level = a_level(latency_ms={1: 30.0})
    call = partial(generate_images, open_engine("profile", level, 1), usual_order(level, 1))
    taken = list(samples(call, budget_s=600))
    wall, cpu = (timing(taken, clock) for clock in ("wall", "cpu"))
    assert wall.ms == wall.wall_ms == cpu.wall_ms >= 30
    assert wall.low_ms <= wall.ms <= wall.high_ms
    assert cpu.ms == cpu.cpu_ms < cpu.wall_ms, "it sleeps"


def test_levels_are_timed_in_turns_so_that_a_slow_minute_falls_upon_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(profiling, "ENOUGH_S", 0.0)
    called: list[str] = []
    calls = {name: partial(called.append, name) for name in ("light", "heavy")}
    found = in_turns(calls, budget_s=600, label="levels")
    assert [len(turn) for turn in found["light"]] == [len(turn) for turn in found["heavy"]] == [1] * profiling.TURNS
    warm = ["light"] * (profiling.WARM_UP + 1) + ["heavy"] * (profiling.WARM_UP + 1)
    assert called == warm + ["light", "heavy"] * (profiling.TURNS - 1)


def test_turns_end_when_their_time_is_spent_but_not_before_there_are_two() -> None:
    assert len(in_turns({"light": list}, budget_s=0, label="levels")["light"]) == 2


def test_a_turn_in_which_the_machine_was_slow_counts_once() -> None:
    quick, slow, drifting = [Sample(1, 9)], [Sample(2, 9)], [Sample(40, 9)]
    assert times_of([quick, slow, quick], [slow, [Sample(4, 9)], drifting], "cpu") == 0.5
    assert times_of([quick], [slow], "wall") == 1


def test_repeats_end_when_their_time_is_spent_and_quick_calls_are_repeated_for_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(list(samples(list, budget_s=0))) == 1
    assert len(list(samples(list, budget_s=600))) > profiling.REPEATS
    monkeypatch.setattr(profiling, "ENOUGH_S", 0.0)
    assert len(list(samples(list, budget_s=600))) == profiling.REPEATS


def test_a_figure_is_the_median_over_the_calls_of_all_rounds() -> None:
    slow = [Sample(2 * cpu, 2 * wall) for cpu, wall in CALLS]
    rounds = [a_round(memory_bytes=9), a_round(calls={1: slow, 2: slow}, load_ms=200.0), a_round(calls={1: CALLS})]
    found = together(rounds, "cpu")
    assert set(found.calls) == {1}, "a size that one round could not generate has no time"
    assert (found.calls[1].ms, found.calls[1].wall_ms, found.calls[1].repeats) == (5.0, 7.0, 9)
    assert (found.load_ms, found.memory_bytes) == (90.0, 1000)
    assert found.failed == {8: "out of memory"}


def test_a_level_counts_as_compiled_where_it_ran_compiled_in_every_round() -> None:
    runs = [a_round(is_compiled=True), a_round(is_compiled=True)]
    assert together(runs, "cpu").is_compiled
    assert not together([*runs, a_round()], "cpu").is_compiled, "one could not compile, and its times are mixed"


@pytest.mark.parametrize(
    ("engine", "device", "threads", "clock"),
    [
        ("diffusers", "cpu", 1, "cpu"),
        ("diffusers", "cpu", 2, "wall"),
        ("diffusers", "cuda", 1, "wall"),
        ("profile", "", 1, "wall"),
    ],
)
def test_cpu_time_counts_where_one_thread_of_a_cpu_generates(
    engine: str, device: str, threads: int, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling, "_is_on_cuda", lambda variant: variant.loading.device == "cuda")  # needs torch
    level = a_level(engine=engine, model="m" * (engine == "diffusers"), loading=Loading(device=device))
    assert clock_of(level, threads) == clock


def test_a_batch_that_finds_no_memory_is_told_and_smaller_ones_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory_for_four(engine: object, order: Order) -> None:  # noqa: ARG001
        if len(order.prompts) >= 4:
            raise RuntimeError("out of memory\nof 16 GiB")

    monkeypatch.setattr(profiling, "generate_images", no_memory_for_four)
    found = profiling.measure(a_level(), [8, 1, 2, 4], 1, 1)
    assert set(found.calls) == {1, 2}
    assert found.failed == {4: "out of memory"}
    with pytest.raises(PochadeError, match="generates no image here"):
        profiling.measure(a_level(), [4], 1, 1)


def test_the_deferral_curve_is_the_share_below_each_threshold() -> None:
    curve = dict(deferral(np.array([0.1, 0.3, 0.3, np.nan, 0.9])))
    assert (curve[0.0], curve[0.3], curve[0.35], curve[0.95], curve[1.0]) == (0.0, 0.25, 0.75, 1.0, 1.0)
    assert deferral(np.array([np.nan])) == ()


def test_written_figures_replace_the_old_ones_and_every_comment_stays() -> None:
    cascade = a_profile_file()["cascades"][0] | {"chosen_k": 3}
    levels = {"light": LEVEL | {"latency_ms": {"1": 12.3, "2": 11.0}}, "heavy": LEVEL}
    quick = parsed(levels=levels, cascades=[cascade])
    text = updated(CATALOG, quick)
    catalog = parse_catalog(text, "small")
    assert catalog.level("light").latency_ms == {1: 12.3, 2: 12.3}, "larger batches never take less"
    assert catalog.level("light").quality == 0.8
    assert catalog.level("middle") == parse_catalog(CATALOG, "small").level("middle")
    assert catalog.discriminator("look").deferral[0] == (0.5, 0.25)
    assert catalog.pair().refine_from_step == 3
    for comment in ("# a catalog for tests", "# draws"):
        assert comment in text


def test_a_catalog_without_the_level_is_not_written_into() -> None:
    with pytest.raises(PochadeError, match=r"no \[variants.heavy\]"):
        updated("[variants.light]\nsteps = 1\n", parsed(cascades=[]))


def test_the_snippet_can_be_pasted_into_a_catalog() -> None:
    import tomllib

    tables = tomllib.loads(snippet(parsed(judging_ms={"look": {"1": 2.5, "8": 9.0}})))
    assert tables["variants"]["light"] == {"latency_ms": {"1": 10.0, "4": 25.5}, "load_ms": 200, "quality": 0.8}
    assert tables["discriminators"]["look"]["latency_ms"] == {"1": 2.5, "8": 9.0}


@pytest.mark.torch
@pytest.mark.usefixtures("no_rules_to_load", "dearer_is_better")
def test_profile_writes_files_that_the_planner_reads_and_goes_on_where_it_was(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed_levels: list[str] = []

    def instead_of_a_process(_device: int | None, variant: Any, *rest: Any) -> Round:
        assert rest[-2].home == tmp_path / "home", "where its compiled code is read"
        timed_levels.append(variant.name)
        times = 1 if variant.name == "light" else 2
        calls = [Sample(times * cpu, times * wall) for cpu, wall in CALLS]
        return a_round(calls={1: calls, 2: calls})

    monkeypatch.setattr(profiling_rounds, "_in_new_process", instead_of_a_process)
    monkeypatch.setattr(orders, "open_engine", opening_in(tmp_path / "home"))
    monkeypatch.setattr(profiling, "ENOUGH_S", 0.0)  # cards cost what their catalog says, however often
    monkeypatch.setattr(GeneratedImages, "images", None)  # a level's images are never all in memory
    told = run_profile(tmp_path, "--write", "--drafts", "5")
    written = (tmp_path / "small.toml").read_text()
    assert parse_catalog(written, "small").level("heavy").latency_ms == {1: 10.0, 2: 10.0}
    assert "# a catalog for tests" in written
    swept = parse((tmp_path / "small.json").read_text(), "small.json").settings
    assert swept is not None
    assert min(found.row.latency_ms for found in swept.rows) >= 5, "by the times that were written, not those before"
    run_profile(tmp_path, "--drafts", "5")  # of the catalog as it was
    assert timed_levels == ["light", "middle", "heavy"] * ROUNDS, "in turns, and the second run has it already"
    assert "not measured: light, 8 images a call: out of memory" in told

    measured = parse((tmp_path / "small.json").read_text(), "small.json")
    assert (measured.catalog, measured.prompts) == ("small", 12)
    assert measured.levels["heavy"].latency_ms == {1: 10.0, 2: 10.0}
    assert measured.levels["heavy"].spread_ms[1] == 6.0
    (cascade,) = measured.cascades
    assert sum(measured.levels["heavy"].judged_by_band) == 12, "the number of prompts stands beside the quality"
    assert {sum(start.judged_by_band) for start in cascade.paint_over} == {5}
    low, high = measured.levels["heavy"].quality_interval or (1.0, 0.0)
    assert low <= (measured.levels["heavy"].quality or 0.0) <= high
    assert [start.k for start in cascade.paint_over] == [1, 2, 3]
    assert cascade.deferral[-1].deferred == 1.0
    assert json.loads((tmp_path / "small.json").read_text())["command"].startswith("pochade")

    with np.load(tmp_path / "small-quality.npz") as arrays:
        table = prompt_table(dict(arrays), "small-quality.npz")
    assert table.levels == ("light", "middle", "heavy")
    assert table.quality.shape == (12, 3)
    assert not np.isnan(table.quality).any()
    assert table.judged == ("look: light > heavy",)
    assert table.over_quality.shape == (5, 3), "as many drafts as asked for, at every step"


@pytest.mark.torch
@pytest.mark.usefixtures("no_rules_to_load", "dearer_is_better")
def test_a_clip_that_a_catalog_names_is_measured_and_its_cascades_are_swept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DiffServe 2.2 thresholds CLIPScore and PickScore: either may be a discriminator."""
    from tests.toys.judges import write_clip

    def instead_of_a_process(_device: int | None, variant: Any, *_: Any) -> Round:
        times = 1 if variant.name == "light" else 9
        calls = [Sample(times * cpu, times * wall) for cpu, wall in CALLS]
        return a_round(calls={1: calls, 2: calls})

    monkeypatch.setattr(profiling_rounds, "_in_new_process", instead_of_a_process)
    monkeypatch.setattr(profiling, "ENOUGH_S", 0.0)
    clip = f'engine = "clip-score"\nmodel = "{write_clip(tmp_path / "clip")}"'
    catalog = CATALOG.replace(
        '[discriminators.look]\nengine = "profile"\nfolder = ""', f"[discriminators.look]\n{clip}"
    )
    monkeypatch.setattr("tests.agents.lab.evaluation.catalogs.CATALOG", catalog)
    run_profile(tmp_path, "--write", "--drafts", "2")
    look = parse_catalog((tmp_path / "small.toml").read_text(), "small").discriminator("look")
    assert list(look.latency_ms) == [1, 2, 4, 8], "as measured, in place of what was typed"
    assert min(look.latency_ms.values()) > 0
    measured = parse((tmp_path / "small.json").read_text(), "small.json")
    assert measured.settings is not None
    assert measured.settings.rows
    with np.load(tmp_path / "small-quality.npz") as arrays:
        confidence = prompt_table(dict(arrays), "small-quality.npz").confidence
    assert len(set(confidence[:, 0].tolist())) > 6, "the images differ by their cosine"


@pytest.mark.torch
@pytest.mark.usefixtures("no_rules_to_load")
def test_prompts_outside_the_grammar_get_times_and_confidences_and_no_quality(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling_rounds, "_in_new_process", lambda *asked: a_round())  # noqa: ARG005
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("an old lighthouse\na robot barista\n\nmisty mountains\na tiny house\n")
    run_profile(tmp_path, "--prompt-file", str(prompts), "--levels", "light,heavy")
    measured = parse((tmp_path / "small-light-heavy.json").read_text(), "small.json")
    assert measured.prompts == 4
    assert set(measured.levels) == {"light", "heavy"}
    assert measured.levels["light"].quality is None
    assert measured.cascades[0].deferral


@pytest.mark.torch
@pytest.mark.usefixtures("no_rules_to_load")
def test_without_quality_nothing_but_times_is_measured(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling_rounds, "_in_new_process", lambda *asked: a_round())  # noqa: ARG005
    monkeypatch.setattr(world, "installed", lambda: None)  # as without pochade-lab: no prompt is needed
    run_profile(tmp_path, "--no-quality")
    measured = parse((tmp_path / "small.json").read_text(), "small.json")
    assert measured.levels["light"].load_ms == 90.0
    assert measured.cascades == ()
    assert not (tmp_path / "small-quality.npz").exists()


def test_a_level_is_timed_in_a_process_of_its_own(tmp_path: pathlib.Path) -> None:
    def time_light() -> Measured:
        light = [parse_catalog(CATALOG, "small").level("light")]
        return profiling_rounds.time_levels(light, (1, 2), tmp_path, threads=1, budget_s=0.0)["light"]

    found = time_light()
    assert set(found.calls) == {1, 2}
    assert found.cold_load_ms > 0
    assert time_light() == found, "it is kept"


def test_levels_are_timed_side_by_side_on_several_cards_and_no_card_has_two(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, seen, busy = threading.Barrier(2), list[tuple[str, int]](), set[int]()

    def instead_of_a_process(device: int, variant: Any, *_rest: Any) -> Round:
        assert device not in busy
        busy.add(device)
        seen.append((variant.name, device))
        both.wait(PATIENCE_S)
        busy.remove(device)
        return a_round()

    monkeypatch.setattr(profiling_rounds, "_in_new_process", instead_of_a_process)
    levels = [parse_catalog(CATALOG, "small").level(name) for name in ("light", "heavy")]
    profiling_rounds.time_levels(levels, (1, 2), tmp_path, threads=1, budget_s=1, devices=(3, 5))
    assert sorted(name for name, _ in seen) == ["heavy"] * ROUNDS + ["light"] * ROUNDS
    assert {device for _, device in seen} == {3, 5}


def test_a_process_of_a_card_sees_that_card_alone() -> None:
    with pinned_pool([5]) as pool:
        assert pool.submit(os.getenv, "CUDA_VISIBLE_DEVICES").result(PATIENCE_S) == "5"


def test_a_catalogs_own_card_is_the_only_one_that_a_pinned_process_sees() -> None:
    named = a_catalog(on_request={"xl": a_level(name="xl", loading=Loading(device="cuda:3"))})
    assert on_pinned_cards(named).level("xl").loading.device == "cuda"
    assert on_pinned_cards(named).level("light").loading.device == ""


def test_other_sizes_and_steps_are_timed_and_one_that_cannot_be_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []

    def generate(_engine: object, order: Order) -> None:
        variant = order.variant
        asked.append((variant.width, variant.height, variant.steps))
        if variant.width == 72:
            raise ValueError("`width` has to be divisible by 16")

    monkeypatch.setattr(profiling, "generate_images", generate)
    besides = Besides(sizes=((64, 48), (72, 64)), steps=(2, 9))
    found = profiling.measure(a_level(), [1], 1, 0.0, None, besides)
    assert set(found.shaped) == {"64x48@2", "64x48@9"}
    assert found.unshaped["72x64@2"] == "ValueError: `width` has to be divisible by 16"
    assert {(64, 48, 2), (64, 48, 9), (72, 64, 9)} <= set(asked)
    assert list(Besides(steps=(2,)).shapes(a_level(width=64, height=32))) == ["64x32@2"], "its own size"
    assert Besides().shapes(a_level()) == {}
    assert together([found, found], "wall").shaped["64x48@2"].repeats == 2


@pytest.mark.torch
def test_times_of_other_sizes_are_printed_beside_the_rule_by_pixels_and_steps(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = parse_catalog(CATALOG, "small").level("heavy")
    size = f"{2 * level.width}x{level.height}"
    shaped = a_round(shaped={f"{size}@{level.steps}": [Sample(11.0, 11.0)] * 2}, unshaped={}, disk_load_ms=700.0)
    monkeypatch.setattr(profiling_rounds, "_in_new_process", lambda *asked: shaped)  # noqa: ARG005
    options = ["--no-quality", "--levels", "heavy", "--sizes", size, "--cold-loads", "--write"]
    told = run_profile(tmp_path, *options)
    assert f"# heavy {size}, {level.steps} steps: 11 ms, +10% of the 10 ms by pixels and steps alone" in told
    assert "# heavy loads in 700 ms from the disk, but 100% of its files stayed in memory, 90 ms from memory" in told
    assert parse_catalog((tmp_path / "small.toml").read_text(), "small").level("heavy").load_ms == 700
    assert parse((tmp_path / "small-heavy.json").read_text(), "small.json").levels["heavy"].load_ms == 90


@pytest.mark.parametrize(
    ("option", "value"),
    [("--sizes", "512"), ("--sizes", "0x9"), ("--steps", "a"), ("--steps", "0"), ("--batches", "1,x")],
)
def test_lists_that_are_none_are_refused_with_an_example(option: str, value: str, tmp_path: pathlib.Path) -> None:
    told = CliRunner().invoke(
        profile, ["--catalog", str(a_catalog_file(tmp_path)), option, value], obj=LazySettings({}, None)
    )
    assert told.exit_code == 2
    assert "such as" in told.output


@pytest.mark.torch
@pytest.mark.usefixtures("no_rules_to_load", "dearer_is_better")
def test_a_budget_leaves_out_prompts_and_the_profile_says_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling_rounds, "_in_new_process", lambda *asked: a_round())  # noqa: ARG005
    told = run_profile(tmp_path, "--levels", "light", "--budget", "0.001")
    assert "in all about" in told
    assert "left out: 8 of 12 prompts: no time within --budget" in told
    written = json.loads((tmp_path / "small-light.json").read_text())
    assert written["prompts"] == 4
    assert "8 of 12 prompts: no time within --budget" in written["notes"]


def test_a_model_is_loaded_from_the_disk_after_its_files_were_dropped(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unet").mkdir()
    weights = tmp_path / "unet" / "model.safetensors"
    weights.write_bytes(bytes(1 << 20))
    level, dropped = a_level(model=str(tmp_path)), list[str]()
    real = os.posix_fadvise

    def drop(handle: int, *rest: int) -> None:
        dropped.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle, *rest)

    monkeypatch.setattr(os, "posix_fadvise", drop)
    assert page_cache.files_of(level) == [weights]
    found = profiling.measure(level, [1], 1, 0.0, None, Besides(is_cold=True))
    assert dropped == [str(weights)]
    assert found.disk_load_ms is not None
    assert 0 <= found.kept_share <= 1


def test_files_that_the_system_keeps_in_memory_are_counted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(1 << 20))
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: None)  # as on a file system in memory
    assert page_cache.forget([file]) == 1.0
    assert page_cache.forget([]) == 1.0, "nothing was dropped"
