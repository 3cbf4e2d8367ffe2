"""The AsyncAPI document says what the topic table, the rights and the registered schemas say."""

import json
import re
from typing import Any

import fastavro
import jsonschema
import pytest
from click.testing import CliRunner

from schemas.asyncapi import ANY_VARIANT, AVRO, document
from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import PLAN, PROMPTS, TABLE, jobs_topic, waiting_topic
from streams.cli import main
from streams.codec.requests import decode_request

TOPICS = (*TABLE, jobs_topic(ANY_VARIANT, 4), waiting_topic(ANY_VARIANT))


def made() -> dict[str, Any]:
    return document(TOPICS, "studio", "1.0", ["kafka-1:9093"], is_tls=True)


def test_every_topic_is_a_channel_with_its_name_partitions_and_settings() -> None:
    channels = made()["channels"]
    assert [each["address"] for each in channels.values()] == [f"studio.{topic.name}" for topic in TOPICS]
    for topic, channel in zip(TOPICS, channels.values(), strict=True):
        kafka = channel["bindings"]["kafka"]
        assert kafka["partitions"] == topic.partitions
        told = {name: value for name, value in kafka["topicConfiguration"].items() if name != "cleanup.policy"}
        assert told == {name: int(topic.config[name]) for name in told}
    assert channels[PLAN]["bindings"]["kafka"]["topicConfiguration"]["cleanup.policy"] == ["compact"]
    assert channels["jobs.variant.v1"]["parameters"].keys() == {"variant"}


def test_references_lead_somewhere_and_avro_schemas_can_be_read() -> None:
    described = made()
    for reference in set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(described))):
        found = described
        for part in reference.split("/"):
            found = found[part]
    messages = described["components"]["messages"].values()
    avro = [each["payload"]["schema"] for each in messages if each.get("payload", {}).get("schemaFormat") == AVRO]
    assert len(avro) == len([each for each in messages if each["name"].startswith("pochade.")])
    for schema in avro:
        fastavro.parse_schema(schema, {})
    assert described["servers"] == {"broker-1": {"host": "kafka-1:9093", "protocol": "kafka-secure"}}


@pytest.mark.parametrize(
    ("fields", "is_taken"),
    [
        ({}, True), ({"seed": 3, "n": 2, "adapters": ["candy"]}, True), ({"deadline_ms": None}, True),
        ({"colour": "red"}, False), ({"n": "2"}, False), ({"adapters": "candy"}, False), ({"prompt": 3}, False),
    ],
)  # fmt: skip
def test_the_json_that_it_allows_on_prompts_is_what_is_taken_there(fields: dict[str, Any], *, is_taken: bool) -> None:
    line = {"prompt": "a red heart"} | fields
    schema = made()["components"]["messages"]["PromptLine"]["payload"]
    assert jsonschema.Draft7Validator(schema).is_valid(line) == is_taken
    record = Incoming(topic=PROMPTS, partition=0, offset=0, timestamp_ms=0, key=None, value=json.dumps(line).encode())
    try:
        decode_request(record)
    except PochadeError:
        assert not is_taken
    else:
        assert is_taken


def test_the_command_prints_it_without_a_broker() -> None:
    done = CliRunner().invoke(main, ["topics", "asyncapi"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["channels"].keys() == made()["channels"].keys()
