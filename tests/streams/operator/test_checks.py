"""What `doctor` makes of the facts, also of clusters as operators have them."""

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from planner.catalog.entries import Loading
from planner.catalog.model import Catalog
from planner.observation.state import Deployment, state_of
from planner.observation.workers import ReceivedHeartbeat
from schemas.errors import UnknownSchema
from schemas.topics import CLASSIFIED, DLQ, ENDED, OUTCOMES, PROMPTS_BATCH, RESULTS, TABLE
from streams import settings
from streams.catalogs import load, missing_models
from streams.cli import main
from streams.commands import listing
from streams.kafka.groups.group_terms import Protocol, Timeouts
from streams.operator import checks, doctor
from streams.operator.checks import (
    Attendance,
    check_copies,
    check_groups,
    check_leader,
    check_role,
    check_sizes,
    check_visibility,
    check_worker_clocks,
)
from streams.operator.cluster import Found, differences, expected
from streams.operator.verdicts import BEGIN, PAGE, ROWS, Verdict, fail, in_page, ok, unmade, warn
from streams.processes.announced import NO_ANSWER
from tests.builders import NOW_MS, a_catalog, a_heartbeat, a_plan, a_variant
from tests.streams.operator.test_cluster import found

OK, WARN, STARTING, FAIL = Verdict.OK, Verdict.WARN, Verdict.STARTING, Verdict.FAIL


def test_a_missing_topic_fails_and_another_difference_warns() -> None:
    whole = found([*TABLE])
    other = whole | {RESULTS: dataclasses.replace(whole[RESULTS], config={})}
    missing = {name: topic for name, topic in whole.items() if name != RESULTS}
    verdicts = [
        checks.check_topics(differences(expected([], 4), each, "p")).verdict for each in (whole, other, missing)
    ]
    assert verdicts == [OK, WARN, FAIL]


def test_a_topic_that_another_cleanup_policy_empties_fails() -> None:
    whole = found([*TABLE])
    compact = whole | {
        RESULTS: dataclasses.replace(whole[RESULTS], config={**whole[RESULTS].config, "cleanup.policy": "compact"})
    }
    check = checks.check_topics(differences(expected([], 4), compact, "p"))
    assert (check.verdict, "p.results.v1 has compact" in check.found) == (FAIL, True)


def test_topics_that_are_joined_need_equal_partition_counts() -> None:
    whole = found([*TABLE])
    assert checks.check_joined(whole).verdict is OK
    grown = whole | {CLASSIFIED: dataclasses.replace(whole[CLASSIFIED], partitions=8)}
    assert checks.check_joined(grown).verdict is FAIL
    assert "classified.v1 8" in checks.check_joined(grown).found


def test_partitions_may_be_added_to_outcomes_as_the_ledger_moves_what_lies_there() -> None:
    whole = found([*TABLE])
    grown = whole | {OUTCOMES: dataclasses.replace(whole[OUTCOMES], partitions=7)}
    assert checks.check_joined(grown).verdict is OK
    assert checks.check_topics(differences(expected([], 4), grown, "p")).verdict is OK
    fewer = whole | {OUTCOMES: dataclasses.replace(whole[OUTCOMES], partitions=3)}
    assert checks.check_joined(fewer).verdict is FAIL


@pytest.mark.parametrize(
    ("results_ms", "ended_ms", "verdict"),
    [
        ("691200000", "777600000", OK), ("-1", "0", OK), ("86400000", "777600000", OK),
        ("604800000", "604800000", FAIL), ("3600000", "3600000", FAIL),
    ],
)  # fmt: skip
def test_what_has_ended_must_be_remembered_longer_than_anything_upstream(
    results_ms: str, ended_ms: str, verdict: Verdict
) -> None:
    whole = found(expected(["light"], 4))
    for name, kept_ms in ((RESULTS, results_ms), (ENDED, ended_ms)):
        whole[name] = dataclasses.replace(whole[name], config={"retention.ms": kept_ms})
    assert checks.check_retention(whole).verdict is verdict


