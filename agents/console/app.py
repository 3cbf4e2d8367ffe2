"""The routes of the console, as an ASGI app: pages, their live parts, images, and the forms that change something."""

import logging
import math
import pathlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agents.console.access.guard import Guard
from agents.console.access.sessions import COOKIE, Role, Session, Sessions
from agents.console.children import CommandFailed, Commands
from agents.console.forms import fields_of, form_of, parameters_of
from agents.console.images import PATH as IMAGES_PATH
from agents.console.images import SealedImages
from agents.console.live import Live, Parts
from agents.console.pages import Pages
from agents.console.screens import checks, fleet, letters, now, plans, quality, requests, trying, what_if
from agents.console.screens.context import Context
from agents.console.view.view import View
from agents.console.writing import DryRun, Orders
from agents.gateway.callers.bearer import WORDS
from agents.gateway.callers.failures import Failures
from planner.policies import DEFAULT, POLICIES
from schemas.errors import PochadeError
from streams.security.api_keys import Refused
from streams.settings import Settings

log = logging.getLogger(__name__)

ASSETS: Final = pathlib.Path(__file__).parent / "assets"
TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOREVER: Final = "private, max-age=31536000, immutable"
SCREENS: Final[Mapping[str, tuple[str, Callable[[Context], dict[str, Any]]]]] = {  # live parts: name -> title, values
    "now": ("Now", now.values),
    "requests": ("Requests", requests.values),
    "gallery": ("Gallery", requests.gallery),
    "try": ("Try", trying.values),
    "fleet": ("Fleet", fleet.values),
    "plan": ("Plan", plans.values),
    "quality": ("Quality", quality.values),
    "dead-letters": ("Dead letters", letters.values),
}
NAV: Final = (
    ("/", "Now"), ("/requests", "Requests"), ("/gallery", "Gallery"), ("/try", "Try"), ("/fleet", "Fleet"),
    ("/plan", "Plan"), ("/quality", "Quality"), ("/dead-letters", "Dead letters"), ("/checks", "Audit and chaos"),
    ("/what-if", "What if"),
)  # fmt: skip
SINCE: Final = tuple(what_if.SINCE)


