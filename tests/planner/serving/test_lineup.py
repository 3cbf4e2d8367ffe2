"""The cheap halves of dispatch: they must say what the whole functions say."""

from hypothesis import given
from hypothesis import strategies as st

from planner.serving.dispatch import KINDS, choose, pick
from planner.serving.worker_loads import LoadView, shortest_ms
from tests.builders import NOW_MS, a_heartbeat, owned

SILENT_MS = 3000
STATES = st.sampled_from(["ready", "painting", "draining", "loading", "stopped"])
BEATS = st.tuples(st.integers(0, 3), STATES, st.sets(st.integers(0, 5)), st.integers(0, 900), st.integers(0, 1500))
SENDS = st.tuples(st.integers(0, 5), st.just(""), st.just(set()), st.integers(0, 300), st.integers(0, 1500))


@given(st.lists(st.one_of(BEATS, SENDS), max_size=40), st.sampled_from(sorted(KINDS)))
def test_a_lineup_that_is_kept_says_what_a_fresh_look_at_the_workers_says(steps: list[tuple], kind: str) -> None:
    kept, now_ms = LoadView(), NOW_MS
    for number, (who, state, partitions, ms, later_ms) in enumerate(steps):
        now_ms += later_ms
        if state:
            claimed = tuple(owned(p, end_offset=ms, remaining_ms=ms) for p in sorted(partitions))
            kept.on_heartbeat(a_heartbeat(worker_id=f"w-{who}", state=state, partitions=claimed), now_ms)
        else:
            kept.on_sent("light", who, ms, float(ms), now_ms)
        lineup = kept.lineup("light", now_ms, SILENT_MS)
        told = {worker.worker_id: free_ms for worker, free_ms in zip(lineup.workers, lineup.free_at_ms, strict=True)}
        serving = {
            worker.worker_id: worker
            for worker in kept._workers.values()
            if worker.state in ("ready", "painting") and worker.partitions and now_ms - worker.seen_ms <= SILENT_MS
        }
        assert told.keys() == serving.keys()
        loads = kept.loads("light", now_ms, SILENT_MS)
        assert [load.remaining_ms for load in loads] == [max(0.0, free_ms - now_ms) for free_ms in lineup.free_at_ms]
        assert lineup.wait_ms(now_ms) == shortest_ms(loads)
        place = pick(kind, lineup.free_at_ms, now_ms, f"r-{number}", number)
        assert choose(kind, loads, f"r-{number}", number, 20) == (None if place is None else loads[place])


def test_a_worker_that_was_silent_or_not_ready_joins_the_lineup_when_it_is_heard_as_ready() -> None:
    view = LoadView()
    view.on_heartbeat(a_heartbeat(state="loading"), NOW_MS)
    assert view.lineup("light", NOW_MS, SILENT_MS).workers == []
    view.on_heartbeat(a_heartbeat(), NOW_MS + 10)
    assert [w.worker_id for w in view.lineup("light", NOW_MS + 10, SILENT_MS).workers] == ["w-1"]
    assert view.lineup("light", NOW_MS + 4000, SILENT_MS).workers == []
    view.on_heartbeat(a_heartbeat(), NOW_MS + 5000)
    assert [w.worker_id for w in view.lineup("light", NOW_MS + 5000, SILENT_MS).workers] == ["w-1"]


def test_a_worker_that_stops_while_it_loads_is_forgotten() -> None:
    view = LoadView()
    view.on_heartbeat(a_heartbeat(state="loading"), NOW_MS)
    view.on_heartbeat(a_heartbeat(state="stopped"), NOW_MS)
    assert view._workers == {}
