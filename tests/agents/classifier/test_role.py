"""The classifier's logic: what it writes for good, late, refused and unreadable prompts."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from agents.classifier.judges import Judgement
from agents.classifier.role import Classifier
from planner.serving.ending.ledger import result_of
from schemas.ids import request_id_of_record
from schemas.messages import ClassifiedRequest, GenerateRequest, Outcome, Status
from schemas.record import Incoming, Outgoing
from schemas.topics import CLASSIFIED, DAY_MS, DLQ, OUTCOMES, PROMPTS
from streams import metrics
from streams.clock import now_ms
from streams.kafka.producers.topic_limits import TopicLimits
from streams.settings import Requests
from tests.agents import stubs
from tests.agents.stubs import read, topics_of
from tests.awaiting import awaited
from tests.builders import a_catalog, a_request

ID_OF_PLACE = request_id_of_record(PROMPTS, 0, 7, 1_760_000_000_001)


def a_record(request: GenerateRequest | None = None, **changes: Any) -> Incoming:
    return stubs.a_record(request, **{"topic": PROMPTS} | changes)


class Judge:
    name = "judge-1"

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.classes: dict[str, str] = {}

    def classify(self, prompt: str) -> Judgement:
        self.seen.append(prompt)
        return Judgement(0.9, self.classes, None)


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def classifier(judge: Judge) -> Classifier:
    return Classifier(judge, a_catalog(), Requests(max_prompt_bytes=100))


def served(classifier: Classifier, record: Incoming) -> Sequence[Outgoing]:
    """What the host would write: the answer, or the answer to the error."""
    try:
        return awaited(classifier.on_record(record))
    except Exception as error:
        return classifier.on_error(record, error)


def test_a_prompt_becomes_a_classified_request_with_hardness_and_class(classifier: Classifier) -> None:
    (written,) = served(classifier, a_record(a_request()))
    classified = read(written, ClassifiedRequest)
    assert (written.topic, written.key, written.headers["x-own"]) == (CLASSIFIED, b"r-1", b"travels")
    assert (classified.hardness, classified.classes, classified.classifier) == (0.9, {"models": "heavy"}, "judge-1")
    assert (classified.request, classified.received_ms) == (a_request(), 1_760_000_000_001)


def test_a_class_that_the_judge_predicts_counts_more_than_the_cuts(classifier: Classifier, judge: Judge) -> None:
    judge.classes = {"models": "light", "reuse": "heavy~k4"}
    (written,) = served(classifier, a_record(a_request()))
    assert read(written, ClassifiedRequest).classes == {"models": "light", "reuse": "heavy~k4"}


@pytest.mark.parametrize("key", [None, b"user-42"])
def test_a_json_prompt_without_an_id_is_known_by_its_place(classifier: Classifier, key: bytes | None) -> None:
    (written,) = served(classifier, a_record(key=key, value=b'{"prompt": "a red heart"}'))
    assert (written.key, read(written, ClassifiedRequest).request.request_id) == (ID_OF_PLACE.encode(), ID_OF_PLACE)


def test_an_id_that_a_header_states_does_not_travel_on_beside_the_key(classifier: Classifier) -> None:
    stated = {"pochade_request_id": b"moved"}
    (written,) = served(classifier, a_record(value=b'{"prompt": "a red heart"}', headers=stated))
    assert (written.key, "pochade_request_id" in written.headers) == (b"moved", False)


def test_a_prompt_that_cannot_be_served_is_rejected_and_kept(classifier: Classifier, judge: Judge) -> None:
    record = a_record(a_request(prompt="  "))
    outcome, kept = served(classifier, record)
    said = read(outcome, Outcome)
    assert (outcome.topic, said.status, said.request_id, said.by) == (OUTCOMES, Status.REJECTED, "r-1", "classifier")
    assert (kept.topic, kept.value) == (DLQ, record.value)
    assert not judge.seen


@pytest.mark.parametrize(
    ("asked", "param", "said"),
    [
        ({"priority": "high"}, "priority", "priority must be one of interactive"),
        ({"priority": 1}, "priority", "request field 'priority' must be a string"),
        ({"size": "30x32"}, "size", "size: width must be"),
        ({"deadline_in_ms": 10**12}, "deadline_in_ms", "deadline_in_ms: deadline_ms must be at most"),
        ({"tier": "high"}, "tier", "tier must be one of"),
        ({"deadline": 5}, "deadline", "did you mean 'deadline_in_ms'"),
        ({"output_format": "webp"}, "output_format", "the gateway does it"),
        ({"sede": 5}, "sede", "adapter, adapter_weights, adapters"),
    ],
)
def test_a_rejection_says_the_name_that_the_sender_wrote(
    classifier: Classifier, asked: dict[str, Any], param: str, said: str
) -> None:
    outcome, _ = served(classifier, a_record(value=json.dumps({"prompt": "a red heart", **asked}).encode()))
    result = result_of(read(outcome, Outcome))
    assert result.param == param
    assert said in result.reason


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"seed": -1}, "seed"),
        ({"sede": 7}, "sede"),
        ({"width": 30}, "width"),
        ({"\ud800" * 1000: 7}, "?" * 80),
    ],
)
def test_a_rejection_names_the_field_that_is_at_fault_whatever_its_sender_calls_it(
    classifier: Classifier, asked: dict[str, Any], param: str
) -> None:
    outcome, _ = served(classifier, a_record(value=json.dumps({"prompt": "a red heart", **asked}).encode()))
    assert result_of(read(outcome, Outcome)).param == param


def test_a_refused_prompt_of_a_megabyte_leaves_records_that_can_be_written(classifier: Classifier) -> None:
    value = json.dumps({"request_id": "big", "prompt": "x" * 999_000}).encode()
    outcome, kept = served(classifier, a_record(key=b"big", value=value))
    said = read(outcome, Outcome)
    assert (said.status, said.request_id, said.request.prompt) == (Status.REJECTED, "big", "x" * 100)
    TopicLimits().check(outcome)
    TopicLimits().check(kept)
    assert value.startswith(kept.value or b"-")
    assert kept.headers["pochade_error_cut_from_bytes"] == str(len(value)).encode()


def test_a_prompt_past_its_deadline_expires_without_being_judged(classifier: Classifier, judge: Judge) -> None:
    (outcome,) = served(classifier, a_record(a_request(deadline_ms=now_ms() - 1)))
    assert read(outcome, Outcome).status is Status.EXPIRED
    assert not judge.seen


def test_a_span_that_is_given_for_a_deadline_is_told_so(classifier: Classifier) -> None:
    (outcome,) = served(classifier, a_record(a_request(deadline_ms=5000)))
    assert "did you mean deadline_in_ms 5000?" in read(outcome, Outcome).reason


@pytest.mark.parametrize("tier", ["standard", "batch"])
def test_prompts_that_were_cancelled_while_they_waited_are_not_judged(judge: Judge, tier: str) -> None:
    ended = {f"r-{n}" for n in range(2000)}
    classifier = Classifier(judge, a_catalog(), Requests(), ended)
    flood = [a_record(a_request(request_id=name, tier=tier), key=name.encode()) for name in sorted(ended)]
    assert [written for record in flood for written in served(classifier, record)] == []
    assert not judge.seen
    (written,) = served(classifier, a_record(a_request(request_id="next")))
    assert (written.topic, len(judge.seen)) == (CLASSIFIED, 1)


REPETITIONS: list[GenerateRequest | bytes] = [
    a_request(),
    a_request(prompt="another", tenant="another"),
    a_request(tier="batch"),
    a_request(prompt=" "),
    a_request(deadline_ms=1),
    b'{"request_id": "r-1", "prompt": 7}',
    b'{"request_id": "r-1", "prompt": "x", "unknown": 1}',
]


@pytest.mark.parametrize("asked", REPETITIONS)
@pytest.mark.parametrize("has_ended", [True, False])
def test_what_comes_under_the_id_of_a_request_that_is_there_is_dropped_and_counted_whatever_it_holds(
    judge: Judge, asked: GenerateRequest | bytes, has_ended: bool
) -> None:
    there = {"r-1"}
    ended, in_flight = (there, set[str]()) if has_ended else (set[str](), there)
    classifier = Classifier(judge, a_catalog(), Requests(), ended, in_flight)
    count = metrics.DEAD_WORK.labels("classifier") if has_ended else metrics.REPEATED
    before = count._value.get()
    record = a_record(value=asked) if isinstance(asked, bytes) else a_record(asked)
    assert not served(classifier, record)
    assert not awaited(classifier.classified(record))  # as the batch gate asks
    assert (count._value.get(), judge.seen) == (before + 2, [])


@pytest.mark.parametrize("value", [b"\xff\xfe", b"", None])
def test_an_unreadable_prompt_fails_under_its_position_and_its_key_and_bytes_are_kept(
    classifier: Classifier, value: bytes | None
) -> None:
    outcome, kept = served(classifier, a_record(value=value))
    said = read(outcome, Outcome)
    assert (said.status, said.request_id, outcome.key) == (Status.FAILED, ID_OF_PLACE, ID_OF_PLACE.encode())
    assert ("no value (a tombstone)" in said.reason) == (value is None)
    assert (kept.topic, kept.key, kept.value, kept.headers["x-own"]) == (DLQ, b"r-1", value, b"travels")
    assert kept.headers["pochade_error_request_id"] == ID_OF_PLACE.encode()


def test_json_nested_deeper_than_python_goes_is_refused_and_kept(classifier: Classifier) -> None:
    value = b"[" * 100_000
    outcome, kept = served(classifier, a_record(value=value))
    assert (read(outcome, Outcome).status, read(outcome, Outcome).request_id) == (Status.FAILED, ID_OF_PLACE)
    assert kept.value == value


def test_a_judge_that_raises_ends_the_request_as_failed(classifier: Classifier, judge: Judge) -> None:
    def broken(prompt: str) -> Judgement:
        raise KeyError(prompt)

    judge.classify = broken  # type: ignore[method-assign]
    assert topics_of(served(classifier, a_record(a_request()))) == [OUTCOMES, DLQ]


def test_a_deadline_too_far_ahead_is_rejected_with_what_is_allowed(classifier: Classifier) -> None:
    outcome, _ = served(classifier, a_record(a_request(deadline_ms=now_ms() + 10 * DAY_MS)))
    said = read(outcome, Outcome)
    assert (said.status, "requests.max_deadline_s" in said.reason) == (Status.REJECTED, True)