@pytest.mark.parametrize(("segment", "verdict"), [({}, WARN), ({"segment.ms": "43200000"}, OK)])
def test_records_live_a_segment_longer_than_their_retention(segment: dict[str, str], verdict: Verdict) -> None:
    whole = found(expected(["light"], 4))
    whole[CLASSIFIED] = dataclasses.replace(whole[CLASSIFIED], config={"retention.ms": "604800000", **segment})
    assert checks.check_retention(whole).verdict is verdict


def test_a_variant_needs_a_partition_for_each_worker() -> None:
    whole = found(expected(["light"], 2))
    workers = [a_heartbeat(worker_id=f"w-{n}", variant="light") for n in range(3)]
    (enough,) = checks.check_jobs(whole, workers[:2], "p")
    (short,) = checks.check_jobs(whole, workers, "p")
    (gone,) = checks.check_jobs({}, workers[:1], "p")
    assert [enough.verdict, short.verdict, gone.verdict] == [OK, FAIL, FAIL]
    assert "2 partitions for 3 workers" in short.found
    assert "--topic p.jobs.light.v1 --partitions 3" in short.do


def test_denied_topics_are_named_with_the_rights_that_are_missing() -> None:
    assert checks.check_denied({}).verdict is OK
    check = checks.check_denied({"p.results.v1": ["WRITE"]})
    assert (check.verdict, check.found) == (WARN, "p.results.v1: no WRITE")
    assert checks.check_denied({"p.results.v1": ["DESCRIBE"]}).verdict is FAIL


@pytest.mark.parametrize(("skew_ms", "verdict"), [(-20.0, OK), (999.0, OK), (1500.0, WARN), (-1500.0, WARN)])
def test_a_skew_of_more_than_a_second_warns(skew_ms: float, verdict: Verdict) -> None:
    assert checks.check_clocks(skew_ms, [], NOW_MS).verdict is verdict


def test_a_worker_from_the_future_is_named() -> None:
    check = checks.check_clocks(0, [(NOW_MS, a_heartbeat(worker_id="w-9", sent_ms=NOW_MS + 5000))], NOW_MS)
    assert (check.verdict, "worker w-9 is 5000 ms ahead" in check.found) == (WARN, True)


def test_less_than_a_gibibyte_free_warns() -> None:
    assert checks.check_disk("disk", "/x", 2**30).verdict is OK
    assert checks.check_disk("disk", "/x", 2**30 - 1).verdict is WARN


def heard(worker_id: str, ago_ms: int = 10, **fields: Any) -> dict[str, ReceivedHeartbeat]:
    return {worker_id: ReceivedHeartbeat(a_heartbeat(worker_id=worker_id, **fields), NOW_MS - ago_ms)}


def test_doctor_doubts_the_same_workers_as_the_consoles_first_screen() -> None:
    first = heard("w-1", started_ms=1)["w-1"]
    doubled = first.then(a_heartbeat(worker_id="w-1", started_ms=2), NOW_MS - 9).then(first.heartbeat, NOW_MS - 8)
    for beats, said in (
        (heard("w-1", ago_ms=2000), "No worker may be serving: w-1 sent no heartbeat for 2 s"),
        ({"w-1": doubled}, "two processes send heartbeats as w-1"),
        (heard("w-1") | heard("w-2", ago_ms=9000), "w-2 has sent no heartbeat for 9 s"),
    ):
        check = checks.check_workers(beats, 3000, NOW_MS)[0]
        shown = state_of(Deployment(now_ms=NOW_MS, silent_ms=3000, plan=a_plan(), heartbeats=beats))
        assert (check.verdict, check.found.endswith(f"; {said}"), said) == (WARN, True, shown[0].what)


