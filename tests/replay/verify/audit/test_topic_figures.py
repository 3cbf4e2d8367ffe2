import dataclasses

import pytest

from planner.serving.ending.ledger import result_of
from replay.verify.audit.figures import verdict, warning
from replay.verify.audit.topic_figures import TopicFigures
from schemas.topics import CLASSIFIED, DLQ, IMAGES, OUTCOMES, PROMPTS, PROMPTS_BATCH, RESULTS
from streams.codec.avro import encode
from streams.codec.headers import REQUEST_ID
from streams.codec.request_ids import request_id_of
from tests.builders import NOW_MS, a_classified, a_job, a_request, an_image, an_image_ref
from tests.replay.verify.audit.topics import JOBS, Topics, a_failure, an_end

DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
def topics() -> Topics:
    """Two requests that went all the way."""
    made = Topics()
    for name in ("a", "b"):
        made.serve(name, image=an_image_ref(uri=f"file:///{name}.png", sha256=name))
    return made


def test_what_went_well_breaks_no_promise(topics: Topics) -> None:
    tally = topics.tally()
    found = tally.figures()
    assert (found.accepted, found.outcomes, found.lost, found.doubled, found.open) == (2, {"COMPLETED": 2}, (), {}, 0)
    assert (found.painted, found.painted_twice, found.begun_in_vain, found.late_commits) == (2, 0, 0, ())
    assert tally.named == {"file:///a.png": {"a"}, "file:///b.png": {"b"}}
    assert verdict(found) is None


def test_a_request_without_a_result_about_which_nothing_waits_is_lost(topics: Topics) -> None:
    topics.ask("c")
    topics.send("c")
    found = topics.tally().figures()
    assert (found.lost, found.open) == (("c",), 0)
    assert verdict(found) == "1 of 3 accepted requests are lost (c at prompts.v1 0@2)"


def test_a_request_whose_record_was_set_aside_as_unread_stays_open_and_breaks_the_promise_until_it_is_redriven(
    topics: Topics,
) -> None:
    """A letter of a request that has a result, or of none at all, as anybody may write one, changes nothing."""
    topics.ask("c")
    topics.send("c")
    for name in ("a", "c", "nobody's"):
        facts = {"pochade_error_code": b"unread", "pochade_error_request_id": name.encode()}
        topics.write(DLQ, name, b"bytes", headers=facts)
    found = topics.tally().figures()
    assert (found.unread, found.lost, found.open) == (("c",), (), 0)
    assert verdict(found) == (
        "1 of 3 accepted requests have a record that was set aside unread (c): "
        "`pochade dlq redrive` once its schema is known"
    )
    topics.end(result_of(an_end(topics.paint("c"))))
    assert verdict(topics.tally().figures()) is None


@pytest.mark.parametrize("topic", [PROMPTS, CLASSIFIED, JOBS, IMAGES, OUTCOMES])
def test_a_request_is_open_while_a_role_has_not_come_to_one_of_its_records(topics: Topics, topic: str) -> None:
    topics.ask("c")
    topics.send("c")
    topics.say(an_end(topics.paint("c")))
    found = topics.tally({topic: 2}).figures()
    assert (found.lost, found.open, verdict(found)) == ((), 1, None)


def test_a_request_that_the_broker_acknowledged_and_that_is_nowhere_is_lost(topics: Topics) -> None:
    found = topics.tally(asked=["a", "gone"]).figures()
    assert (found.accepted, found.lost) == (3, ("gone",))


def test_a_second_result_of_a_request_breaks_the_promise(topics: Topics) -> None:
    topics.end(result_of(a_failure("a", "again")))
    found = topics.tally().figures()
    assert (found.doubled, found.outcomes) == ({"a": 1}, {"COMPLETED": 2})
    assert verdict(found) == "1 results came beyond a request's first (a)"


def test_why_a_request_failed_is_reported() -> None:
    topics = Topics()
    topics.ask("a")
    topics.end(result_of(a_failure("a", "it ended 2 workers")))
    assert topics.tally().figures().failed == {"a": "it ended 2 workers"}


