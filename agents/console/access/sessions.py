"""Browser sessions: a signed cookie, the role of its key, and the token of its forms.

The cookie names an API key without holding it; each request checks whether that key is still valid.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agents.gateway.signing import Seal
from schemas.messages import ApiKey, OperatorAction
from streams.security.api_keys import KeyRing, Refused, why_refused
from streams.security.scopes import OPERATOR, VIEWER

COOKIE: Final = "pochade_console"
SIGN_OUT: Final = "sign-out"  # action of an operator's record whose subject is the id of a session
MAX_ENDED: Final = 10_000  # sessions that were signed out of and are remembered
LOCAL: Final = "local"  # the actor without authentication


class Role(StrEnum):
    """The rights of a session."""

    VIEWER = VIEWER
    OPERATOR = OPERATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A signed-in viewer: the key, its role, and the token that the forms of this viewer carry."""

    key_id: str  # of the API key that signed in; LOCAL without authentication
    name: str  # of that key
    role: Role
    token: str  # that every form must carry
    id: str = ""  # of the cookie; does not identify its key

    @property
    def may_write(self) -> bool:
        """Whether it may change the pipeline."""
        return self.role is Role.OPERATOR


def role_of(key: ApiKey) -> Role | None:
    """Return a key's role here; None if it is for the gateway only."""
    if OPERATOR in key.scopes:
        return Role.OPERATOR
    return Role.VIEWER if VIEWER in key.scopes else None


class Sessions:
    """Creates and reads cookies. A revoked key ends its sessions; signing out ends one, with copies of its cookie.

    Consoles read both from topics, so it applies to all of them and after a restart.
    """

    def __init__(self, key: bytes, ring: KeyRing | None, lifetime_s: float, clock_ms: Callable[[], int]) -> None:
        """`ring`: None for no authentication; every session is then an operator's."""
        self._key = key
        self._seal = Seal(key, "console:")
        self._ring = ring
        self._lifetime_ms = round(1000 * lifetime_s)
        self._clock_ms = clock_ms
        self._ended: OrderedDict[str, None] = OrderedDict()  # ids; one thread adds at a time, others read

    def on_action(self, action: OperatorAction) -> None:
        """Take in what an operator did: a session may have been signed out of."""
        if action.action == SIGN_OUT:
            self._ended[action.subject] = None
            if len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)

    @property
    def asks_for_keys(self) -> bool:
        """Whether a key is required."""
        return self._ring is not None

    def sign_in(self, key: str) -> str | Refused | None:
        """Return the cookie of an API key, or why the key is refused; None if it is valid but not for the console."""
        assert self._ring is not None, "no keys are asked for"
        found = self._ring.find(key.strip(), self._clock_ms())
        if isinstance(found, Refused):
            return found
        return None if role_of(found) is None else self._cookie(found.key_id)

    def local(self) -> str:
        """Return the cookie of a browser on this machine, without authentication."""
        return self._cookie(LOCAL)

    def _cookie(self, key_id: str) -> str:
        return self._seal.sealed([key_id, self._clock_ms() + self._lifetime_ms, secrets.token_urlsafe(12)])

    def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie; None if it was altered, has ended, or its key is no longer valid."""
        claims = self._seal.opened(cookie) if cookie else None
        name = hashlib.sha256(cookie.encode(errors="replace")).hexdigest()[:16]
        if claims is None or self._clock_ms() >= claims[1] or name in self._ended:
            return None
        token = self._token(cookie)
        if self._ring is None:
            local = Session(key_id=LOCAL, name="", role=Role.OPERATOR, token=token, id=name)
            return local if claims[0] == LOCAL else None
        key = self._ring.with_id(claims[0])
        role = None if key is None or why_refused(key, self._clock_ms()) else role_of(key)
        if key is None or role is None:
            return None
        return Session(key_id=key.key_id, name=key.name, role=role, token=token, id=name)

    def _token(self, cookie: str) -> str:
        return hmac.new(self._key, f"form:{cookie}".encode(), hashlib.sha256).hexdigest()[:40]


def is_token(session: Session, stated: str) -> bool:
    """Whether a form carries its session's token."""
    return hmac.compare_digest(session.token.encode(), stated.encode(errors="replace"))