def test_workers_that_are_silent_or_stopped_do_not_count_and_failed_ones_are_reported() -> None:
    living, stopped = heard("live"), heard("stopped", state="stopped")
    silent = heard("silent", ago_ms=240_000)
    check, live = checks.check_workers(living | stopped, 3000, NOW_MS)
    assert (check.verdict, [beat.worker_id for beat in live]) == (OK, ["live"])
    check, live = checks.check_workers(living | stopped | silent, 3000, NOW_MS)
    assert (check.verdict, [beat.worker_id for beat in live]) == (WARN, ["live"])
    assert "; silent has sent no heartbeat for 4 min" in check.found
    none = checks.check_workers(silent | stopped, 3000, NOW_MS)[0]
    assert (none.verdict, none.found) == (FAIL, "none lives; silent has sent no heartbeat for 4 min"), "exit status"
    assert checks.check_workers(silent, 3000, NOW_MS, is_scaled_to_zero=True)[0].verdict is WARN
    beats = living | heard("w-8", state="failed", detail="no model") | heard("w-9", state="sick", detail="CUDA error")
    check, _ = checks.check_workers(beats, 3000, NOW_MS)
    assert (check.verdict, "w-8 is failed: no model; w-9 is sick: CUDA error" in check.found) == (FAIL, True)


def test_a_worker_that_serves_another_level_than_the_plan_gives_it_is_shown_with_both() -> None:
    beats = heard("w-1", variant="heavy", state="draining") | heard("w-2", variant="heavy", state="draining")
    plan = a_plan(allocation={"w-1": "light", "w-2": "heavy"})
    check, _ = checks.check_workers(beats, 3000, NOW_MS, plan=plan)
    assert check.found == "2 live: w-1 (heavy, draining; the plan gives it light), w-2 (heavy, draining)"


@pytest.mark.parametrize(("state", "verdict"), [("loading", STARTING), ("starting", STARTING), ("draining", OK)])
def test_a_fleet_that_has_not_loaded_is_starting(state: str, verdict: Verdict) -> None:
    beats = heard("w-1", state=state)
    assert checks.check_workers(beats, 3000, NOW_MS)[0].verdict is verdict
    assert checks.check_workers(beats, 3000, NOW_MS, is_scaled_to_zero=True)[0].verdict is OK
    assert checks.check_workers(beats | heard("w-2", state="ready"), 3000, NOW_MS)[0].verdict is OK


@pytest.mark.parametrize(
    ("readiness", "verdict", "words"),
    [
        ({}, FAIL, ("no member serves", "none was published", "none lives")),
        (
            {"router": "is starting", "planner": "is starting", "worker": "is starting"},
            STARTING,
            ("the router here is starting", "the planner here is starting", "a worker here is starting"),
        ),
        (
            {"router": "", "planner": "", "worker": ""},
            STARTING,
            ("joins its group", "is about to make the first", "has sent no heartbeat"),
        ),
    ],
)
def test_what_a_role_of_this_machine_is_about_to_serve_is_starting_and_no_failure(
    readiness: dict[str, str], verdict: Verdict, words: tuple[str, str, str]
) -> None:
    found = (
        check_role("router", CLASSIFIED, Attendance(0, 3), readiness),
        checks.check_plan(None, [], NOW_MS, readiness),
        checks.check_workers({}, 3000, NOW_MS, readiness=readiness)[0],
    )
    assert [check.verdict for check in found] == [verdict] * 3
    assert all(each in check.found for check, each in zip(found, words, strict=True)), found
    assert check_role("router", CLASSIFIED, Attendance(1, 1, 61.0), readiness).verdict is FAIL, "it is there, and stuck"


@pytest.mark.parametrize(("days", "verdict", "left"), [(31, OK, ""), (29, WARN, "in 29 days"), (0, WARN, "in 0 days")])
def test_a_certificate_that_expires_within_a_month_warns_with_what_to_do(
    days: int, verdict: Verdict, left: str
) -> None:
    now = datetime(2026, 11, 29, tzinfo=UTC)
    check = checks.check_certificate(now + timedelta(days=days), now)
    assert (check.verdict, left in check.found, "receipts.certificate" in check.do) == (verdict, True, days < 30)


