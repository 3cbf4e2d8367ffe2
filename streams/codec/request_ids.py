"""Finds the request of a record, also of an unreadable one.

On a public topic a record's key says where it lies and no more: producers key by user, tenant or region. A role that
writes such a record again states its id in a header (REQUEST_ID), as its position there is another one. A producer that
sets the header gets what it would get by a `request_id` in the value, and no more: the value goes before it, and bytes
that cannot be read end under their position, whatever their key and headers say.
"""

from schemas.errors import InvalidRecord
from schemas.ids import request_id_of_record
from schemas.messages import GenerateRequest
from schemas.record import Incoming
from schemas.topics import PUBLIC
from streams.codec.avro import decode, is_unicode, json_object
from streams.codec.headers import REQUEST_ID


def request_id_of(record: Incoming) -> str:
    """Return the id of a record's request.

    On a public topic: the id that the value states, else that of the header REQUEST_ID, else one made of the record's
    position and time, which is also the id of a record that cannot be read. On other topics: the key.
    """
    stated = _stated(record) if record.topic in PUBLIC else _text(record.key)
    return stated or request_id_of_record(record.topic, record.partition, record.offset, record.timestamp_ms)


def id_in_value(value: bytes | None) -> str:
    """Return the id that the value of a prompt states, "" if it states none.

    Raises:
        UnknownSchema: this process has not learnt the schema of the value.
        InvalidRecord: the value cannot be read.
    """
    if value and value[0] == 0:
        return decode(value, GenerateRequest).request_id
    named = json_object(value).get("request_id")
    return named if isinstance(named, str) and is_unicode(named) else ""


def _stated(record: Incoming) -> str:
    try:
        return id_in_value(record.value) or _text(record.headers.get(REQUEST_ID))
    except InvalidRecord:
        return ""


def _text(data: bytes | None) -> str:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError:
        return ""