def test_results_of_requests_that_nobody_asked_for_are_not_counted(topics: Topics) -> None:
    for _ in range(2):
        topics.end(result_of(a_failure("cancelled before it was sent", "")))
    found = topics.tally().figures()
    assert (found.accepted, found.doubled, verdict(found)) == (2, {}, None)


def test_a_request_published_twice_or_moved_to_the_batch_topic_is_one(topics: Topics) -> None:
    topics.ask("a")
    topics.ask("b", PROMPTS_BATCH)
    assert topics.tally().figures().accepted == 2


@pytest.mark.parametrize("value", [b"not even JSON", b'{"prompt": "a red heart"}', None])
def test_records_without_an_id_under_one_key_are_requests_of_their_own(value: bytes | None) -> None:
    topics = Topics()
    for _ in range(2):
        topics.write(PROMPTS, "user-42", value)
    topics.end(result_of(a_failure("user-42", "")))  # what a request with this id would have got
    found = topics.tally().figures()
    assert (found.accepted, found.records, found.repetitions, len(found.lost)) == (2, 2, 0, 2)
    assert "at prompts.v1 0@0" in (verdict(found) or "")


def test_a_record_under_the_id_of_another_is_a_repetition_and_is_named_where_its_content_differs(
    topics: Topics,
) -> None:
    topics.ask("a")
    assert (topics.tally().figures().repetitions, warning(topics.tally().figures())) == (1, None)
    topics.write(PROMPTS, "user-42", encode(a_request(request_id="b", prompt="another", tenant="another")))
    found = topics.tally().figures()
    assert (found.accepted, found.records, found.repetitions) == (2, 4, 2)
    assert (found.differing, verdict(found)) == (("b at prompts.v1 0@1",), None)
    assert "1 id came with other content again" in (warning(found) or "")


def test_a_record_that_was_moved_to_the_batch_topic_is_no_repetition_in_whatever_order_both_are_read() -> None:
    topics = Topics()
    asked = topics.write(PROMPTS, "user-42", b'{"prompt": "a red heart", "tier": "batch"}')
    name = request_id_of(asked)
    moved = topics.write(PROMPTS_BATCH, name, asked.value, headers={REQUEST_ID: name.encode()}, offset=9)
    for order in ([asked, moved], [moved, asked]):
        tally = TopicFigures({})
        for record in order:
            tally.add(record)
        found = tally.figures()
        assert (found.accepted, found.records, found.repetitions) == (1, 1, 0)
        assert found.lost_at == {name: "prompts.v1 0@0"}


def test_a_record_under_the_id_of_a_request_that_ended_before_the_time_audited_repeats_it(topics: Topics) -> None:
    topics.ask("old")
    end = topics.write(RESULTS, "old", encode(result_of(a_failure("old", ""))), timestamp_ms=NOW_MS - 9 * DAY_MS)
    topics.records.remove(end)  # it lies before what is read for the time audited
    tally = topics.tally(since_ms=NOW_MS)
    assert tally.figures().lost == ("old",)
    tally.add_before(end, tally.maybe_ended_before())
    found = tally.figures()
    assert (found.lost, found.doubled, found.repetitions, verdict(found)) == ((), {}, 1, None)


def test_a_result_that_was_made_of_a_later_outcome_is_a_late_commit() -> None:
    topics = Topics()
    topics.ask("a")
    first, later = a_failure("a", "first"), a_failure("a", "later")
    for outcome in (first, later):
        topics.say(outcome)
    topics.end(result_of(later))
    found = topics.tally().figures()
    assert found.late_commits == ("a",)
    assert verdict(found) == "1 results are not of the first outcome (a)"


def test_outcomes_that_come_too_late_or_again_are_counted_and_break_nothing(topics: Topics) -> None:
    topics.say(a_failure("a", "a zombie"))
    found = topics.tally().figures()
    assert (found.late_outcomes, found.late_commits, verdict(found)) == (1, (), None)


def test_an_end_that_the_ledger_made_itself_is_not_late(topics: Topics) -> None:
    topics.ask("c")
    topics.end(result_of(a_failure("c", "it had no result by its deadline")))
    topics.say(a_failure("c", "late"))
    assert topics.tally().figures().late_commits == ()