def test_the_certificate_that_the_settings_name_is_checked() -> None:
    for certificate, dates in (("demo", ["2099-01-01"]), ("", [])):
        made = doctor.examine(settings.load({"receipts": {"certificate": certificate}}))
        before = itertools.takewhile(lambda check: check.name != "models", made)
        assert [check.found.rpartition(" ")[2] for check in before if check.name == "receipts"] == dates


def test_a_gateway_of_this_machine_answers_or_starts_or_hangs_and_without_one_nothing_is_said() -> None:
    assert not list(checks.check_gateway({"router": ""}))
    found = [next(checks.check_gateway({"gateway": why})) for why in ("", "is starting", NO_ANSWER)]
    assert [check.verdict for check in found] == [OK, STARTING, FAIL]
    assert "pochade serve gateway" in found[2].do


def test_a_plan_is_reported_with_its_age_and_none_fails_as_routers_hold_every_request() -> None:
    assert checks.check_plan(a_plan(version=3, created_ms=NOW_MS - 5000), [], NOW_MS).found.startswith(
        "version 3 by test, 5 s"
    )
    assert checks.check_plan(None, [], NOW_MS).verdict is FAIL


def test_plans_that_no_planner_has_written_are_reported_with_the_remedy() -> None:
    check = checks.check_plan(a_plan(version=3), [17, 19], NOW_MS)
    assert check.verdict is WARN
    assert "2 plans that no planner has written, the newest at offset 19" in check.found
    assert "topics acls" in check.do


@pytest.mark.parametrize(
    ("checked", "checker", "verdict", "found"),
    [
        ({}, "mushroom", OK, "no live worker"),
        ({"w-1": True, "w-2": True}, "mushroom", OK, "the newest image of 2 workers was checked"),
        ({"w-1": False, "w-2": False}, "", OK, "no image is checked by 2 workers"),
        ({"w-1": True, "w-2": False}, "", WARN, "w-2 stored the newest image unchecked, 1 worker checked it"),
        ({"w-1": False}, "mushroom", WARN, "safety.checker is mushroom here, but w-1 stored"),
    ],
)
def test_workers_that_store_unchecked_beside_others_or_against_the_settings_warn(
    checked: dict[str, bool], checker: str, verdict: Verdict, found: str
) -> None:
    check = checks.check_safety(checked, checker)
    assert (check.verdict, bool(check.do)) == (verdict, verdict is WARN)
    assert found in check.found


def test_dead_letters_warn() -> None:
    assert [checks.check_dead_letters(count, 0).verdict for count in (0, 2)] == [OK, WARN]
    unread = checks.check_dead_letters(2, 0, unread=1)
    assert (unread.verdict, "1 of them of records set aside as unread" in unread.found) == (WARN, True)


def test_errors_of_clients_are_said_and_no_warning() -> None:
    told = [checks.check_dead_letters(ours, 3) for ours in (0, 2)]
    assert [each.verdict for each in told] == [OK, WARN]
    assert all("besides, 3 errors of clients" in str(each) for each in told)


def test_a_catalog_of_profiles_needs_no_models() -> None:
    assert missing_models(load("profile"), "") == []
    assert missing_models(load("profile"), "diffusers") == ["variant light: ", "variant heavy: "]


def test_a_model_folder_that_is_not_there_is_named() -> None:
    def catalog(model: str) -> Catalog:
        return a_catalog(variants=a_catalog().variants | {"light": a_variant(engine="diffusers", model=model)})

    assert missing_models(catalog("models/none"), "") == ["variant light: models/none"]
    assert missing_models(catalog("models/none"), "profile") == []
    assert missing_models(catalog("someone/something"), "") == []


