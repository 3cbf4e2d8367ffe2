from schemas.messages import GenerateRequest, Result
from schemas.record import Incoming
from schemas.topics import RESULTS
from streams.codec.avro import decode, encode
from streams.operator.client import RequestClient
from streams.settings import Settings
from tests.builders import NOW_MS, a_request
from tests.memory_kafka import MemoryRecordProducer


def record(result: Result, offset: int = 0, value: bytes | None = None) -> Incoming:
    key = result.request_id.encode()
    return Incoming(
        topic=RESULTS, partition=0, offset=offset, timestamp_ms=NOW_MS, key=key, value=value or encode(result)
    )


def test_a_request_is_written_as_framed_avro_under_its_id() -> None:
    producer = MemoryRecordProducer()
    RequestClient(Settings(), producer).submit(a_request(request_id="r-7")).result(1)
    (written,) = producer.topics["prompts.v1"]
    assert written.key == b"r-7"
    assert decode(written.value, GenerateRequest) == a_request(request_id="r-7")
    assert {"traceparent", "ce_type", "ce_subject"} <= set(written.headers)
