"""What heartbeats of a run say of components."""

from typing import Any

from replay.verify.chaos.weights.tiers import TierWatch
from schemas.messages import WorkerComponents
from schemas.record import Incoming
from schemas.topics import FLEET
from streams.codec.avro import encode
from tests.builders import a_heartbeat


def beats(watch: TierWatch, worker: str = "w-1", **components: Any) -> None:
    found = WorkerComponents(**components) if components else None
    value = encode(a_heartbeat(worker_id=worker, components=found))
    watch.on_record(Incoming(topic=FLEET, partition=0, offset=0, timestamp_ms=1, key=worker.encode(), value=value))


def test_counters_of_workers_that_were_started_again_are_added_up() -> None:
    watch = TierWatch()
    beats(watch, hits={"remote": 2, "device": 5}, moved_bytes={"volume": 10}, loads=2)
    beats(watch, hits={"remote": 3, "device": 6}, moved_bytes={"volume": 15}, loads=3)
    beats(watch)
    beats(watch, hits={"volume": 1}, moved_bytes={"host": 4}, loads=1)
    beats(watch, "w-2", hits={"device": 1}, loads=0)
    for _ in range(2):
        assert watch.report() == {
            "moved_bytes": {"host": 4, "volume": 15},
            "hits": {"device": 7, "remote": 3, "volume": 1},
            "loads": 4,
            "exceeded": [],
        }


def test_a_tier_that_holds_more_than_its_budget_is_told() -> None:
    watch = TierWatch()
    beats(watch, held_bytes={"host": 10, "device": 7}, budget_bytes={"host": 10, "device": 6})
    beats(watch, held_bytes={"host": 1, "device": 6}, budget_bytes={"host": 10, "device": 6})
    assert watch.report()["exceeded"] == ["w-1 held 7 bytes of 6 in device"]


def test_what_is_no_heartbeat_says_nothing() -> None:
    watch = TierWatch()
    watch.on_record(Incoming(topic=FLEET, partition=0, offset=0, timestamp_ms=1, key=b"w", value=b"none"))
    assert watch.report()["loads"] == 0