def test_doctor_without_a_broker_says_what_to_do_and_fails(tmp_path: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["--home", str(tmp_path), "doctor"])
    assert done.exit_code == 1
    assert "fail      broker" in done.stdout
    assert "-> pochade up" in done.stdout


def test_doctor_on_a_deployment_that_starts_exits_with_1_as_it_serves_nothing_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = check_role("router", CLASSIFIED, Attendance(0, 0), {"router": "is starting"})
    monkeypatch.setattr(doctor, "examine", lambda _, **_how: iter([check]))
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 1
    assert done.stdout.startswith("starting  router            the router here is starting; 0 records")
    assert "1 starting, 0 fail" in done.stderr


def cluster(replicas: int, in_sync: int, **others: tuple[int, int]) -> Mapping[str, Found]:
    """The table's topics; `others`: dlq=(replicas, in sync)."""
    whole = found([*TABLE])
    for name, topic in whole.items():
        copies, least = others.get("dlq", (replicas, in_sync)) if name == DLQ else (replicas, in_sync)
        config = topic.config | {"min.insync.replicas": str(least)}
        whole[name] = dataclasses.replace(topic, replicas=copies, config=config)
    return whole


WHOLE = cluster(3, 2)
COUNT = sum(topic.partitions for topic in WHOLE.values())
LAGGING = {DLQ: 1, RESULTS: 2}
BEHIND = {name: dataclasses.replace(topic, lagging=LAGGING.get(name, 0)) for name, topic in WHOLE.items()}


