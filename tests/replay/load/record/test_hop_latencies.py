import dataclasses
from typing import Any

import numpy as np
import pytest

from replay.load.record.hop_latencies import by_time, calls_of, fetched, rested, samples, whole_run
from replay.simulation.draws.hop_latencies import FEWEST, NO_LATENCIES, RANKS, SLOT_MS, of_kinds, sample, slots
from schemas.messages import ImageGenerated
from tests.builders import NOW_MS, a_catalog, a_classified, a_job, a_request, an_image, an_image_ref
from tests.replay.load.runs import a_history, answered, judging_plan

CATALOG = a_catalog()


def generated(name: str, routed: int, started: int, took: int = 20, **changes: Any) -> ImageGenerated:
    job = a_job(a_classified(a_request(request_id=name)), routed_ms=NOW_MS + routed, **changes)
    begun = NOW_MS + started
    return an_image(job, started_ms=begun, generated_ms=begun + took, stored_ms=begun + took, image=ref(name))


def ref(name: str) -> Any:
    return an_image_ref(uri=f"file:///{name}")


def test_a_job_that_lay_there_tells_what_a_worker_takes_between_calls() -> None:
    calls = calls_of(
        [generated("a", 0, 5), generated("b", 6, 36), generated("late", 50, 70), generated("c", 100, 107)], CATALOG
    )
    assert list(rested(calls)) == [(NOW_MS + 25, 11)]  # `late` was on its way when the call ended


def test_a_job_that_found_its_worker_idle_tells_what_fetching_takes() -> None:
    calls = calls_of(
        [generated("a", 0, 5), generated("b", 6, 36), generated("late", 60, 70), generated("c", 110, 117)], CATALOG
    )
    assert list(fetched(calls)) == [(NOW_MS + 110, 7)]  # when `late` came, the worker rested from the call before


def test_a_change_of_variant_is_no_rest() -> None:
    other = generated("b", 6, 500, variant="heavy", level="heavy")
    assert not list(rested(calls_of([generated("a", 0, 5), other], CATALOG)))


def test_images_of_one_call_are_one_call_and_its_time_is_held_against_the_profile() -> None:
    images = [dataclasses.replace(generated(name, at, 5, took=46), batch=2) for name, at in (("a", 0), ("b", 3))]
    (calls,) = calls_of(images, CATALOG)
    assert [(call.routed_ms, call.extra_ms) for call in calls] == [(NOW_MS, 8.0)], "30 ms for two by the catalog"


def test_workers_are_distinguished() -> None:
    images = [generated("a", 0, 5), generated("b", 6, 36)]
    other = an_image(images[1].job, worker_id="w-2", started_ms=NOW_MS + 36, generated_ms=NOW_MS + 56)
    assert not list(rested(calls_of([images[0], other], CATALOG)))


def test_what_an_image_takes_from_its_generation_to_its_end_leaves_the_discriminator_out() -> None:
    result = answered("a", latency_ms=60, image_uri="file:///a")  # ended at 60, generated at 25, judged in 1
    history = a_history({0: result}, plans=(judging_plan(),), images=(generated("a", 10, 5),))
    hops = whole_run(samples(history, CATALOG))
    assert (hops.judge[0][0], hops.judge[0][-1]) == (34, 34)
    assert (hops.arrive[0][0], hops.arrive[0][-1]) == (10, 10)


def test_nothing_generated_takes_no_time() -> None:
    assert whole_run(samples(a_history({}), CATALOG)) == NO_LATENCIES


def test_what_variants_take_beyond_their_profile_is_distinguished() -> None:
    light, heavy = generated("a", 0, 5, took=26), generated("b", 100, 105, took=400, variant="heavy", level="heavy")
    hops = whole_run(samples(a_history({}, images=(light, heavy)), CATALOG))
    heavy_ms = 400 - CATALOG.level("heavy").latency_ms[1]
    assert [hops.paint_of[name][0][0] for name in ("light", "heavy")] == [6, heavy_ms]
    assert sorted({hops.paint[0][0], hops.paint[0][-1]}) == sorted({6, heavy_ms})


def test_a_plan_takes_from_its_look_to_its_record_and_the_first_one_was_made_before_the_run() -> None:
    plans = (judging_plan(version=1, created_ms=NOW_MS - 900), judging_plan(version=2, created_ms=NOW_MS + 4000))
    written_ms = {1: NOW_MS - 300, 2: NOW_MS + 4070}
    history = dataclasses.replace(a_history({}, {0: NOW_MS}, plans), written_ms=written_ms)
    assert whole_run(samples(history, CATALOG)) == of_kinds({"plan": ((70.0,) * len(RANKS),)})
    assert [history.took_ms(plan) for plan in (*plans, judging_plan(version=3))] == [600, 70, None]


def test_a_slow_stretch_of_a_run_is_kept_apart() -> None:
    found = {"arrive": [(at, 5.0 if at < SLOT_MS else 50.0) for at in np.arange(0.0, 2 * SLOT_MS, 100)]}
    hops = by_time(found, lambda epoch_ms: epoch_ms, 2 * SLOT_MS)
    assert [(slot[0], slot[-1]) for slot in hops.arrive] == [(5.0, 5.0), (50.0, 50.0), (50.0, 50.0)]


def test_a_stretch_with_few_samples_has_the_nearest_in_time_not_those_of_the_whole_run() -> None:
    found = [(at, 5.0 if at < 20_000 else 50.0) for at in np.arange(0.0, 40_000.0, 1000.0)]  # two a stretch
    spans = slots(found, SLOT_MS, 38_000.0)
    assert len(spans) == 20
    assert {slot[-1] for slot in spans[: 10 - FEWEST // 4]} == {5.0}
    assert {slot[0] for slot in spans[10 + FEWEST // 4 :]} == {50.0}


def test_draws_follow_what_was_measured() -> None:
    (whole,) = slots([(0.0, value) for value in np.arange(1001.0)], np.inf, 0.0)
    assert len(whole) == len(RANKS)
    assert sample(whole, np.array([0.0, 0.25, 0.955])) == pytest.approx([0, 250, 955])
