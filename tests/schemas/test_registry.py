"""The registry: ids mean for ever what they first meant."""

import dataclasses

import pytest

from schemas.avro import avro_schema, subject_of
from schemas.messages import Heartbeat
from schemas.registry import MESSAGES, Registered, append_changed, by_id, latest, registered
from streams.codec.avro import decode, encode
from tests.schemas.examples import EXAMPLE_OF
from tests.schemas.golden import GOLDEN

NEWEST = {subject: EXAMPLE_OF[entry.id] for subject, entry in latest().items()}


def test_every_registered_schema_has_golden_bytes_and_an_example() -> None:
    assert GOLDEN.keys() == by_id().keys() == EXAMPLE_OF.keys()


@pytest.mark.parametrize("schema_id", sorted(GOLDEN))
def test_golden_bytes_of_a_used_id_still_read_as_the_same_message(schema_id: int) -> None:
    example = EXAMPLE_OF[schema_id]
    assert decode(bytes.fromhex(GOLDEN[schema_id]), type(example)) == example


def test_a_heartbeat_of_a_release_that_told_no_slowness_counts_as_of_calls_as_profiled() -> None:
    for schema_id in (10, 34, 42):
        assert decode(bytes.fromhex(GOLDEN[schema_id]), Heartbeat).slowness == 1.0
    assert decode(bytes.fromhex(GOLDEN[44]), Heartbeat).slowness == 1.25


@pytest.mark.parametrize("subject", sorted(NEWEST))
def test_this_release_writes_the_newest_schema_to_the_byte(subject: str) -> None:
    written = encode(NEWEST[subject])  # type: ignore[arg-type]
    assert int.from_bytes(written[1:5], "big") == latest()[subject].id
    assert written.hex() == GOLDEN[latest()[subject].id]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda k: k.__name__)
def test_each_message_is_registered_as_its_dataclass_says(kind: type) -> None:
    assert latest()[subject_of(kind)].schema == avro_schema(kind), "changed? run `python -m schemas.registry`"


def test_ids_and_versions_count_up_without_gaps() -> None:
    assert [entry.id for entry in registered()] == list(range(1, len(registered()) + 1))
    for subject in latest():
        versions = [entry.version for entry in registered() if entry.subject == subject]
        assert versions == list(range(1, len(versions) + 1))


def test_an_unchanged_message_gets_no_new_version() -> None:
    assert append_changed(registered()) == registered()


def test_a_changed_message_is_appended_and_old_entries_stay() -> None:
    old = tuple(
        dataclasses.replace(entry, schema={**entry.schema, "fields": entry.schema["fields"][:-1]})
        if entry.subject == "pochade.Event"
        else entry
        for entry in registered()
    )
    grown = append_changed(old)
    assert grown[: len(old)] == old
    assert grown[len(old) :] == (Registered(len(old) + 1, "pochade.Event", 2, latest()["pochade.Event"].schema),)