def test_a_job_generated_by_two_workers_costs_the_second_ones_time(topics: Topics) -> None:
    topics.paint("a", worker_id="w-2", started_ms=NOW_MS + 100, generated_ms=NOW_MS + 2100, batch=2)
    found = topics.tally().figures()
    assert (found.painted, found.painted_twice, found.wasted_s) == (2, 1, 1.0)


def test_the_same_image_announced_twice_was_generated_once(topics: Topics) -> None:
    topics.paint("a")
    assert topics.tally().figures().painted_twice == 0


def test_a_beginning_without_an_image_was_in_vain(topics: Topics) -> None:
    topics.begin("a", "w-2", NOW_MS + 3)
    assert topics.tally().figures().begun_in_vain == 1


def test_what_is_no_record_of_ours_is_counted_by_topic(topics: Topics) -> None:
    topics.write(IMAGES, "x", b"foreign")
    topics.bury("x")
    found = topics.tally().figures()
    assert (found.unreadable, found.dead_letters) == ({IMAGES: 1}, 1)


def test_only_requests_accepted_within_the_time_count(topics: Topics) -> None:
    assert topics.tally(since_ms=NOW_MS + 1).figures().accepted == 1
    assert topics.tally(until_ms=NOW_MS + 1).figures().accepted == 1


def test_drafts_on_the_path_and_all_of_several_images_are_named() -> None:
    topics = Topics()
    more = (an_image_ref(uri="file:///2.png", sha256="2"),)
    image = topics.serve("a", more=more)
    result = result_of(dataclasses.replace(an_end(image), request_id="a"))
    assert topics.tally().named == {"file:///images/ab.png": {"ab"}, "file:///2.png": {"2"}}
    assert result.image_uris == ("file:///images/ab.png", "file:///2.png")


def test_a_request_routed_anew_and_generated_again_is_counted_on_whatever_level() -> None:
    topics = Topics()
    for level, job in (("light", "first"), ("heavy", "second"), ("heavy", "second")):  # a job read again is the same
        classified = a_classified(a_request(request_id="a"))
        topics.write(IMAGES, "a", encode(an_image(a_job(classified, job_id=job, level=level))))
    escalated = a_job(a_classified(a_request(request_id="a")), job_id="third", level="heavy", stage=1)
    topics.write(IMAGES, "a", encode(an_image(escalated)))
    found = topics.tally().figures()
    assert (found.painted, found.painted_twice, found.painted_anew) == (3, 0, 1)
    assert found.wasted_s > 0


def a_late_end(topics: Topics, name: str, asked_days_ago: float) -> None:
    """What a ledger writes that has forgotten how a request ended."""
    expired = dataclasses.replace(
        result_of(a_failure(name, "it had no result")), created_ms=round(NOW_MS - asked_days_ago * DAY_MS)
    )
    topics.write(RESULTS, name, encode(expired), timestamp_ms=NOW_MS)


def test_a_second_result_of_a_request_that_ended_before_the_time_audited_is_found(topics: Topics) -> None:
    first = topics.write(RESULTS, "old", b"whatever it said", timestamp_ms=NOW_MS - 9 * DAY_MS)
    a_late_end(topics, "old", 10)
    a_late_end(topics, "older", 12)  # whose first result is not there
    a_late_end(topics, "in flight", 0.0)
    topics.records.remove(first)  # it lies before what is read for the time audited
    tally = topics.tally(since_ms=NOW_MS)
    assert tally.maybe_ended_before() == {"old", "older"}
    tally.add_before(first, tally.maybe_ended_before())
    tally.add_before(dataclasses.replace(first, key=b"another"), tally.maybe_ended_before())
    found = tally.figures()
    assert found.doubled == {"old": 1}
    assert verdict(found) == "1 results came beyond a request's first (old)"


def test_nothing_lies_before_an_audit_of_everything(topics: Topics) -> None:
    a_late_end(topics, "old", 10)
    assert topics.tally().maybe_ended_before() == set()
