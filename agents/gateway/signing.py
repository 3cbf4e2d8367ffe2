"""Signed texts: claims with a keyed digest, so that a holder cannot alter them.

Gateways that share the secret read each other's texts.
"""

import base64
import contextlib
import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Any, Final

MAC_BYTES: Final = 18


class Seal:
    """Signs and reads claims for one purpose; claims signed for another purpose are refused. Thread-safe."""

    def __init__(self, key: bytes, purpose: str) -> None:
        self._key = key
        self._purpose = purpose

    def sealed(self, claims: Sequence[Any]) -> str:
        """Return the text of these claims, fit for a path."""
        payload = _packed(json.dumps(claims, separators=(",", ":")).encode())
        return f"{payload}.{self._mac(payload)}"

    def opened(self, token: str) -> list[Any] | None:
        """Return the claims of a text; None if it was altered, or signed with another secret or for another purpose."""
        payload, _, mac = token.partition(".")
        if not hmac.compare_digest(mac.encode(errors="replace"), self._mac(payload).encode()):
            return None
        with contextlib.suppress(ValueError):  # signed for a purpose of which this one is the beginning
            claims: list[Any] = json.loads(_unpacked(payload))
            return claims
        return None

    def _mac(self, payload: str) -> str:
        signed = f"{self._purpose}{payload}".encode(errors="replace")
        return _packed(hmac.digest(self._key, signed, hashlib.sha256)[:MAC_BYTES])


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unpacked(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
