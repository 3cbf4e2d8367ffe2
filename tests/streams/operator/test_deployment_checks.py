"""What `doctor` makes of clusters as operators have them."""

import dataclasses
from collections.abc import Mapping

import pytest

from schemas.topics import DLQ, RESULTS, TABLE
from streams.kafka.group_terms import Protocol, Timeouts
from streams.operator.checks import Verdict, check_heard_clocks
from streams.operator.cluster import Found
from streams.operator.deployment_checks import (
    Attendance,
    check_copies,
    check_groups,
    check_leader,
    check_role,
    check_sizes,
    check_told,
)
from tests.builders import NOW_MS, a_heartbeat
from tests.streams.operator.test_topic_diff import found

OK, WARN, FAIL = Verdict.OK, Verdict.WARN, Verdict.FAIL


def cluster(replicas: int, in_sync: int, **others: tuple[int, int]) -> Mapping[str, Found]:
    """The table's topics; `others`: dlq=(replicas, in sync)."""
    whole = found([*TABLE])
    for name, topic in whole.items():
        copies, least = others.get("dlq", (replicas, in_sync)) if name == DLQ else (replicas, in_sync)
        config = topic.config | {"min.insync.replicas": str(least)}
        whole[name] = dataclasses.replace(topic, replicas=copies, config=config)
    return whole


@pytest.mark.parametrize(
    ("brokers", "topics", "verdict", "words"),
    [
        (1, cluster(1, 1), OK, "1 of each topic on 1 brokers"),
        (3, cluster(3, 2), OK, "3 of each topic on 3 brokers"),
        (3, cluster(3, 2, dlq=(1, 1)), WARN, f"one copy only of {DLQ}"),
        (3, cluster(3, 1), WARN, "min.insync.replicas 1"),
        (3, cluster(3, 3), WARN, "one broker away stops"),
        (3, cluster(3, 2, dlq=(1, 2)), FAIL, f"{DLQ}: more must be in sync than there are"),
        (1, cluster(1, 2), FAIL, "nothing can be written"),
    ],
)
def test_a_cluster_that_loses_records_or_stops_with_one_broker_is_told(
    brokers: int, topics: Mapping[str, Found], verdict: Verdict, words: str
) -> None:
    check = check_copies(topics, brokers)
    assert (check.verdict, words in check.found) == (verdict, True), check.found


def test_a_topic_that_takes_less_than_we_write_is_named_with_its_limit() -> None:
    whole = found([*TABLE])
    assert check_sizes(whole).verdict is OK
    whole[RESULTS] = dataclasses.replace(whole[RESULTS], config={"max.message.bytes": "4000"})
    check = check_sizes(whole)
    assert (check.verdict, check.found) == (WARN, f"smaller than the table's (bytes): {RESULTS} 4000")
    whole[RESULTS] = dataclasses.replace(whole[RESULTS], config={"max.message.bytes": "8388608"})
    assert check_sizes(whole).verdict is OK


def test_a_configuration_that_may_not_be_seen_is_told_and_not_guessed() -> None:
    whole = found([*TABLE])
    assert check_told(whole) is None
    whole[RESULTS] = dataclasses.replace(whole[RESULTS], config={}, is_told=False)
    check = check_told(whole)
    assert check is not None
    assert RESULTS in check.found
    assert "DESCRIBE_CONFIGS" in check.do
    assert check_copies({RESULTS: whole[RESULTS]}, 1).verdict is OK


@pytest.mark.parametrize(
    ("protocol", "timeouts", "why_not", "verdict", "words"),
    [
        (Protocol.CONSUMER, Timeouts(6000, 666), "", OK, "missed after 6 s"),
        (Protocol.CONSUMER, Timeouts(45_000, 5000), "", WARN, "after 45 s, not after kafka.session_timeout_ms = 6 s"),
        (Protocol.CONSUMER, None, "", WARN, "when the cluster says"),
        (Protocol.CLASSIC, Timeouts(6000, 2000), "", WARN, "no consumer protocol"),
        (Protocol.CONSUMER, Timeouts(6000, 666), "not authorized", FAIL, "consumer: not authorized"),
    ],
)
def test_groups_that_miss_the_dead_late_or_cannot_be_joined_are_told(
    protocol: Protocol, timeouts: Timeouts | None, why_not: str, verdict: Verdict, words: str
) -> None:
    check = check_groups(protocol, 6000, timeouts, why_not)
    assert (check.verdict, words in check.found) == (verdict, True), check.found


@pytest.mark.parametrize(
    ("seen", "verdict", "words"),
    [
        (Attendance(2, 0), OK, "2 members, 0 records of classified.v1 wait"),
        (Attendance(1, 5000), WARN, "1 member, 5000 records"),
        (Attendance(0, 0), WARN, "no member"),
        (Attendance(0, 3), FAIL, "no member serves, 3 records of classified.v1 wait"),
        (Attendance(None, 3), WARN, "may not see its members"),
    ],
)
def test_a_role_that_is_dead_or_behind_is_told_with_what_waits(seen: Attendance, verdict: Verdict, words: str) -> None:
    check = check_role("router", seen)
    assert (check.verdict, words in check.found) == (verdict, True), check.found


def test_a_planner_that_led_and_fell_silent_is_told() -> None:
    verdicts = [check_leader(beat_ms, 3000, NOW_MS).verdict for beat_ms in (NOW_MS - 2000, NOW_MS - 9000, 0)]
    assert verdicts == [OK, WARN, WARN]


@pytest.mark.parametrize(("behind_ms", "verdict"), [(20, OK), (5000, WARN), (-5000, WARN)])
def test_where_no_topic_may_be_made_clocks_are_compared_by_heartbeats(behind_ms: int, verdict: Verdict) -> None:
    beats = [(NOW_MS, a_heartbeat(worker_id=f"w-{n}", sent_ms=NOW_MS - behind_ms)) for n in range(3)]
    check = check_heard_clocks(beats, NOW_MS)
    assert check is not None
    assert check.verdict is verdict
    assert check_heard_clocks([], NOW_MS) is None
