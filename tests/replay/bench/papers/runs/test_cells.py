"""One run of a question, and several in processes of their own."""

import dataclasses
import pathlib

import pytest

from planner.policies import POLICIES
from replay.bench.frontier.grid import GridCell
from replay.bench.papers.runs import run_store
from replay.bench.papers.runs.cell_runner import CellRunner
from replay.bench.papers.runs.cells import AFFINITY, REUSE, Cell, catalog_of, run, setup_of, with_parameters
from replay.bench.papers.runs.names import ARGUS, DIFFSERVE, JOINT, LIGHT
from schemas.errors import PochadeError, Unknown
from tests.builders import an_observation

CELL = Cell(catalog="diffserve-sdturbo", trace="constant-5", policy=LIGHT, slo_s=5, workers=4)


def test_equal_cells_come_to_the_same_and_one_asked_for_twice_runs_once() -> None:
    told: list[tuple[int, int]] = []
    with CellRunner(1, None, 40, lambda asked, done: told.append((asked, done))) as runner:
        first, again = runner.run([CELL, CELL])
        [later] = runner.run([CELL])
        here = run(CELL, runner.trace(CELL.trace, CELL.seed))
    assert first == again == later
    assert first._replace(cpu_s=0) == here._replace(cpu_s=0)
    assert (runner.runs, told) == (1, [(1, 1)])
    assert runner.cpu_s == first.cpu_s > 0
    assert sum(first.course.arrived) == 40


