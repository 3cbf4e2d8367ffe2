"""A trace from our own topics by time range, on the real broker."""

import json

import pytest
from click.testing import CliRunner

from replay.traces import Asked, InvalidTrace
from replay.traces.topic import read_topic
from schemas.errors import PochadeError
from schemas.messages import ClassifiedRequest, GenerateRequest
from schemas.record import Outgoing
from schemas.topics import CLASSIFIED, PROMPTS, PROMPTS_BATCH, RESULTS
from streams.cli import main
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.kafka.consumers.snapshot import between, past
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.settings import Settings
from tests.integration.markers import end_with_markers
from tests.integration.waiting import poll_until

pytestmark = pytest.mark.broker


def ask(producer: KafkaRecordProducer, *names: str, topic: str = PROMPTS) -> None:
    """One request after the other, so that the broker's clock gives their order."""
    for name in names:
        request = GenerateRequest(request_id=name, prompt=f"a cat called {name}", created_ms=now_ms())
        send_all(producer, [Outgoing(topic=topic, key=name.encode(), value=encode(request))], 30)


def test_a_window_holds_what_came_from_its_start_to_before_its_end(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    ask(producer, *(f"r-{n:02}" for n in range(40)))
    written = sorted(past(settings, [PROMPTS]), key=lambda record: record.timestamp_ms)
    since_ms, until_ms = written[10].timestamp_ms, written[30].timestamp_ms
    wanted = {(r.partition, r.offset) for r in written if since_ms <= r.timestamp_ms < until_ms}
    found = list(between(settings, [PROMPTS], since_ms, until_ms))
    assert len({record.partition for record in found}) > 1
    assert {(record.partition, record.offset) for record in found} == wanted
    assert list(between(settings, [PROMPTS], until_ms + 60_000, until_ms + 90_000)) == []
    assert len(list(between(settings, [PROMPTS], 1, now_ms() + 60_000))) == 40


def test_history_is_a_trace_whose_gaps_are_those_of_the_broker(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    since_ms = now_ms()
    ask(producer, "a", "b")
    ask(producer, "c", topic=PROMPTS_BATCH)
    ask(producer, "b", "d")
    send_all(producer, [Outgoing(topic=PROMPTS, key=b"x", value=b"\x00poison")], 30)
    request = GenerateRequest(request_id="d", prompt="a cat called d", created_ms=now_ms())
    classified = ClassifiedRequest(
        request=request, hardness=0.5, classes={}, classifier="rules", received_ms=now_ms(), classified_ms=now_ms()
    )
    send_all(producer, [Outgoing(topic=CLASSIFIED, key=b"d", value=encode(classified))], 30)
    trace = read_topic(settings, since_ms, now_ms() + 1000, Asked())
    assert sorted(trace.ids) == ["a", "b", "c", "d"]
    assert trace.skipped == {"repeated": 1, "not a request": 1}
    assert {row.request_id: row.hardness for row in trace.rows()} == {"a": None, "b": None, "c": None, "d": 0.5}
    assert {row.prompt for row in trace.rows()} == {f"a cat called {name}" for name in "abcd"}
    stamps = sorted(r.timestamp_ms for r in past(settings, [PROMPTS, PROMPTS_BATCH]) if r.key != b"x")
    assert trace.arrival_ms[0] == 0
    assert trace.arrival_ms[-1] == stamps[-1] - stamps[0]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_window_that_ends_with_a_transactions_marker_ends(
    settings: Settings, producer: KafkaRecordProducer, end: str
) -> None:
    assert producer  # the topics are there
    wanted = end_with_markers(settings, end)

    def is_read() -> bool:  # the broker writes the markers a moment after it has said yes
        return len(list(between(settings, [RESULTS], 1, now_ms() + 1000))) == wanted

    poll_until(is_read, f"{wanted} records")


def test_the_command_records_what_was_asked_and_says_where_nothing_was(
    settings: Settings, producer: KafkaRecordProducer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("recorded") / "hour.jsonl.gz"
    deployment = ["--home", str(settings.home), "--set", f"kafka.prefix={settings.kafka.prefix}"]
    ask(producer, "a", "b", "c")
    reported = CliRunner().invoke(
        main, [*deployment, "replay", "save", "--from-topic", "--since", "1h", "--out", str(out)]
    )
    assert reported.exit_code == 0, reported.output
    shown = CliRunner().invoke(main, ["replay", "inspect", str(out), "-o", "json"])
    assert json.loads(shown.output)["requests"] == 3
    before = ["replay", "inspect", "--from-topic", "--since", "2h", "--until", "1h"]
    none = CliRunner().invoke(main, [*deployment, *before])
    assert none.exit_code == 1
    assert "has no requests" in none.output


def test_a_topic_that_is_not_there_and_a_window_turned_round_are_reported(settings: Settings) -> None:
    with pytest.raises(PochadeError, match="cannot read prompts"):
        read_topic(settings, 1, 2, Asked())
    with pytest.raises(InvalidTrace, match="--since must be before --until"):
        read_topic(settings, 2, 2, Asked())