@pytest.mark.parametrize(
    ("brokers", "topics", "verdict", "words"),
    [
        (1, cluster(1, 1), OK, "1 of each topic on 1 broker"),
        (3, cluster(3, 2), OK, "3 of each topic on 3 brokers"),
        (3, cluster(3, 2, dlq=(1, 1)), WARN, f"one copy only of {DLQ}"),
        (3, cluster(3, 1), WARN, "min.insync.replicas 1"),
        (3, cluster(3, 3), WARN, "one broker away stops"),
        (3, cluster(3, 2, dlq=(1, 2)), FAIL, f"{DLQ}: more must be in sync than there are"),
        (1, cluster(1, 2), FAIL, "nothing can be written"),
        (3, BEHIND, WARN, f"of 3 of {COUNT} partitions a copy is away or has not caught up"),
    ],
)
def test_a_cluster_that_loses_records_or_stops_with_one_broker_is_reported(
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


def test_a_configuration_that_may_not_be_seen_is_reported_and_not_guessed() -> None:
    whole = found([*TABLE])
    assert check_visibility(whole) is None
    whole[RESULTS] = dataclasses.replace(whole[RESULTS], config={}, is_config_visible=False)
    check = check_visibility(whole)
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
def test_groups_that_miss_the_dead_late_or_cannot_be_joined_are_reported(
    protocol: Protocol, timeouts: Timeouts | None, why_not: str, verdict: Verdict, words: str
) -> None:
    check = check_groups(protocol, 6000, timeouts, why_not)
    assert (check.verdict, words in check.found) == (verdict, True), check.found


@pytest.mark.parametrize(
    ("seen", "verdict", "words"),
    [
        (Attendance(2, 0), OK, "2 members, 0 records of classified.v1 wait"),
        (Attendance(1, 50_000, 3.2), OK, "50,000 records of classified.v1 wait, the oldest for 3 s"),
        (Attendance(1, 1, 20.0), WARN, "1 record of classified.v1 waits, the oldest for 20 s"),
        (Attendance(1, 1, 61.0), FAIL, "it is stuck or too slow"),
        (Attendance(0, 0), FAIL, "no member serves"),
        (Attendance(0, 3), FAIL, "no member serves, 3 records of classified.v1 wait"),
        (Attendance(None, 3), WARN, "may not see its members"),
        (Attendance(None, 3, 61.0), FAIL, "it is stuck or too slow"),
    ],
)
def test_a_role_fails_without_members_and_by_the_age_of_its_oldest_record_not_by_their_number(
    seen: Attendance, verdict: Verdict, words: str
) -> None:
    check = check_role("router", CLASSIFIED, seen)
    assert (check.verdict, words in check.found) == (verdict, True), check.found


def test_requests_of_the_batch_tier_may_wait_at_their_gate_for_days() -> None:
    assert check_role("classifier-batch", PROMPTS_BATCH, Attendance(1, 5, 90_000.0)).verdict is OK
    assert check_role("classifier-batch", PROMPTS_BATCH, Attendance(0, 5, 1.0)).verdict is FAIL


@pytest.mark.parametrize(
    ("topic", "seen", "serving", "to_zero", "verdict", "words"),
    [
        ("jobs.light.v1", Attendance(1, 0), 1, False, OK, "no job waits"),
        ("jobs.light.v1", Attendance(1, 12, 41.0), 1, False, OK, "12 wait for light; oldest 41 s"),
        ("jobs.light.v1", Attendance(1, 12, 101.0), 1, False, FAIL, "12 wait for light; oldest 101 s"),
        (
            "jobs.light.v1",
            Attendance(0, 12, 101.0),
            0,
            False,
            FAIL,
            "12 wait for light, which no worker serves; oldest",
        ),
        ("jobs.light.v1", Attendance(0, 12, 101.0), 0, True, WARN, "as the plan scales it to zero"),
        ("waiting.light.v1", Attendance(0, 3, 1.0), 1, False, FAIL, "no router forwards them"),
        ("waiting.light.v1", Attendance(None, 3, 1.0), 1, False, OK, "3 wait for light"),
    ],
)
def test_a_queue_fails_by_the_age_of_its_oldest_job_unless_its_level_is_scaled_to_zero(
    topic: str, seen: Attendance, serving: int, to_zero: bool, verdict: Verdict, words: str
) -> None:
    check = checks.check_queue(topic, seen, serving, 100.0, is_scaled_to_zero=to_zero)
    assert (check.verdict, words in check.found) == (verdict, True), check.found


def test_a_stranger_in_a_group_of_roles_fails_and_is_named() -> None:
    clean, hidden = Attendance(2, 0), Attendance(None, 0)
    stranger = Attendance(2, 187, 3.0, ("rdkafka on 10.0.0.7",))
    assert checks.check_strangers({"ledger": clean}).verdict is OK
    assert checks.check_strangers({"ledger": clean, "router": hidden}).verdict is WARN
    check = checks.check_strangers({"ledger": stranger, "router": hidden})
    assert (check.verdict, check.found) == (FAIL, "ledger: rdkafka on 10.0.0.7")


@pytest.mark.parametrize(
    ("in_force", "beyond", "verdict"),
    [(True, ["kafka"], OK), (False, [], OK), (False, ["10.0.0.1"], FAIL), (None, ["10.0.0.1"], WARN), (None, [], WARN)],
)
def test_rights_that_are_not_in_force_fail_where_others_reach_the_cluster(
    in_force: bool | None, beyond: list[str], verdict: Verdict
) -> None:
    check = checks.check_rights_in_force(is_in_force=in_force, beyond=beyond)
    assert check.verdict is verdict
    assert (in_force is not False) or "may write every topic" in check.found


@pytest.mark.parametrize(
    ("protocol", "beyond", "verdict"),
    [("PLAINTEXT", [], OK), ("SASL_SSL", ["10.0.0.1"], OK), ("PLAINTEXT", ["10.0.0.1"], WARN),
     ("SASL_PLAINTEXT", ["kafka"], WARN)],
)  # fmt: skip
def test_connections_that_others_can_read_warn(protocol: str, beyond: list[str], verdict: Verdict) -> None:
    assert checks.check_encryption(protocol, beyond).verdict is verdict


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("kafka", False),
    ],
)
def test_what_only_this_machine_reaches_is_known_by_its_address(host: str, expected: bool) -> None:
    assert doctor.is_loopback(host) is expected


