"""MLoRA's experiments: both sides in a short run, and which figures would speak against the study."""

import dataclasses
import pathlib

import pytest

from replay.bench.papers.answers import Asking, Scale
from replay.bench.papers.experiments.experiment import FAILS, HOLDS, settle
from replay.bench.papers.experiments.mlora import (
    BASELINE,
    EXPERIMENTS,
    OURS,
    newcomer_cells,
    requests_cells,
    sparse_cells,
)
from replay.bench.papers.runs import arrivals
from replay.bench.papers.runs.arrivals import EVERY_REQUEST, REQUESTS, SPARSE, open_trace
from replay.bench.papers.runs.cells import Cell, Found, run
from replay.bench.papers.runs.names import MLORA
from replay.bench.papers.runs.scaling import Scaled
from replay.bench.papers.runs.tiers import Moved
from replay.traces import InvalidTrace, Trace
from tests.replay.bench.papers.found import alike, found, graded
from tests.replay.bench.traces.test_gentd26_folder import folder_of, processed, timed

BY_NAME = {each.where: each for each in EXPERIMENTS}
FLEET = Scaled(16.0)
BEFORE = Moved(
    network_gb=100, disk_gb=400, device_hits=0.3, load_s=12, queue_s=100, per_worker_h=70, base_s=22.6, adapter_s=4.6,
    control_s=5.1, pipeline_s=14.4, base_cv=0.9, base_near=0.35, few_s=14.9, many_s=54.8, newcomer_s=20,
)  # fmt: skip
AFTER = BEFORE._replace(
    network_gb=10.5, disk_gb=159, device_hits=0.9, load_s=3, queue_s=17.1, per_worker_h=145, base_s=7.2, adapter_s=1.2,
    control_s=1.9, pipeline_s=4.4, newcomer_s=7.5,
)  # fmt: skip


def as_published(cell: Cell, before: Moved = BEFORE, after: Moved = AFTER, requests: int = 10) -> Found:
    """Return figures of the study's own size, a little other in each redraw."""
    is_ours = cell.policy == MLORA
    some = 1 + 0.001 * cell.seed**2 * (1 + is_ours)
    moved = Moved(*(value * some for value in (after if is_ours else before)))
    mean_s, p99_s, busy = (30.0, 120.0, 0.14) if is_ours else (60.0, 137.6, 0.06)
    came = found(moved=moved, mean_s=mean_s * some, p99_s=p99_s * some, utilization=busy * some, fleet=FLEET)
    return came._replace(course=came.course._replace(arrived=[requests if is_ours else 10] * 40))


def trace(name: str, redraw: int | None = None) -> Trace:
    return open_trace(name, None, None, redraw)


def standings(where: str, before: Moved = BEFORE, after: Moved = AFTER, requests: int = 10) -> list[str]:
    run_all = alike(lambda cell: as_published(cell, before, after, requests))
    [outcome] = settle([BY_NAME[where]], Asking(run=run_all, grid=graded(), trace=trace, scale=Scale(few=3)))
    return [each.standing for each in outcome.results]


RUN = [name for name, each in BY_NAME.items() if not each.why_not and not each.where.startswith("section 3")]


@pytest.mark.parametrize("where", RUN)
def test_figures_as_published_agree_with_every_check(where: str) -> None:
    found_here = standings(where)
    assert set(found_here) == {HOLDS}
    assert len(found_here) >= 2


@pytest.mark.parametrize("where", ["section 6.1.2", "Fig. 11", "Fig. 12", "Fig. 13"])
def test_a_placement_that_moves_and_loads_as_much_as_the_baseline_disagrees(where: str) -> None:
    found_here = standings(where, after=BEFORE)
    assert found_here[0] != HOLDS
    assert FAILS in found_here
    assert found_here.count(HOLDS) <= 3  # those of latencies and of the time that workers are busy


