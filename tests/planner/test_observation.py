"""What the planner sees."""

from hypothesis import given
from hypothesis import strategies as st

from planner.observation import BINS, Seen, class_shares, demand_rps, hardness_shares, live_workers
from tests.builders import NOW_MS, a_heartbeat, owned


def test_silent_failed_and_stopped_workers_are_not_live() -> None:
    heard = {
        "a": Seen(a_heartbeat(worker_id="a"), NOW_MS - 3000),
        "b": Seen(a_heartbeat(worker_id="b"), NOW_MS - 3001),
        "c": Seen(a_heartbeat(worker_id="c", state="stopped"), NOW_MS),
        "d": Seen(a_heartbeat(worker_id="d", state="failed"), NOW_MS),
        "e": Seen(a_heartbeat(worker_id="e", state="draining"), NOW_MS),
    }
    assert [w.worker_id for w in live_workers(heard, NOW_MS, 3000)] == ["a", "e"]


def test_a_worker_s_remaining_work_is_that_of_all_its_partitions() -> None:
    heartbeat = a_heartbeat(partitions=(owned(0, remaining_ms=30), owned(3, remaining_ms=12)))
    (worker,) = live_workers({"w-1": Seen(heartbeat, NOW_MS)}, NOW_MS, 3000)
    assert worker.remaining_ms == 42


def test_a_worker_on_its_way_is_at_home_where_the_plan_wants_it() -> None:
    heard = {"w-1": Seen(a_heartbeat(), NOW_MS)}
    assert live_workers(heard, NOW_MS, 3000, {"w-1": "heavy"})[0].home == "heavy"
    assert live_workers(heard, NOW_MS, 3000)[0].home == "light"


def test_demand_is_the_arrivals_of_the_window_a_second() -> None:
    arrivals = [NOW_MS - 10_000, NOW_MS - 9_999, NOW_MS - 1, NOW_MS, NOW_MS + 1]
    assert demand_rps(arrivals, NOW_MS, 10_000) == 0.3
    assert demand_rps([], NOW_MS, 10_000) == 0


@given(st.lists(st.floats(0, 1)))
def test_hardness_shares_sum_to_one_over_ten_bins_or_are_unknown(values: list[float]) -> None:
    shares = hardness_shares(values)
    assert len(shares) == (BINS if values else 0)
    assert abs(sum(shares) - bool(values)) < 1e-9


def test_hardness_one_belongs_to_the_last_bin() -> None:
    assert hardness_shares([1.0, 0.95, 0.0, 0.1])[-1] == 0.5


def test_class_shares_are_by_name() -> None:
    assert list(class_shares(["b", "a", "b", "b"]).items()) == [("a", 0.25), ("b", 0.75)]
    assert class_shares([]) == {}
