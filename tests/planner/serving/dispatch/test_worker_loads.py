"""The loads of workers from heartbeats and own sends; the cheap halves of dispatch say what the whole functions say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.dispatch.dispatch import KINDS, pick
from planner.serving.dispatch.worker_loads import (
    FORGET_MS,
    MAX_SENDS,
    UNACKNOWLEDGED_MS,
    Load,
    LoadView,
    moves_alike,
    wanted_variant,
)
from schemas.messages import ScalePlan
from tests.builders import NOW_MS, a_heartbeat, a_plan, owned
from tests.planner.serving.workers import choose, shortest_ms

SILENT_MS = 3000
STATES = st.sampled_from(["ready", "painting", "draining", "loading", "stopped"])
ANY_BEATS = st.tuples(st.integers(0, 3), STATES, st.sets(st.integers(0, 5)), st.integers(0, 900), st.integers(0, 1500))
ANY_SENDS = st.tuples(st.integers(0, 5), st.just(""), st.just(set()), st.integers(0, 300), st.integers(0, 1500))


def remaining(view: LoadView, now_ms: int = NOW_MS, variant: str = "light") -> dict[str, float]:
    return {load.worker_id: load.remaining_ms for load in view.loads(variant, now_ms, SILENT_MS)}


def heard(*heartbeats: object, at_ms: int = NOW_MS) -> LoadView:
    view = LoadView()
    for heartbeat in heartbeats:
        view.on_heartbeat(heartbeat, at_ms)
    return view


def test_a_worker_s_load_is_that_of_all_its_partitions() -> None:
    view = heard(a_heartbeat(partitions=(owned(0, remaining_ms=100), owned(2, remaining_ms=50))))
    assert view.loads("light", NOW_MS, SILENT_MS) == [Load("w-1", 0, 150.0)]


@pytest.mark.parametrize("state", ["starting", "loading", "draining", "hanging", "failed", "stopped"])
def test_only_serving_workers_take_jobs(state: str) -> None:
    assert remaining(heard(a_heartbeat(state=state))) == {}


def test_a_worker_of_another_variant_or_without_a_partition_takes_no_jobs() -> None:
    view = heard(
        a_heartbeat(), a_heartbeat(worker_id="w-2", variant="heavy"), a_heartbeat(worker_id="w-3", partitions=())
    )
    assert set(remaining(view)) == {"w-1"}
    assert set(remaining(view, variant="heavy")) == {"w-2"}


def test_a_silent_worker_takes_no_jobs_until_it_is_heard_again() -> None:
    view = heard(a_heartbeat())
    assert set(remaining(view, NOW_MS + SILENT_MS)) == {"w-1"}
    assert remaining(view, NOW_MS + SILENT_MS + 1) == {}
    view.on_heartbeat(a_heartbeat(), NOW_MS + SILENT_MS + 2)
    assert set(remaining(view, NOW_MS + SILENT_MS + 2)) == {"w-1"}


def test_a_worker_that_the_plan_takes_away_gets_no_new_jobs_while_another_stays() -> None:
    view = heard(*(a_heartbeat(worker_id=f"w-{n}", partitions=(owned(n),)) for n in (1, 2, 3)))
    assert set(remaining(view)) == {"w-1", "w-2", "w-3"}
    view.obey(a_plan(allocation={"w-1": "light", "w-2": "heavy"}))
    assert set(remaining(view)) == {"w-1", "w-3"}, "w-3 is not named, and stays"
    view.obey(a_plan(version=2, allocation={"w-1": "light", "w-2": "light"}))
    assert set(remaining(view)) == {"w-1", "w-2", "w-3"}, "it is back before it has left"


def test_where_the_plan_takes_all_workers_away_each_gets_jobs_until_it_has_left() -> None:
    view = heard(*(a_heartbeat(worker_id=f"w-{n}", partitions=(owned(n),)) for n in (1, 2)))
    view.obey(a_plan(allocation={"w-1": "heavy", "w-2": "heavy"}))
    assert set(remaining(view)) == {"w-1", "w-2"}


def test_whom_a_plan_does_not_name_stays_unless_it_scales_the_fleet() -> None:
    plan, scaled = a_plan(), a_plan(allocation={"w-2": "heavy"}, scale=ScalePlan(targets={"heavy": 1}))
    assert [wanted_variant(name, "light", plan) for name in ("w-1", "w-2", "w-9")] == ["light", "heavy", "light"]
    assert [wanted_variant(name, "light", scaled) for name in ("w-1", "w-2")] == ["", "heavy"]


def test_plans_move_alike_by_which_each_worker_serves_the_same() -> None:
    plan = a_plan(allocation={"w-1": "light"})
    assert moves_alike(plan, a_plan(version=2, allocation={"w-1": "light"}))
    assert not moves_alike(plan, a_plan(allocation={"w-1": "heavy"}))
    assert not moves_alike(plan, a_plan(allocation={"w-1": "light"}, scale=ScalePlan(targets={"light": 1})))


def test_the_wait_is_that_for_the_workers_that_stay() -> None:
    view = heard(
        a_heartbeat(partitions=(owned(0, remaining_ms=900),)), a_heartbeat(worker_id="w-2", partitions=(owned(1),))
    )
    assert view.pool("light", NOW_MS, SILENT_MS).wait_ms(NOW_MS) == 0
    view.obey(a_plan(allocation={"w-1": "light", "w-2": "heavy"}))
    assert view.pool("light", NOW_MS, SILENT_MS).wait_ms(NOW_MS) == 900


def slowness(view: LoadView, at_ms: int = NOW_MS, variant: str = "light") -> float:
    return view.pool(variant, at_ms, SILENT_MS).slowness


def test_a_variant_is_as_slow_as_the_median_of_the_workers_that_take_its_new_jobs() -> None:
    one, two, three = (a_heartbeat(worker_id=f"w-{n}", partitions=(owned(n),), slowness=n / 2) for n in (1, 2, 9))
    other = a_heartbeat(worker_id="w-5", variant="heavy", slowness=7.0)
    leaving = a_heartbeat(worker_id="w-6", partitions=(owned(6),), state="draining", slowness=7.0)
    assert slowness(heard()) == 1.0, "nobody serves it"
    assert slowness(heard(one, other, leaving)) == 0.5
    assert slowness(heard(one, two, other)) == 0.75
    view = heard(one, two, three, other)
    assert slowness(view) == 1.0
    assert slowness(view, variant="heavy") == 7.0
    assert slowness(view, NOW_MS + SILENT_MS + 1) == 1.0, "all are silent"


def test_the_median_follows_each_workers_last_heartbeat() -> None:
    view = heard(*(a_heartbeat(worker_id=f"w-{n}", partitions=(owned(n),)) for n in range(3)))
    for n, median in ((0, 1.0), (1, 1.5), (2, 1.5)):
        slower = a_heartbeat(worker_id=f"w-{n}", partitions=(owned(n),), slowness=1.5)
        view.on_heartbeat(slower, NOW_MS)
        assert slowness(view) == median
    view.on_heartbeat(a_heartbeat(worker_id="w-0", partitions=(owned(0),), state="stopped"), NOW_MS)
    view.on_heartbeat(a_heartbeat(worker_id="w-1", variant="heavy", partitions=(owned(1),)), NOW_MS)
    assert slowness(view) == 1.5
    assert slowness(view, variant="heavy") == 1.0


def test_own_sends_count_as_slow_as_the_worker_that_they_went_to() -> None:
    view = heard(a_heartbeat(slowness=1.5), a_heartbeat(worker_id="w-2", partitions=(owned(1),)))
    view.on_sent("light", 0, 5, 20, NOW_MS)
    view.on_sent("light", 1, 5, 20, NOW_MS)
    assert remaining(view) == {"w-1": 30, "w-2": 20}
    view.on_heartbeat(a_heartbeat(slowness=1.5, partitions=(owned(0, end_offset=5),)), NOW_MS)
    assert remaining(view) == {"w-1": 30, "w-2": 20}, "the heartbeat had not seen it"


def test_own_sends_count_at_once_and_backlog_is_worked_off() -> None:
    view = heard(a_heartbeat())
    for offset in range(3):
        view.on_sent("light", 0, offset, 20, NOW_MS)
    assert remaining(view) == {"w-1": 60}
    assert remaining(view, NOW_MS + 25) == {"w-1": 35}
    assert remaining(view, NOW_MS + 500) == {"w-1": 0}


def test_idle_time_is_not_saved_up() -> None:
    view = heard(a_heartbeat())
    view.on_sent("light", 0, 0, 20, NOW_MS + 1000)
    assert remaining(view, NOW_MS + 1000) == {"w-1": 20}


def test_a_heartbeat_replaces_the_sends_it_has_seen_and_keeps_the_later_and_the_unacknowledged() -> None:
    view = heard(a_heartbeat())
    for offset in (10, 11, 12, None):
        view.on_sent("light", 0, offset, 20, NOW_MS)
    view.on_heartbeat(a_heartbeat(partitions=(owned(0, end_offset=12, remaining_ms=5),)), NOW_MS)
    assert remaining(view) == {"w-1": 5 + 20 + 20}


def test_a_send_counts_until_its_acknowledged_offset_is_seen() -> None:
    view = heard(a_heartbeat())
    view.on_acknowledged(view.on_sent("light", 0, None, 20, NOW_MS), 10)
    view.on_heartbeat(a_heartbeat(partitions=(owned(0, end_offset=10),)), NOW_MS)
    assert remaining(view) == {"w-1": 20}
    view.on_heartbeat(a_heartbeat(partitions=(owned(0, end_offset=11),)), NOW_MS)
    assert remaining(view) == {"w-1": 0}


def test_a_send_that_is_never_acknowledged_is_given_up() -> None:
    view = heard(a_heartbeat())
    view.on_sent("light", 0, None, 20, NOW_MS)
    later = NOW_MS + UNACKNOWLEDGED_MS + 1
    view.on_heartbeat(a_heartbeat(), later)
    assert remaining(view, later) == {"w-1": 0}


def test_sends_before_anybody_owned_the_partition_count_for_its_first_owner() -> None:
    view = LoadView()
    view.on_sent("light", 0, 5, 20, NOW_MS)
    view.on_heartbeat(a_heartbeat(partitions=(owned(0, end_offset=5),)), NOW_MS)
    assert remaining(view) == {"w-1": 20}


def test_a_partition_that_two_claim_belongs_to_the_newest() -> None:
    view = heard(a_heartbeat(partitions=(owned(0), owned(1))), a_heartbeat(worker_id="w-2", partitions=(owned(1),)))
    assert {load[:2] for load in view.loads("light", NOW_MS, SILENT_MS)} == {("w-1", 0), ("w-2", 1)}
    view.on_sent("light", 1, 0, 20, NOW_MS)
    assert remaining(view) == {"w-1": 0, "w-2": 20}


def test_a_worker_that_lost_its_partitions_takes_no_jobs() -> None:
    view = heard(a_heartbeat(), a_heartbeat(worker_id="w-2"))
    assert set(remaining(view)) == {"w-2"}


def test_a_changed_variant_takes_the_worker_out_of_the_former_one() -> None:
    view = heard(a_heartbeat(), a_heartbeat(variant="heavy"))
    assert remaining(view) == {}
    assert set(remaining(view, variant="heavy")) == {"w-1"}


def test_a_worker_s_jobs_are_spread_over_its_partitions() -> None:
    view = heard(a_heartbeat(partitions=tuple(owned(p) for p in range(4))))
    written = []
    for offset in range(8):
        (load,) = view.loads("light", NOW_MS, SILENT_MS)
        written.append(load.partition)
        view.on_sent("light", load.partition, offset, 20, NOW_MS)
    assert sorted(written) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_memory_is_bounded() -> None:
    view = heard(*(a_heartbeat(worker_id=f"w-{i}", partitions=(owned(i),)) for i in range(50)))
    for offset in range(3 * MAX_SENDS):
        view.on_sent("light", 99, offset, 20, NOW_MS)
    assert len(view._sends["light", 99]) == MAX_SENDS
    view.on_heartbeat(a_heartbeat(worker_id="new", partitions=(owned(60),)), NOW_MS + FORGET_MS + 1)
    assert set(view._workers) == {"new"}
    assert set(view._owners.values()) == {"new"}


BEATS = st.tuples(st.just("beat"), st.integers(0, 3), st.sets(st.integers(0, 5)), st.integers(0, 500))
SENDS = st.tuples(st.just("send"), st.integers(0, 5), st.just(set()), st.integers(0, 100))


@given(st.lists(st.one_of(BEATS, SENDS), max_size=40))
def test_whatever_happens_a_partition_has_one_worker_and_no_load_is_negative(steps: list[tuple]) -> None:
    view, now_ms = LoadView(), NOW_MS
    for kind, number, partitions, ms in steps:
        now_ms += ms
        if kind == "beat":
            claimed = tuple(owned(p, end_offset=ms, remaining_ms=ms) for p in sorted(partitions))
            view.on_heartbeat(a_heartbeat(worker_id=f"w-{number}", partitions=claimed), now_ms)
        else:
            view.on_sent("light", number, ms, float(ms), now_ms)
        loads = view.loads("light", now_ms, SILENT_MS)
        assert len({load.partition for load in loads}) == len({load.worker_id for load in loads}) == len(loads)
        assert all(load.remaining_ms >= 0 for load in loads)
        assert all(view._owners["light", load.partition] == load.worker_id for load in loads)


@given(st.lists(st.one_of(ANY_BEATS, ANY_SENDS), max_size=40), st.sampled_from(sorted(KINDS)))
def test_a_lineup_that_is_kept_says_what_a_fresh_look_at_the_workers_says(steps: list[tuple], kind: str) -> None:
    kept, now_ms = LoadView(), NOW_MS
    for number, (who, state, partitions, ms, later_ms) in enumerate(steps):
        now_ms += later_ms
        if state:
            claimed = tuple(owned(p, end_offset=ms, remaining_ms=ms) for p in sorted(partitions))
            kept.on_heartbeat(a_heartbeat(worker_id=f"w-{who}", state=state, partitions=claimed), now_ms)
        else:
            kept.on_sent("light", who, ms, float(ms), now_ms)
        pool = kept.pool("light", now_ms, SILENT_MS)
        reported = {worker.worker_id: free_ms for worker, free_ms in zip(pool.workers, pool.free, strict=True)}
        serving = {
            worker.worker_id: worker
            for worker in kept._workers.values()
            if worker.state in ("ready", "painting") and worker.partitions and now_ms - worker.seen_ms <= SILENT_MS
        }
        assert reported.keys() == serving.keys()
        loads = kept.loads("light", now_ms, SILENT_MS)
        assert [load.remaining_ms for load in loads] == [max(0.0, free_ms - now_ms) for free_ms in pool.free]
        assert pool.wait_ms(now_ms) == shortest_ms(loads)
        place = pick(kind, pool.free, now_ms, f"r-{number}", number)
        assert choose(kind, loads, f"r-{number}", number, 20) == (None if place is None else loads[place])


def test_a_worker_that_was_silent_or_not_ready_joins_the_lineup_when_it_is_heard_as_ready() -> None:
    view = LoadView()
    view.on_heartbeat(a_heartbeat(state="loading"), NOW_MS)
    assert view.pool("light", NOW_MS, SILENT_MS).workers == []
    view.on_heartbeat(a_heartbeat(), NOW_MS + 10)
    assert [w.worker_id for w in view.pool("light", NOW_MS + 10, SILENT_MS).workers] == ["w-1"]
    assert view.pool("light", NOW_MS + 4000, SILENT_MS).workers == []
    view.on_heartbeat(a_heartbeat(), NOW_MS + 5000)
    assert [w.worker_id for w in view.pool("light", NOW_MS + 5000, SILENT_MS).workers] == ["w-1"]


def test_a_worker_that_stops_while_it_loads_is_forgotten() -> None:
    view = LoadView()
    view.on_heartbeat(a_heartbeat(state="loading"), NOW_MS)
    view.on_heartbeat(a_heartbeat(state="stopped"), NOW_MS)
    assert view._workers == {}