@pytest.mark.parametrize(
    ("where", "changes", "failing"),
    [
        ("Fig. 8b, section 5.2", {"base_s": 5.0}, 0),
        ("Fig. 8b, section 5.2", {"base_cv": 0.1}, 1),
        ("Fig. 8b, section 5.2", {"base_near": 0.05}, 2),
        ("section 5.3", {"many_s": 16.0}, 2),
    ],
)
def test_each_fact_of_the_baseline_fails_by_itself(where: str, changes: dict[str, float], failing: int) -> None:
    found_here = standings(where, before=BEFORE._replace(**changes))
    assert [at for at, each in enumerate(found_here) if each == FAILS] == [failing]


def test_sides_with_other_requests_are_no_comparison() -> None:
    assert standings("Fig. 10, section 7.1", requests=11)[-1] == FAILS


def test_made_requests_have_the_skew_and_the_tail_and_say_that_they_are_made() -> None:
    asking = Asking(run=alike(lambda _: found()), grid=graded(), trace=trace, scale=Scale(few=3))
    for where in ("section 3.1", "section 3.2"):
        [outcome] = settle([BY_NAME[where]], asking)
        assert {each.standing for each in outcome.results} == {HOLDS}
        assert all("of made requests" in each.here for each in outcome.results)


def test_components_are_placed_and_cost_fewer_bytes_and_loads_in_a_short_run() -> None:
    requests = open_trace(f"{SPARSE}40", None, 300, 0)
    sides = {side: run(cell, requests) for side, cell in sparse_cells(False).items()}
    ours, theirs = sides[OURS], sides[BASELINE]
    assert ours.moved.network_gb < theirs.moved.network_gb
    assert ours.moved.device_hits > theirs.moved.device_hits > 0
    assert ours.mean_s < theirs.mean_s
    assert theirs.moved.base_s > theirs.moved.adapter_s > 0
    assert theirs.moved.many_s > theirs.moved.few_s > 0
    assert ours.violations == 0 or ours.p99_s > 120  # nothing is dropped
    bare = run(dataclasses.replace(sparse_cells(False)[BASELINE], tiers=None), requests)
    assert (bare.moved, bare.mean_s < ours.mean_s) == (Moved(), True)


def test_workers_that_come_during_the_run_are_looked_at_for_their_first_calls() -> None:
    cell = newcomer_cells(False)[BASELINE]
    soon = tuple(dataclasses.replace(each, at_ms=each.at_ms / 10) for each in cell.outages)
    requests = open_trace(f"{REQUESTS}40", None, 250, 0)
    assert run(dataclasses.replace(cell, outages=soon), requests).moved.newcomer_s > 0
    assert run(requests_cells(False)[BASELINE], requests).moved.newcomer_s == 0


def test_published_requests_are_read_from_the_folder_or_the_one_beside_it_each_seed_another_stretch(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "STRETCH", 40)
    (tmp_path / "genai2026").mkdir()
    (tmp_path / "traces").mkdir()
    asked = [(f"b{n % 3}", [("x", 1.0)] if n % 5 == 0 else []) for n in range(90)]
    folder = folder_of(tmp_path / "genai2026", processed(*asked), timed(*[(f"u{n % 7}", "M0") for n in range(60)]))
    direct, beside = (open_trace(f"{REQUESTS}40", place, None, 0) for place in (folder, tmp_path / "traces"))
    assert len(direct) == 40
    assert direct.arrival_ms.tolist() == beside.arrival_ms.tolist()
    assert open_trace(f"{REQUESTS}40", folder, None, 1).arrival_ms.tolist() != direct.arrival_ms.tolist()
    assert open_trace(f"{REQUESTS}1", folder, None, 0).span_ms == pytest.approx(40 * direct.span_ms)
    assert len(open_trace(EVERY_REQUEST, folder, None)) == 90
    assert any(wish.options.controls for wish in direct.wishes)


def test_a_folder_without_the_published_requests_is_an_error_that_says_what_is_missing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidTrace, match="lora_request_trace"):
        open_trace(f"{REQUESTS}40", tmp_path, None, 0)
    made = open_trace(f"{REQUESTS}40", None, 50, 0)
    assert made.wishes[0].options.model.startswith("base-")