def test_a_folder_keeps_what_cells_came_to_and_another_crew_takes_it_unchanged(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CellRunner(1, None, 40, lambda *_: None, grid=tmp_path) as runner:
        [made] = runner.run([CELL])
        assert (runner.runs, runner.reused) == (1, 0)
    told = list[tuple[int, int]]()
    with CellRunner(1, None, 40, lambda asked, done: told.append((asked, done)), grid=tmp_path) as runner:
        [taken] = runner.run([CELL])
        assert (runner.runs, runner.reused) == (1, 1)
    assert repr(taken) == repr(made)  # nan is not equal to itself
    monkeypatch.setattr(run_store, "policy_digest", lambda _: "another state of the policy")
    with CellRunner(1, None, 40, lambda *_: None, grid=tmp_path) as runner:
        runner.run([CELL])
        assert runner.reused == 0


def test_an_unknown_catalog_is_told_from_another_process_too() -> None:
    with CellRunner(1, None, 40, lambda *_: None) as runner, pytest.raises(PochadeError, match="no-such"):
        runner.run([Cell(catalog="no-such", trace="constant-5", policy=LIGHT, slo_s=5)])


@pytest.mark.parametrize("name", ["argus-a100", "argus-a100" + AFFINITY])
def test_with_reuse_argus_begins_images_from_stored_ones_whichever_it_finds(name: str) -> None:
    seen = an_observation(8, demand_rps=2.5)
    without, cached = (POLICIES[ARGUS](seen, catalog_of(name + suffix), {}, {}) for suffix in ("", REUSE))
    assert (without.strategy, cached.strategy) == ("models", "reuse")
    assert cached.reuse is not None
    assert set(cached.reuse.hits.values()) == {1.0}
    assert set(cached.allocation.values()) == {catalog_of(name).best().name}


def test_plans_of_ours_do_not_depend_on_how_busy_the_machine_is() -> None:
    ours = setup_of(Cell(catalog="hadis-l40s", trace="constant-5", policy=JOINT, slo_s=60))
    assert ours.parameters == {}
    assert setup_of(CELL).parameters == {}


def test_parameters_are_added_to_a_cell_in_an_order_that_makes_equal_cells_equal() -> None:
    one = with_parameters(with_parameters(CELL, {"b": 1}), {"a": 2})
    assert one == with_parameters(CELL, {"a": 2, "b": 1})
    assert one.parameters == (("a", 2), ("b", 1))


def test_a_run_tells_the_pair_that_was_planned() -> None:
    with CellRunner(1, None, 30, lambda *_: None) as runner:
        cascade = Cell(catalog="diffserve-sdturbo", trace="constant-5", policy=DIFFSERVE, slo_s=5)
        plain = Cell(catalog="argus-a100", trace="constant-5", policy=ARGUS, slo_s=12.6, workers=8)
        assert run(cascade, runner.trace("constant-5")).pairs == {"sd-turbo > sd15": pytest.approx(1)}
        assert all(" > " not in pair for pair in run(plain, runner.trace("constant-5")).pairs)
    with pytest.raises(Unknown):
        run(with_parameters(cascade, {"nonsense": 1}), runner.trace("constant-5"))


def test_each_seed_of_a_cell_has_arrivals_of_its_own_unless_the_recorded_ones_are_asked_for() -> None:
    cells = [dataclasses.replace(CELL, trace="azure-1to8", seed=seed) for seed in (0, 1)]
    with CellRunner(1, None, 200, lambda *_: None) as runner:
        assert len({tuple(found.course.arrived) for found in runner.run(cells)}) == 2
    with CellRunner(1, None, 200, lambda *_: None, is_recorded=True) as runner:
        assert len({tuple(found.course.arrived) for found in runner.run(cells)}) == 1


def test_cells_take_the_time_between_processes_unless_the_crew_leaves_it_out() -> None:
    with CellRunner(1, None, 40, lambda *_: None) as runner:
        [live] = runner.run([CELL])
    with CellRunner(1, None, 40, lambda *_: None, has_hops=False) as runner:
        [ideal] = runner.run([CELL])
    assert ideal.p50_s < live.p50_s


def test_a_catalog_s_name_says_how_it_is_changed() -> None:
    one = catalog_of("hadis-l40s+pair=sd35-turbo>sd35-medium")
    assert [(pair.light, pair.heavy) for pair in one.cascades] == [("sd35-turbo", "sd35-medium")]
    with pytest.raises(Unknown, match="sd35-turbo>sd35-large"):
        catalog_of("hadis-l40s+pair=sd35-large>sd35-turbo")
    slower = catalog_of("argus-a100+time.sdxl=2+reuse")
    assert slower.level("sdxl").latency_ms[1] == 2 * catalog_of("argus-a100").level("sdxl").latency_ms[1]
    assert slower.reuse_profile is not None
    fitted, doubled = (catalog_of(f"argus-a100+affinity{value}").level("tiny-sd").quality for value in ("", "=2,0.812"))
    assert doubled == pytest.approx(20.9 - 2 * (20.9 - (fitted or 0.0)))


def test_wrong_classes_bring_a_band_s_quality_nearer_to_the_mean_of_all() -> None:
    right, half, wrong = (
        catalog_of(f"argus-a100+affinity+misread={share}").measured.quality["tiny-sd"]  # type: ignore[union-attr]
        for share in (0, 0.5, 1)
    )
    assert len(set(wrong)) == 1
    assert half == pytest.approx([(a + b) / 2 for a, b in zip(right, wrong, strict=True)])  # type: ignore[operator]
    assert len(set(right)) > 1


def test_a_cell_carries_what_experiments_switch_to_the_simulation() -> None:
    cell = Cell(catalog="argus-a100", trace="steady-50", policy=ARGUS, slo_s=12.6, workers=8)
    setup = setup_of(
        dataclasses.replace(cell, truth="argus-a100+time.sdxl=1.2", forecast="trend", beside=1.1, run_cv=0.5)
    )
    assert setup.true_catalog.level("sdxl").latency_ms[1] == 1.2 * setup.catalog.level("sdxl").latency_ms[1]
    assert (setup.forecast, setup.timing.residency.models) == ("trend", 2)
    assert setup.variation.run_cv["sdxl"] == {1: 0.5}
    assert setup_of(cell).variation.run_cv == {}


def test_cells_of_the_frontier_s_grid_are_taken_from_its_folder_where_they_are(tmp_path: pathlib.Path) -> None:
    cells = [
        GridCell(
            catalog="diffserve-sdturbo", trace="azure-1to8", truth="catalog", policy=LIGHT, parameters=(), seed=seed
        )
        for seed in (0, 1)
    ]
    told: list[tuple[int, int]] = []
    with CellRunner(1, None, 40, lambda asked, done: told.append((asked, done)), grid=tmp_path) as runner:
        first = runner.grid(cells)
        assert runner.runs == 2
        assert runner.cpu_s == sum(figures["cpu_s"] for figures in first)
    with CellRunner(1, None, 40, lambda *_: None, grid=tmp_path) as runner:
        assert runner.grid(cells) == first
        assert (runner.runs, runner.reused) == (2, 2)
    assert told[-1] == (2, 2)
