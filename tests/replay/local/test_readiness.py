import sys
import threading

from replay.local.readiness import GeneratedCounter, Readiness
from schemas.avro import Message
from schemas.messages import ReuseHealth
from schemas.record import Incoming
from schemas.topics import FLEET, IMAGES, PIN_KEY, PLAN, PLAN_KEY
from streams.codec.avro import encode
from tests.builders import NOW_MS, a_heartbeat, a_job, a_plan, an_image


def record(topic: str, key: str, message: Message) -> Incoming:
    return Incoming(topic=topic, partition=0, offset=0, timestamp_ms=NOW_MS, key=key.encode(), value=encode(message))


def test_nothing_is_ready_before_a_plan_stands_and_every_worker_can_generate() -> None:
    ready = Readiness(["w-1", "w-2"])
    assert ready.missing() == ["a plan", "w-1 starting", "w-2 starting"]
    ready.on_record(record(PLAN, PLAN_KEY, a_plan()))
    ready.on_record(record(FLEET, "w-1", a_heartbeat(worker_id="w-1", state="painting")))
    ready.on_record(record(FLEET, "w-2", a_heartbeat(worker_id="w-2", state="loading")))
    assert ready.missing() == ["w-2 loading"]
    ready.on_record(record(FLEET, "w-2", a_heartbeat(worker_id="w-2", state="ready")))
    assert ready.missing() == []


def test_a_worker_that_failed_says_why() -> None:
    ready = Readiness(["w-1"])
    ready.on_record(record(PLAN, PLAN_KEY, a_plan()))
    ready.on_record(record(FLEET, "w-1", a_heartbeat(worker_id="w-1", state="failed", detail="no model folder")))
    assert ready.missing() == ["w-1 failed: no model folder"]


def test_a_pin_is_not_a_plan_and_strangers_do_not_count() -> None:
    ready = Readiness(["w-1"])
    ready.on_record(record(PLAN, PIN_KEY, a_plan()))
    ready.on_record(record(FLEET, "w-9", a_heartbeat(worker_id="w-9")))
    assert ready.missing() == ["a plan", "w-1 starting"]


def test_plans_are_listed_once_each_by_version() -> None:
    ready = Readiness([])
    for version in (2, 1, 2):
        ready.on_record(record(PLAN, PLAN_KEY, a_plan(version=version)))
    assert [plan.version for plan in ready.plans()] == [1, 2]


def test_jobs_that_were_reused_are_counted_by_the_newest_heartbeats() -> None:
    ready = Readiness(["w-1", "w-2"])
    for worker, hits in (("w-1", 1), ("w-2", 2), ("w-1", 4)):
        health = ReuseHealth(breaker="closed", lookups=9, unanswered=0.0, p50_ms=1.0, p95_ms=2.0, hits=hits)
        ready.on_record(record(FLEET, worker, a_heartbeat(worker_id=worker, reuse=health)))
    ready.on_record(record(FLEET, "w-3", a_heartbeat(worker_id="w-3")))
    assert ready.reused() == 6


def test_a_job_generated_twice_counts_once() -> None:
    generated = GeneratedCounter()
    for job in (a_job(job_id="a"), a_job(job_id="a"), a_job(job_id="b", stage=1)):
        generated.on_record(record(IMAGES, "r-1", an_image(job)))
    assert generated.counts() == (2, 1)


def test_images_are_counted_while_others_come() -> None:
    images = [record(IMAGES, f"r-{n}", an_image(a_job(job_id=f"j-{n}"))) for n in range(2000)]
    generated, interval = GeneratedCounter(), sys.getswitchinterval()
    adding = threading.Thread(target=lambda: [generated.on_record(image) for image in images])
    sys.setswitchinterval(1e-6)
    try:
        adding.start()
        while adding.is_alive():
            generated.counts()
    finally:
        sys.setswitchinterval(interval)
        adding.join()
    assert generated.counts() == (2000, 0)