class Console:
    """The handlers."""

    def __init__(
        self, settings: Settings, view: View, sessions: Sessions, pages: Pages, images: SealedImages, parts: Parts,
        orders: Orders, commands: Commands, clock_ms: Callable[[], int],
    ) -> None:  # fmt: skip
        self._settings = settings
        self._view = view
        self._sessions = sessions
        self._pages = pages
        self._images = images
        self.parts = parts
        self._orders = orders
        self._commands = commands
        self._clock_ms = clock_ms
        self._estimate: dict[str, Any] | None = None  # the last that was asked for, with its moment
        self._failures = Failures(settings.console.max_failures)
        self._assets = {path.name: path.read_bytes() for path in ASSETS.iterdir() if path.suffix in TYPES}

    def routes(self) -> list[Route]:
        """Return all that the console answers."""
        screens = [Route("/" if name == "now" else f"/{name}", self._screen(name), name=name) for name in SCREENS]
        return [
            *screens,
            Route("/requests/{id:path}/cancel", self.cancel, methods=["POST"]),
            Route("/requests/{id:path}/again", self.again, methods=["POST"]),
            Route("/requests/{id:path}", self.request),
            Route("/requests", self.submit, methods=["POST"]),
            Route("/live/requests/{id:path}", self.live_request),
            Route("/live/{screen}", self.live),
            Route("/plan/pin", self.pin, methods=["POST"]),
            Route("/plan/unpin", self.unpin, methods=["POST"]),
            Route("/plan/rollback", self.rollback),
            Route("/plan/shadow", self.shadow, methods=["POST"]),
            Route("/plan/explain", self.explain, methods=["POST"]),
            Route("/dead-letters/redrive", self.redrive, methods=["POST"]),
            Route("/confirm", self.confirm, methods=["POST"]),
            Route("/checks", self.checks),
            Route("/checks/audit", self.audit, methods=["POST"]),
            Route("/what-if", self.what_if),
            Route("/what-if", self.simulate, methods=["POST"]),
            Route("/what-if/progress", self.progress),
            Route("/sign-in", self.sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            Route(f"{IMAGES_PATH}{{token}}", self.image),
            Route("/assets/{file}", self.asset),
        ]

    # pages

    def _context(self, query: Mapping[str, str]) -> Context:
        return Context(
            view=self._view, now_ms=self._clock_ms(), silent_ms=self._settings.planner.worker_timeout_ms, query=query,
            address=self._images.address, is_clear=self._settings.console.prompts == "clear",
        )  # fmt: skip

    def page(
        self, http: Request, name: str, title: str, *, status: int = 200, live: str = "", **values: Any
    ) -> Response:
        """Return a page. `live`: the address of its live part; "": it has none."""
        session: Session | None = http.scope.get("state", {}).get("session")
        said = self._orders.actions.find(http.query_params.get("said", ""))
        text = self._pages.render(
            name, title=title, session=session, nav=NAV, path=http.url.path, live=live, said=said,
            prompts=self._settings.console.prompts,
            letters_count=sum(not each.is_clients for each in self._view.letters()),
            prefix=self._settings.kafka.prefix, keys=self._sessions.asks_for_keys, running=self._commands.running,
            **values,
        )  # fmt: skip
        return HTMLResponse(text, status)

    def _screen(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        title, values = SCREENS[name]

        async def screen(http: Request) -> Response:
            part = await self.parts.part(
                _address(name, http), lambda: self._part(name, values, http.query_params), is_fresh=True
            )
            return self.page(http, name, title, live=_address(name, http), part=part, **self._around(name, http))

        screen.__name__ = name.replace("-", "_")
        return screen

    async def _part(self, name: str, values: Callable[[Context], dict[str, Any]], query: Mapping[str, str]) -> str:
        return self._pages.render(f"parts/{name}", **values(self._context(query)))

    def _around(self, name: str, http: Request) -> dict[str, Any]:
        """Return the values beside a page's live part, mostly for its forms."""
        if name in ("requests", "gallery"):
            return {
                "query": http.query_params, "levels": list(self._view.catalog.served), "statuses": requests.STATUSES,
                "lasts": list(requests.LAST_MS),
                "kinds": ("first", "refined", "again", "reused"), "is_first": "before" not in http.query_params,
            }  # fmt: skip
        if name == "plan":
            return {"policies": POLICIES.names(), "plan": self._view.plans.plan, "pin": self._view.plans.pin,
                    "query": http.query_params}  # fmt: skip
        if name == "quality":
            return {
                "estimate": self._estimate,
                "plans": [each.plan for each in self._view.plans.history()[:40]],
                "since": what_if.spans(self._context({})),
            }
        if name == "try":
            return trying.around(self._context(http.query_params))
        if name == "dead-letters":
            return letters.values(self._context(http.query_params))
        return {}

    async def live(self, http: Request) -> Response:
        """Send a screen's part whenever it has changed."""
        name = http.path_params["screen"]
        if name not in SCREENS:
            raise HTTPException(404, f"there is no screen {name!r:.40}")
        return self._live(http, _address(name, http), lambda: self._part(name, SCREENS[name][1], http.query_params))

    async def live_request(self, http: Request) -> Response:
        """Send a request's part whenever it has changed."""
        request_id = http.path_params["id"]
        return self._live(http, f"request {request_id}", lambda: self._request_part(request_id))

    def _live(self, http: Request, address: str, render: Callable[[], Awaitable[str]]) -> Response:
        if self.parts.is_full:
            raise HTTPException(503, "console.max_viewers live pages are open already: reload to see news")
        cookie = http.cookies.get(COOKIE, "")

        def may_see() -> bool:
            return not self._sessions.asks_for_keys or self._sessions.find(cookie) is not None

        return Live(self.parts, self.parts.changes(address, render, may_see))

    async def request(self, http: Request) -> Response:
        """Show one request."""
        request_id = http.path_params["id"]
        if self._view.requests.get(request_id) is None:
            raise HTTPException(404, f"nothing is known here of request {request_id!r:.80}: it is older than what the "
                                "console remembers (console.max_requests, console.history_s), or there is none. "
                                "`pochade explain` reads further back.")  # fmt: skip
        part = await self.parts.part(f"request {request_id}", lambda: self._request_part(request_id), is_fresh=True)
        values = requests.one(self._context({}), request_id) or {}
        curl = requests.curl_of(self._view.requests.get(request_id), self._settings.gateway)
        live = f"/live{values['href']}"
        return self.page(http, "request", f"Request {request_id:.24}", live=live, part=part, curl=curl, **values)

    async def _request_part(self, request_id: str) -> str:
        values = requests.one(self._context({}), request_id)
        return self._pages.render("parts/request", **values) if values else "<p>It is no longer remembered.</p>"

    async def image(self, http: Request) -> Response:
        """Return an image that a page has shown."""
        uri = self._images.named(http.path_params["token"])
        if uri is None:
            raise HTTPException(404, "no image has this address")
        try:
            image = await self._images.read(uri, is_small="small" in http.query_params)
        except PochadeError as error:
            raise HTTPException(410, str(error)) from error
        return Response(image.data, media_type=image.media_type, headers={"cache-control": FOREVER})

    async def asset(self, http: Request) -> Response:
        """Return a style sheet or a script of the package."""
        name = http.path_params["file"]
        if name not in self._assets:
            raise HTTPException(404, "there is no such file")
        headers = {"cache-control": "private, max-age=3600"}
        return Response(self._assets[name], media_type=TYPES[pathlib.Path(name).suffix], headers=headers)

    # signing in

    async def sign_in(self, http: Request) -> Response:
        """Show the form, or exchange an API key for a session."""
        if not self._sessions.asks_for_keys:
            return RedirectResponse("/", 303)
        if http.method == "GET":
            return self.page(http, "sign-in", "Sign in", refusal="")
        fields = await fields_of(http)
        found = self._sessions.sign_in(fields.get("key", ""))
        if isinstance(found, str) and not isinstance(found, Refused):
            response = RedirectResponse("/", 303)
            response.raw_headers.append((b"set-cookie", self.guard.cookie(found).encode()))
            return response
        wait_ms = self._failures.add(http.client.host if http.client else "", self._clock_ms())
        if wait_ms is not None:
            return self.page(http, "sign-in", "Sign in", status=429, refusal="too many keys that do not hold: wait")
        why = "this key is for the gateway: `pochade keys create --scope viewer` makes one for the console"
        if isinstance(found, Refused):
            why = WORDS[found] if found in (Refused.REVOKED, Refused.EXPIRED) else "this is no API key that holds"
        log.info("rejected a key at the console: %s", found or "scope")
        return self.page(http, "sign-in", "Sign in", status=403, refusal=why)

    async def sign_out(self, http: Request) -> Response:
        """End the session in the browser, and for all copies of its cookie."""
        session, _ = await form_of(http, needs=Role.VIEWER)
        if self._sessions.asks_for_keys:
            await self._orders.sign_out(session)
        response = RedirectResponse("/sign-in", 303)
        response.raw_headers.append((b"set-cookie", self.guard.cookie("").encode()))
        return response

    # forms

    async def submit(self, http: Request) -> Response:
        """Submit a request, and show it beside its form."""
        session, fields = await form_of(http)
        action, request_id = await self._orders.submit(session, trying.read(fields))
        return RedirectResponse(f"/try?{urlencode({'id': request_id, 'said': action.action_id})}", 303)

    async def again(self, http: Request) -> Response:
        """Submit the request that makes an image again, or by the level of the button."""
        session, fields = await form_of(http)
        action, request_id = await self._orders.again(session, http.path_params["id"], fields.get("model", ""))
        return _back(requests.href(request_id), action.action_id)

    async def cancel(self, http: Request) -> Response:
        """Cancel a request, and show the outcome."""
        session, _ = await form_of(http)
        request_id = http.path_params["id"]
        action = await self._orders.cancel(session, request_id)
        return _back(requests.href(request_id), action.action_id)

    async def pin(self, http: Request) -> Response:
        """Say what a pinned policy would plan."""
        session, fields = await form_of(http)
        parameters = parameters_of(fields.get("parameters", ""))
        return self._dry(http, await self._orders.try_pin(session, fields.get("policy", ""), parameters))

    async def unpin(self, http: Request) -> Response:
        """Say what would be planned without the order."""
        session, _ = await form_of(http)
        return self._dry(http, await self._orders.try_unpin(session))

    async def rollback(self, http: Request) -> Response:
        """Say what an earlier plan decided otherwise."""
        session: Session = http.scope["state"]["session"]
        version = plans.number_of(http.query_params.get("version", ""))
        return self._dry(http, self._orders.try_rollback(session, version))

    async def redrive(self, http: Request) -> Response:
        """Say what redriving dead letters would send."""
        session, fields = await form_of(http)
        return self._dry(http, await self._orders.try_redrive(session, fields["positions"].split()))

    def _dry(self, http: Request, dry: DryRun) -> Response:
        return self.page(http, "dry-run", "Dry run", dry=dry)

    async def confirm(self, http: Request) -> Response:
        """Do what a dry run has shown."""
        session, fields = await form_of(http)
        action, back = await self._orders.confirm(session, fields.get("confirmation", ""))
        return _back(back, action.action_id)

    async def shadow(self, http: Request) -> Response:
        """Show what a policy would plan beside the plan in force."""
        _, fields = await form_of(http, needs=Role.VIEWER)
        policy = fields.get("policy", "")
        found = await self._orders.shadow(policy, parameters_of(fields.get("parameters", "")))
        return self.page(http, "shadow", f"Shadow of {policy:.40}", policy=policy, found=found)

    async def explain(self, http: Request) -> Response:
        """Show what limits the plan, and what one worker more would change."""
        await form_of(http, needs=Role.VIEWER)
        return self.page(http, "explain", "What limits the plan", found=await self._commands.run(
            "plan", "explain", "-o", "json"))  # fmt: skip

    async def checks(self, http: Request) -> Response:
        """Show the last audit, the last chaos run, and operators' actions."""
        found = checks.values(self._context({}), self._settings.home)
        return self.page(http, "checks", "Audit and chaos", since=SINCE, **found)

    async def audit(self, http: Request) -> Response:
        """Audit the recent records of the topics."""
        session, fields = await form_of(http)
        since = fields.get("since", "1h")
        if since not in SINCE:
            raise HTTPException(400, f"since must be one of {', '.join(SINCE)}: got {since!r:.20}")
        action = await self._orders.audit(session, since)
        return _back("/checks", action.action_id)

    async def what_if(self, http: Request) -> Response:
        """Show the forms of *What if*."""
        return self._what_if(http, {}, "", None)

    def _what_if(self, http: Request, fields: Mapping[str, str], kind: str, found: Any) -> Response:
        workers = len(self._view.fleet.heartbeats) or 4
        return self.page(
            http, "what-if", "What if", policies=POLICIES.names(), since=what_if.spans(self._context({})),
            fields=fields, kind=kind, found=found, workers=workers, default=DEFAULT,
            plans=[each.plan for each in self._view.plans.history()[:40]],
        )  # fmt: skip

    async def simulate(self, http: Request) -> Response:
        """Simulate recent requests with other workers or another policy, or estimate another plan from results."""
        _, fields = await form_of(http, needs=Role.VIEWER)
        since, kind = fields.get("since", "1h"), fields.get("kind", "simulate")
        if since not in SINCE:
            raise HTTPException(400, f"since must be one of {', '.join(SINCE)}: got {since!r:.20}")
        if kind == "estimate":
            version = plans.number_of(fields.get("version", ""))
            found = await self._commands.run(
                "replay", "what-if", "--plan", str(version), "--since", since, "-o", "json"
            )
            self._estimate = {"found": found, "at_ms": self._clock_ms(), "since": since}
            return self._what_if(http, fields, kind, found)
        policy, workers = fields.get("policy", ""), plans.number_of(fields.get("workers", ""))
        if policy not in POLICIES.names() or not 1 <= workers <= 512:
            raise HTTPException(400, "name a policy of the list, and 1 to 512 workers")
        asked = ("simulate", "--from-topic", "--since", since, "--policy", policy, "--workers", str(workers))
        context = self._context({})
        reported = await self._commands.report(*asked)
        trace = reported.report.get("trace", {})
        covered_s = trace["seconds"] if "whole" in trace else math.inf
        went = what_if.as_it_went(context, what_if.SINCE[since], covered_s)
        columns, rows = what_if.table(reported.report, went)
        populations = what_if.populations(reported.report, went, self._view.slo_ms)
        found = {"columns": columns, "rows": rows, "populations": populations, "notes": reported.notes}
        found["begin"] = what_if.begin_of(trace, " ".join(asked)) if "whole" in trace else ""
        return self._what_if(http, fields, kind, found)

    async def progress(self, _: Request) -> Response:
        """Say how far the command is that runs."""
        return PlainTextResponse(self._commands.progress)

    guard: Guard


def _address(name: str, http: Request) -> str:
    query = {key: value for key, value in http.query_params.items() if key != "said"}
    return f"/live/{name}" + (f"?{urlencode(sorted(query.items()))}" if query else "")


def _back(path: str, action_id: str) -> Response:
    return RedirectResponse(f"{path}?{urlencode({'said': action_id})}", 303)


def app_of(console: Console, settings: Settings, sessions: Sessions) -> ASGIApp:
    """Return the app, guarded."""

    async def on_http(http: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = (
            str(error.detail) if error.status_code != 404 or error.detail != "Not Found" else "there is no such page"
        )
        response = console.page(http, "refused", "Refused", status=error.status_code, words=words)
        response.headers.update(error.headers or {})
        return response

    async def on_error(http: Request, error: Exception) -> Response:
        status = 503 if isinstance(error, CommandFailed) else 400
        return console.page(http, "refused", "Not done", status=status, words=str(error))

    async def on_gone(_http: Request, _error: Exception) -> Response:
        return Response(status_code=499)

    async def on_fault(http: Request, error: Exception) -> Response:
        log.error("%s %s could not be answered", http.method, http.url.path, exc_info=error)
        return PlainTextResponse("The console failed; its log says why.", 500)

    handlers = {HTTPException: on_http, PochadeError: on_error, ClientDisconnect: on_gone, Exception: on_fault}
    app = Starlette(routes=console.routes(), exception_handlers=handlers)
    guard = console.guard = Guard(app, settings.console, sessions)
    return guard