def test_what_was_deleted_unread_fails() -> None:
    assert [checks.check_deletions(found).verdict for found in ([], ["up to 3 records of x"])] == [OK, FAIL]


# ------------------------------------------------------------------ the table of verdicts


def test_the_promises_show_the_table_that_verdicts_are_made_of() -> None:
    page = PAGE.read_text()
    assert BEGIN in page
    assert page == in_page(page), "run infra/bin/observability"


def test_a_verdict_that_its_row_does_not_have_cannot_be_made() -> None:
    with pytest.raises(AssertionError, match="never fails"):
        fail("planner", "none leads", "serve one")
    with pytest.raises(AssertionError, match="never warns"):
        warn("transactions", "slow", "wait")
    with pytest.raises(AssertionError, match="is no row of"):
        fail("weather", "rain", "wait")
    assert {row for row, each in ROWS.items() if not each.promise} == set()


def test_a_check_that_raises_has_failed_with_its_error() -> None:
    check = unmade("safety", UnknownSchema(5000, 25), "upgrade")
    assert (check.verdict, "unknown schema id 5000" in check.found) == (FAIL, True)


def test_a_planner_that_led_and_fell_silent_is_reported() -> None:
    starts = check_leader(0, 3000, NOW_MS, {"planner": "is starting"})
    assert (starts.verdict, starts.found) == (WARN, "none leads; the planner here is starting")
    verdicts = [check_leader(beat_ms, 3000, NOW_MS).verdict for beat_ms in (NOW_MS - 2000, NOW_MS - 9000, 0)]
    assert verdicts == [OK, WARN, WARN]


@pytest.mark.parametrize(("behind_ms", "verdict"), [(20, OK), (5000, WARN), (-5000, WARN)])
def test_where_no_topic_may_be_made_clocks_are_compared_by_heartbeats(behind_ms: int, verdict: Verdict) -> None:
    beats = [(NOW_MS, a_heartbeat(worker_id=f"w-{n}", sent_ms=NOW_MS - behind_ms)) for n in range(3)]
    check = check_worker_clocks(beats, NOW_MS)
    assert check is not None
    assert check.verdict is verdict
    assert check_worker_clocks([], NOW_MS) is None


def test_levels_without_a_measured_quality_are_warned_of() -> None:
    levels = ["light", "heavy"]
    found = [checks.check_quality(levels, unknown, "own.toml") for unknown in ([], ["heavy"], levels)]
    assert [each.verdict for each in found] == [OK, WARN, WARN]
    assert "that of heavy is not measured" in found[1].found
    assert "a slower level counts as a better one" in found[2].found
    assert found[2].do.startswith("pochade profile --catalog own.toml --prompt-file")


@pytest.mark.parametrize(
    ("device", "own", "verdict"), [("cuda:1", "", WARN), ("cuda:1", "cuda:0", OK), ("cuda", "", OK)]
)
def test_a_catalog_that_puts_all_workers_on_one_card_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, device: str, own: str, verdict: Verdict
) -> None:
    xl = a_variant(name="xl", engine="profile", loading=Loading(device=device))
    monkeypatch.setattr(doctor, "load", lambda *_: a_catalog(on_request={"xl": xl}))
    check = doctor._models(settings.load({"worker": {"device": own, "engine": "profile"}}))
    assert check.verdict is verdict
    assert ("all workers of xl on one card" in check.found) is (verdict is WARN)


def test_a_check_with_a_long_name_is_apart_from_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    listing.show_check(ok("queue waiting.heavy", "no job waits", "queues"))
    listing.show_check(ok("disk", "20 GiB are free"))
    assert capsys.readouterr().out.splitlines() == [
        "ok        queue waiting.heavy  no job waits",
        "ok        disk              20 GiB are free",
    ]
