"""Which workers are there, what each has to do, and where it is at home."""

from planner.observation.workers import ReceivedHeartbeat, live_workers, stated_prices
from tests.builders import NOW_MS, a_heartbeat, owned


def test_silent_failed_and_stopped_workers_are_not_live() -> None:
    heard = {
        "a": ReceivedHeartbeat(a_heartbeat(worker_id="a"), NOW_MS - 3000),
        "b": ReceivedHeartbeat(a_heartbeat(worker_id="b"), NOW_MS - 3001),
        "c": ReceivedHeartbeat(a_heartbeat(worker_id="c", state="stopped"), NOW_MS),
        "d": ReceivedHeartbeat(a_heartbeat(worker_id="d", state="failed"), NOW_MS),
        "e": ReceivedHeartbeat(a_heartbeat(worker_id="e", state="draining"), NOW_MS),
    }
    assert [w.worker_id for w in live_workers(heard, NOW_MS, 3000)] == ["a", "e"]


def test_a_worker_s_remaining_work_is_that_of_all_its_partitions() -> None:
    heartbeat = a_heartbeat(partitions=(owned(0, remaining_ms=30), owned(3, remaining_ms=12)))
    (worker,) = live_workers({"w-1": ReceivedHeartbeat(heartbeat, NOW_MS)}, NOW_MS, 3000)
    assert worker.remaining_ms == 42


def test_a_worker_on_its_way_is_at_home_where_the_plan_wants_it() -> None:
    heard = {"w-1": ReceivedHeartbeat(a_heartbeat(), NOW_MS)}
    assert live_workers(heard, NOW_MS, 3000, {"w-1": "heavy"})[0].home == "heavy"
    assert live_workers(heard, NOW_MS, 3000)[0].home == "light"


def test_the_prices_of_a_fleet_are_known_if_every_live_worker_states_its_own() -> None:
    dear, cheap, silent = (
        ReceivedHeartbeat(a_heartbeat(worker_id=name, variant=variant, price_per_hour=price), seen_ms)
        for name, variant, price, seen_ms in (
            ("a", "heavy", 3.5, NOW_MS), ("b", "light", 0.5, NOW_MS), ("c", "light", 0.0, NOW_MS - 9000)
        )
    )  # fmt: skip
    assert stated_prices({"a": dear, "b": cheap, "c": silent}, NOW_MS, 3000) == (3.5, 0.5)
    assert stated_prices({"a": dear, "b": cheap, "c": silent}, NOW_MS, 3000, "light") == (0.5,)
    assert stated_prices({"a": dear, "b": cheap, "c": silent}, NOW_MS, 9000) == ()
