"""What `doctor` makes of the facts."""

import dataclasses
import pathlib

import pytest
from click.testing import CliRunner

from schemas.errors import PochadeError, Unknown
from schemas.topics import CLASSIFIED, ENDED, RESULTS, TABLE
from streams.catalogs import missing_models, read_catalog
from streams.cli import main
from streams.operator import checks
from streams.operator.checks import Verdict
from streams.operator.topic_diff import differences, expected
from tests.builders import NOW_MS, a_heartbeat, a_plan
from tests.streams.operator.test_topic_diff import found

OK, WARN, FAIL = Verdict.OK, Verdict.WARN, Verdict.FAIL


def test_a_missing_topic_fails_and_another_difference_warns() -> None:
    whole = found([*TABLE])
    other = whole | {RESULTS: dataclasses.replace(whole[RESULTS], config={})}
    missing = {name: topic for name, topic in whole.items() if name != RESULTS}
    verdicts = [
        checks.check_topics(differences(expected([], 4), each, "p")).verdict for each in (whole, other, missing)
    ]
    assert verdicts == [OK, WARN, FAIL]


def test_topics_that_are_joined_need_equal_partition_counts() -> None:
    whole = found([*TABLE])
    assert checks.check_joined(whole).verdict is OK
    grown = whole | {CLASSIFIED: dataclasses.replace(whole[CLASSIFIED], partitions=8)}
    assert checks.check_joined(grown).verdict is FAIL
    assert "classified.v1 8" in checks.check_joined(grown).found


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


def test_workers_that_are_silent_or_stopped_do_not_count_and_failed_ones_are_told() -> None:
    beats = [
        (NOW_MS - 10, a_heartbeat(worker_id="live")),
        (NOW_MS - 9000, a_heartbeat(worker_id="silent")),
        (NOW_MS - 10, a_heartbeat(worker_id="stopped", state="stopped")),
    ]
    check, live = checks.check_workers(beats, 3000, NOW_MS)
    assert (check.verdict, [beat.worker_id for beat in live]) == (OK, ["live"])
    assert checks.check_workers(beats[1:], 3000, NOW_MS)[0].verdict is WARN
    beats.append((NOW_MS, a_heartbeat(worker_id="sick", state="failed", detail="no model")))
    check, _ = checks.check_workers(beats, 3000, NOW_MS)
    assert (check.verdict, "sick: no model" in check.found) == (FAIL, True)


def test_a_plan_is_told_with_its_age_and_none_warns() -> None:
    assert checks.check_plan(a_plan(version=3, created_ms=NOW_MS - 5000), NOW_MS).found.startswith(
        "version 3 by test, 5 s"
    )
    assert checks.check_plan(None, NOW_MS).verdict is WARN


def test_dead_letters_warn() -> None:
    assert [checks.check_letters(count).verdict for count in (0, 2)] == [OK, WARN]


def test_a_catalog_of_profiles_needs_no_models() -> None:
    assert missing_models(read_catalog("profile"), "") == []


def test_a_model_folder_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[variants.a]\nengine = "diffusers"\nmodel = "models/none"\n[variants.b]\nengine = "profile"\n')
    assert missing_models(read_catalog(str(file)), "") == ["variant a: models/none"]
    assert missing_models(read_catalog(str(file)), "profile") == []
    hub = {"variants": {"a": {"engine": "diffusers", "model": "someone/something"}}}
    assert missing_models(hub, "") == []


def test_a_catalog_that_cannot_be_read_says_why(tmp_path: pathlib.Path) -> None:
    with pytest.raises(Unknown, match="did you mean 'tiny'"):
        read_catalog("tinny")
    for text, why in (("[variants", "not TOML"), ("[classes]", "no variant")):
        (tmp_path / "c.toml").write_text(text)
        with pytest.raises(PochadeError, match=why):
            read_catalog(str(tmp_path / "c.toml"))


def test_doctor_without_a_broker_says_what_to_do_and_fails(tmp_path: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["--home", str(tmp_path), "doctor"])
    assert done.exit_code == 1
    assert "fail  broker" in done.stdout
    assert "-> pochade up" in done.stdout
