"""What a run's faults cost, computed from topics."""

import dataclasses
from collections.abc import Generator
from typing import cast

from planner.serving.ending.ledger import result_of
from replay.verify.chaos.doing import Faults
from replay.verify.chaos.recovery import Recovery, Wait, of, too_slow
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import NotThere, World
from schemas.topics import RESULTS
from streams.codec.avro import encode
from tests.builders import NOW_MS
from tests.replay.verify.audit.topics import Topics, a_failure

NOBODY = cast(World, None)
KILL, OTHER, OUTAGE = ("kill", "worker-1"), ("freeze", "ledger"), ("broker", "")
ABSENT = ("restart", "nobody")
LOST, LEADERS = ("broker-lost", ""), ("leaders", "")


def lasting(_world: World, fault: Fault) -> Generator[float, None, str]:
    if fault.target == "nobody":
        raise NotThere("nobody was not running")
    yield fault.lasts_ms / 1000
    return "done"


def begun(**at_ms: tuple[str, str]) -> Faults:
    """Faults by when they begin (`at_1000=KILL`), each a second long, all of them over."""
    times = {int(name[3:]): fault for name, fault in at_ms.items()}
    faults = Faults(
        [
            Fault(number=at, at_ms=at, kind=kind, target=target, lasts_ms=1000, dice=1)
            for at, (kind, target) in times.items()
        ],
        {kind: lasting for kind, _ in times.values()},
        NOBODY,
    )  # fmt: skip
    for ms in sorted([*times, *(at + 1000 for at in times)]):
        faults.tick(NOW_MS, NOW_MS + ms)
    assert faults.are_over
    return faults


def a_result(topics: Topics, name: str, at_ms: int) -> None:
    """Written at this moment, by the broker's clock."""
    topics.write(RESULTS, name, encode(result_of(a_failure(name, "test"))), timestamp_ms=at_ms)


def recovery(topics: Topics, faults: Faults, **known: object) -> Recovery:
    return of(topics.tally(), faults, 3000, 30.0, **known)  # type: ignore[arg-type]


def test_how_long_a_killed_workers_job_waited_is_reported_from_events() -> None:
    topics = Topics()
    topics.begin("a", "worker-1", NOW_MS + 900)
    topics.begin("a", "worker-2", NOW_MS + 4500)
    topics.begin("b", "worker-3", NOW_MS + 900)  # was not killed
    topics.begin("b", "worker-2", NOW_MS + 9000)
    found = recovery(topics, begun(at_1000=KILL))
    assert (found.moved, found.moved_limit_s) == ([Wait(1000, 3.5, ())], 6.0)


def test_a_wait_names_the_faults_that_came_in_between() -> None:
    topics = Topics()
    topics.begin("a", "worker-1", NOW_MS + 900)
    topics.begin("a", "worker-1", NOW_MS + 9500)  # started again
    found = recovery(topics, begun(at_1000=KILL, at_2000=OTHER, at_9600=OTHER))
    assert found.moved == [Wait(1000, 8.5, ("freeze ledger",))]


def test_a_job_of_a_variant_that_lost_all_its_workers_is_distinguished() -> None:
    topics = Topics()
    topics.begin("a", "worker-1", NOW_MS + 900)
    topics.begin("a", "worker-2", NOW_MS + 9500)
    assert recovery(topics, begun(at_1000=("last-worker", ""))).moved == [Wait(1000, 8.5, ("last-worker",))]


def test_the_first_result_counts_from_the_brokers_port() -> None:
    topics = Topics()
    for at in (900, 12_000):
        a_result(topics, f"r-{at}", NOW_MS + at)
    found = recovery(topics, begun(at_1000=OUTAGE), accepted_ms=[NOW_MS + 10_400])
    assert found.first_result == [Wait(1000, 1.6, ())]


def test_a_broker_that_went_away_again_before_a_result_is_not_counted() -> None:
    topics = Topics()
    a_result(topics, "r", NOW_MS + 12_000)
    faults = begun(at_1000=OUTAGE, at_4000=OUTAGE)
    found = recovery(topics, faults, accepted_ms=[NOW_MS + 3000, NOW_MS + 11_000])
    assert found.first_result == [Wait(4000, 1.0, ("broker",))]


def test_an_outage_of_two_faults_is_reported_once() -> None:
    topics = Topics()
    a_result(topics, "r", NOW_MS + 12_000)
    faults = begun(at_1000=("broker-restart", ""), at_4000=OUTAGE)
    found = recovery(topics, faults, accepted_ms=[NOW_MS + 10_410, NOW_MS + 10_400])
    assert found.first_result == [Wait(4000, 1.6, ("broker-restart",))]


def test_a_role_that_died_while_the_broker_was_away_is_beside_its_first_result() -> None:
    # seed 3: a ledger killed so had settled long ago by the clock, and 8.4 s were reported as the broker's own
    topics = Topics()
    a_result(topics, "r", NOW_MS + 38_400)
    faults = begun(at_10_000=OUTAGE, at_14_000=("kill", "ledger"), at_16_000=("cancel", ""))
    found = recovery(topics, faults, accepted_ms=[NOW_MS + 30_000])
    assert found.first_result == [Wait(10_000, 8.4, ("kill ledger",))]
    assert too_slow(found) == []


