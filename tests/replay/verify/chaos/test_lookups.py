from typing import Any

from replay.verify.chaos.lookups import LookupWatch
from schemas.messages import ReuseHealth
from schemas.record import Incoming
from schemas.topics import FLEET
from streams.codec.avro import encode
from tests.builders import NOW_MS, a_heartbeat


def a_beat(worker_id: str, reuse: ReuseHealth | None) -> Incoming:
    value = encode(a_heartbeat(worker_id=worker_id, reuse=reuse))
    return Incoming(topic=FLEET, partition=0, offset=0, timestamp_ms=NOW_MS, key=worker_id.encode(), value=value)


def health(**changes: Any) -> ReuseHealth:
    usual = {"breaker": "closed", "lookups": 20, "unanswered": 0.0, "p50_ms": 5.0, "p95_ms": 9.0}
    return ReuseHealth(**(usual | changes))  # type: ignore[arg-type]


def test_the_slowest_lookups_and_the_breakers_that_opened_are_reported() -> None:
    watch = LookupWatch()
    watch.on_record(a_beat("w-1", None))
    watch.on_record(a_beat("w-1", health(p95_ms=101.0)))
    watch.on_record(a_beat("w-2", health(breaker="failing")))
    watch.on_record(a_beat("w-1", health(breaker="failing")))
    junk = Incoming(topic=FLEET, partition=0, offset=1, timestamp_ms=NOW_MS, key=b"w-1", value=b"junk")
    watch.on_record(junk)
    assert watch.report() == {"max_p95_ms": 101.0, "breakers": {"failing": ["w-1", "w-2"]}}
