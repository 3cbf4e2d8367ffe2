"""API keys of the gateway's clients: their creation, and their validity by the topic `keys`.

A key has 256 random bits, too many to guess, so its plain SHA-256 reveals nothing and needs no salt; a slow digest, as
for passwords, would cost each request its time and protect nothing. Keys are looked up by digest, so the time of a
lookup does not depend on how much of a key was right.
"""

import hashlib
import re
import secrets
import threading
from enum import StrEnum
from typing import Final

from planner.serving.admission.quotas import OTHERS
from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import ApiKey
from schemas.record import Incoming
from streams.codec.avro import decode

PREFIX: Final = "pochade_"  # by which tools that look for leaked secrets recognise a key
KEY_BYTES: Final = 32
ID_DIGITS: Final = 16
MAX_KEY: Final = 128  # characters of what may be a key
MAX_NAME: Final = 100
DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Refused(StrEnum):
    """Why a key is refused."""

    MISSING = "missing"
    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    REVOKED = "revoked"
    EXPIRED = "expired"


def digest_of(key: str) -> str:
    """Return the digest of a key, as it is stored."""
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


def new_key(
    tenant: str, scopes: tuple[str, ...], now_ms: int, *, expires_ms: int | None = None, name: str = "", by: str = ""
) -> tuple[str, ApiKey]:
    """Return a new key, and what is stored of it. Raises PochadeError: a tenant or a name that cannot be one."""
    _check_text("tenant", tenant, 1)
    _check_text("name", name, 0)
    if tenant == OTHERS:
        raise PochadeError(f"tenant must be the name of one: {OTHERS!r} stands for all without a quota of their own")
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    digest = digest_of(key)
    known = ApiKey(
        key_id=digest[:ID_DIGITS], digest=digest, tenant=tenant, scopes=scopes, created_ms=now_ms,
        expires_ms=expires_ms, name=name, by=by,
    )  # fmt: skip
    return key, known


def _check_text(what: str, text: str, least: int) -> None:
    if not least <= len(text) <= MAX_NAME or not text.isprintable() or text != text.strip():
        limit = f"{what} must have {least} to {MAX_NAME} characters that show, and no spaces around them"
        raise PochadeError(f"{limit}: got {text[: MAX_NAME + 1]!r}")


def why_refused(key: ApiKey, now_ms: int) -> Refused | None:
    """Return why a known key is refused at a time (epoch ms); None if it is valid."""
    if key.revoked_ms is not None:
        return Refused.REVOKED
    return Refused.EXPIRED if key.expires_ms is not None and now_ms >= key.expires_ms else None


class KeyRing:
    """The keys on the topic. One thread hands over records, any reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, ApiKey] = {}
        self._tenants: set[str] = set()

    def on_record(self, record: Incoming) -> None:
        """Take in a record of the topic; one without a value takes its key away. Raises InvalidRecord."""
        key_id = (record.key or b"").decode(errors="replace")
        key = decode(record.value, ApiKey) if record.value else None
        if key is not None:
            is_whole = DIGEST.fullmatch(key.digest) and key.key_id == key.digest[:ID_DIGITS] == key_id and key.tenant
            if not is_whole:
                raise InvalidRecord(f"no API key: id {key.key_id!r:.80} under the record's key {key_id!r:.80}")
        with self._lock:
            if key is None:
                self._by_id.pop(key_id, None)
            else:
                self._by_id[key_id] = key
                self._tenants.add(key.tenant)

    def find(self, key: str, now_ms: int) -> ApiKey | Refused:
        """Return what is stored of a key that holds at a moment (epoch ms), or why it is refused."""
        if len(key) > MAX_KEY or not key.startswith(PREFIX):
            return Refused.MALFORMED
        digest = digest_of(key)
        known = self._by_id.get(digest[:ID_DIGITS])
        return Refused.UNKNOWN if known is None or known.digest != digest else why_refused(known, now_ms) or known

    def with_id(self, key_id: str) -> ApiKey | None:
        """Return the stored key with an id, valid or not; None if unknown."""
        return self._by_id.get(key_id)

    def keys(self) -> list[ApiKey]:
        """Return all that is stored, the oldest first."""
        with self._lock:
            known = list(self._by_id.values())
        return sorted(known, key=lambda each: (each.created_ms, each.key_id))

    def has(self, tenant: str) -> bool:
        """Whether a tenant has, or has had, a key."""
        return tenant in self._tenants