def test_a_role_that_died_long_before_the_broker_is_no_excuse() -> None:
    topics = Topics()
    a_result(topics, "r", NOW_MS + 38_400)
    found = recovery(topics, begun(at_500=OTHER, at_10_000=OUTAGE), accepted_ms=[NOW_MS + 30_000])
    assert found.first_result == [Wait(10_000, 8.4, ())]
    assert too_slow(found) == ["the first result came after the broker's port 8.4 s (limit 3 s, fault 10000)"]


def test_a_fault_that_met_nothing_is_no_excuse() -> None:
    topics = Topics()
    a_result(topics, "r", NOW_MS + 12_000)
    faults = begun(at_1000=OUTAGE, at_2000=ABSENT)
    assert recovery(topics, faults, accepted_ms=[NOW_MS + 10_400]).first_result == [Wait(1000, 1.6, ())]


def test_a_killed_workers_job_that_waited_for_longer_than_it_may_is_reported() -> None:
    topics = Topics()
    topics.begin("a", "worker-1", NOW_MS + 900)
    topics.begin("a", "worker-2", NOW_MS + 7500)
    found = recovery(topics, begun(at_1000=KILL))
    assert too_slow(found) == ["a killed worker's job began elsewhere 6.5 s (limit 6 s, fault 1000)"]


def test_what_may_be_generated_twice_is_what_ran_as_processes_ended() -> None:
    topics = Topics()
    for name, started, generated in (("a", 800, 1200), ("b", 900, 990), ("c", 1100, 1300)):
        topics.paint(name, started_ms=NOW_MS + started, generated_ms=NOW_MS + generated)
    topics.begin("vain", "worker-1", NOW_MS + 950)
    found = recovery(topics, begun(at_1000=KILL, at_1150=OTHER), become_new_record=2)
    assert found.running_at_kills == 2 + 3  # a and vain; then a, c and vain still
    assert found.painted_twice_limit == 1.5 * 5 + 2


def test_what_ran_while_a_stranger_came_into_a_group_may_be_generated_again() -> None:
    topics = Topics()
    for name, at_ms in (("before", 0), ("as it came", 2000), ("long after", 30_000)):
        topics.begin(name, "worker-1", NOW_MS + at_ms)
        topics.paint(name, worker_id="worker-1", started_ms=NOW_MS + at_ms, generated_ms=NOW_MS + at_ms + 500)
    faults = begun(at_1000=("stranger", ""))
    assert recovery(topics, faults).running_at_kills == 1, "its group moves partitions for up to a session"
    assert recovery(topics, begun(at_1000=OTHER)).running_at_kills == 0


def test_without_faults_nothing_may_be_generated_twice() -> None:
    topics = Topics()
    topics.begin("a", "worker-1", NOW_MS)
    assert recovery(topics, Faults([], {}, NOBODY)).painted_twice_limit == 0


def test_a_request_that_ends_its_process_is_a_kill_each_time_it_is_begun() -> None:
    topics = Topics()
    for at in (1000, 9000):
        topics.begin("killer", "worker-1", NOW_MS + at)
    assert recovery(topics, Faults([], {}, NOBODY), killers={"killer"}).running_at_kills == 2


def test_how_long_no_result_came_at_a_brokers_fault_is_reported_where_others_should_have_gone_on() -> None:
    topics, faults = Topics(), begun(at_1000=LOST, at_60000=LEADERS)
    for at_ms in (500, 1500, 6500, 7000, 8000, 9000, 12_000, 59_000, 80_000):
        a_result(topics, str(at_ms), NOW_MS + at_ms)
    found = recovery(topics, faults, brokers=3)
    assert found.still == [Wait(1000, 5.0, ()), Wait(60_000, 20.0, ())]
    assert recovery(topics, faults).still == [], "one broker has no others"
    assert too_slow(found) == ["no result came beside a broker's fault for 20.0 s (limit 10 s, fault 60000)"]


def test_what_ran_while_one_of_several_brokers_was_away_may_be_generated_again() -> None:
    topics = Topics()
    for name, at_ms in (("before", 0), ("during", 5000), ("long after", 30_000)):
        topics.begin(name, "worker-1", NOW_MS + at_ms)
        topics.paint(name, worker_id="worker-1", started_ms=NOW_MS + at_ms, generated_ms=NOW_MS + at_ms + 500)
    faults = begun(at_1000=LOST)
    assert recovery(topics, faults, brokers=3).painted_twice_limit == 1.5
    assert recovery(topics, faults, brokers=3).running_at_kills == 1


def a_quick_or_slow_result(topics: Topics, name: str, asked_ms: int, took_ms: int) -> None:
    result = dataclasses.replace(result_of(a_failure(name, "test")), created_ms=asked_ms)
    topics.write(RESULTS, name, encode(result), timestamp_ms=asked_ms + took_ms)


def test_p99_after_a_brokers_death_is_reported_of_ordinary_requests() -> None:
    topics, names = Topics(), [str(at_ms) for at_ms in range(0, 60_000, 100)]
    for name in names:
        slow = 20_000 <= int(name) < 33_000
        a_quick_or_slow_result(topics, name, NOW_MS + int(name), 9000 if slow else 50)
    found = recovery(topics, begun(at_20000=LOST), brokers=3, ordinary=names)
    assert found.p99_back == [Wait(20_000, 13.0, ())]
    assert too_slow(found) == ["p99 was back after a broker's death in 13.0 s (limit 10 s, fault 20000)"]
    assert recovery(topics, begun(at_20000=LOST), brokers=3).p99_back == [], "nobody asked for the ordinary"
