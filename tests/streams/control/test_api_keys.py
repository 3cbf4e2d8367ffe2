import pytest

from schemas.topics import KEYS
from streams.codec.avro import encode
from streams.control import api_keys
from streams.kafka.clients import topic_name
from streams.kafka.consumers import snapshot
from streams.security.api_keys import new_key
from streams.settings import load
from tests.agents.stubs import a_record


def test_one_record_that_is_no_key_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings, (_, key) = load({}), new_key("studio", ("read",), 1)
    records = [a_record(value=b"\xff", key=b"other"), a_record(value=encode(key), key=key.key_id.encode())]
    monkeypatch.setattr(api_keys, "own_topics", lambda _: [topic_name(settings, KEYS)])
    monkeypatch.setattr(snapshot, "past", lambda *_, **__: records)
    assert api_keys.stored(settings) == [key]
    assert "passed over 1 record" in caplog.text
