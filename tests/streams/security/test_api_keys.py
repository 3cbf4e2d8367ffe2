"""API keys: how one is made, what is stored of it, and what the topic tells of which hold."""

import dataclasses

import pytest

from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import ApiKey
from schemas.record import Incoming
from schemas.topics import KEYS
from streams.codec.avro import encode
from streams.security.api_keys import KeyRing, Refused, digest_of, new_key
from streams.security.scopes import SCOPES
from tests.builders import NOW_MS


def told(ring: KeyRing, known: ApiKey | None, key_id: str = "") -> None:
    record_key = (key_id or (known.key_id if known else "")).encode()
    value = encode(known) if known else None
    ring.on_record(Incoming(topic=KEYS, partition=0, offset=0, timestamp_ms=NOW_MS, key=record_key, value=value))


def test_a_key_has_256_random_bits_and_what_is_stored_does_not_hold_it() -> None:
    key, known = new_key("studio", SCOPES, NOW_MS, name="laptop", by="me")
    other, _ = new_key("studio", SCOPES, NOW_MS)
    secret = key.removeprefix("pochade_")
    assert key != other
    assert len(secret) == 43  # of 64 letters: 6 bits each, 256 in all
    assert secret not in str(known)
    assert (known.digest, known.key_id) == (digest_of(key), digest_of(key)[:16])


@pytest.mark.parametrize("tenant", ["", " studio", "a\nb", "\x1b[2J", "*", "a" * 101])
def test_a_name_that_is_no_tenants_is_refused(tenant: str) -> None:
    with pytest.raises(PochadeError, match="tenant must"):
        new_key(tenant, SCOPES, NOW_MS)


def test_the_newest_record_of_a_key_says_whether_it_holds() -> None:
    ring = KeyRing()
    key, known = new_key("studio", SCOPES, NOW_MS, expires_ms=NOW_MS + 10)
    assert ring.find(key, NOW_MS) is Refused.UNKNOWN
    told(ring, known)
    assert ring.find(key, NOW_MS) == known
    assert ring.find(key, NOW_MS + 10) is Refused.EXPIRED
    told(ring, dataclasses.replace(known, revoked_ms=NOW_MS))
    assert ring.find(key, NOW_MS) is Refused.REVOKED
    told(ring, None, known.key_id)
    assert ring.find(key, NOW_MS) is Refused.UNKNOWN
    assert (ring.keys(), ring.has("studio")) == ([], True)  # what it has asked for is still told


def test_a_digest_is_not_taken_for_the_key() -> None:
    ring = KeyRing()
    _, known = new_key("studio", SCOPES, NOW_MS)
    told(ring, known)
    assert ring.find(known.digest, NOW_MS) is Refused.MALFORMED
    assert ring.find("pochade_" + known.digest, NOW_MS) is Refused.UNKNOWN


def test_a_key_whose_id_alone_is_that_of_another_is_unknown() -> None:
    ring = KeyRing()
    key, known = new_key("studio", SCOPES, NOW_MS)
    told(ring, dataclasses.replace(known, digest=known.key_id + "0" * 48))
    assert ring.find(key, NOW_MS) is Refused.UNKNOWN


@pytest.mark.parametrize(
    "fields", [{"key_id": "0" * 16}, {"digest": "0" * 64}, {"digest": "short"}, {"tenant": ""}, {"digest": "A" * 64}]
)
def test_a_record_that_contradicts_itself_changes_no_key(fields: dict[str, str]) -> None:
    ring = KeyRing()
    key, known = new_key("studio", SCOPES, NOW_MS)
    told(ring, known)
    with pytest.raises(InvalidRecord, match="no API key"):
        told(ring, dataclasses.replace(known, **fields), known.key_id)
    assert ring.find(key, NOW_MS) == known
