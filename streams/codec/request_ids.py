"""Which request a record belongs to, whoever wrote it and whether or not it can be read."""

from schemas.errors import InvalidRecord
from schemas.ids import request_id_of_record
from schemas.messages import GenerateRequest
from schemas.record import Incoming
from streams.codec.avro import decode, is_unicode, json_object


def request_id_of(record: Incoming) -> str:
    """The id that the record's value names, else its key, else an id made of its position."""
    try:
        if named := _named(record.value):
            return named
    except InvalidRecord:
        pass  # no request: the key decides
    try:
        key = (record.key or b"").decode()
    except UnicodeDecodeError:
        key = ""
    return key or request_id_of_record(record.topic, record.partition, record.offset)


def _named(value: bytes | None) -> str:
    if value and value[0] == 0:
        return decode(value, GenerateRequest).request_id
    named = json_object(value).get("request_id")
    return named if isinstance(named, str) and is_unicode(named) else ""
