"""Checks before every page: foreign hosts and sites, sessions, and security headers."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agents.console.access.sessions import COOKIE, Sessions
from agents.gateway.transport.guard import in_time, is_ours
from streams import metrics
from streams.settings import Console

POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
ALWAYS: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "same-origin",
    "x-frame-options": "DENY", "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}  # fmt: skip
OPEN: Final = ("/assets/", "/sign-in")  # what a browser sees before it has signed in
SAFE: Final = ("GET", "HEAD")


class Guard:
    """An ASGI app around the pages."""

    def __init__(self, app: ASGIApp, limits: Console, sessions: Sessions) -> None:
        self._app = app
        self._limits = limits
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with a refusal or the page to sign in."""
        if scope["type"] != "http":
            return
        cookies: list[str] = []

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in ALWAYS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
                for cookie in cookies:
                    headers.append("set-cookie", cookie)
                handler = getattr(scope.get("endpoint"), "__name__", "none")
                metrics.CONSOLE_REQUESTS.labels(handler, str(message["status"])).inc()
            await send(message)

        request = Request(scope, receive)
        if (why := self._foreign(request.headers, scope["method"])) is not None:
            await PlainTextResponse(why, 403)(scope, receive, send_with_headers)
            return
        cookie = request.cookies.get(COOKIE, "")
        session = self._sessions.find(cookie)
        if session is None and not self._sessions.asks_for_keys:
            cookie = self._sessions.local()
            session = self._sessions.find(cookie)
            cookies.append(self.cookie(cookie))
        scope.setdefault("state", {})["session"] = session
        if session is None and not scope["path"].startswith(OPEN):
            await RedirectResponse("/sign-in", 303)(scope, receive, send_with_headers)
            return
        await self._app(scope, in_time(receive, self._limits.client_timeout_s), send_with_headers)

    def cookie(self, value: str) -> str:
        """Return the header that sets the session's cookie; no script reads it and no other site sends it."""
        is_secure = bool(self._limits.tls_certificate) or self._limits.public_url.startswith("https://")
        end = f"; Max-Age={round(self._limits.session_s)}" if value else "; Max-Age=0"
        return f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if is_secure else ''}{end}"

    def _foreign(self, headers: Headers, method: str) -> str | None:
        """Say why a request is another site's; None if it is not. Without keys foreign host names are refused."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._sessions.asks_for_keys and not is_ours(f"//{host}"):
            return f"without keys the console answers at 127.0.0.1 or localhost alone: got host {host!r:.80}"
        ours = {host, urlsplit(self._limits.public_url).netloc} - {""}
        if origin is not None and (origin == "null" or origin.partition("://")[2] not in ours):
            return f"a page of another site asked: origin {origin!r:.80}"
        if method not in SAFE and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "a page of another site sent a form"
        return None
