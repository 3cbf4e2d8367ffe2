"""*Requests*: the list with filters, by pages; and one request with its images, stages and records' positions."""

import contextlib
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from agents.console.pages import cited, hashed
from agents.console.screens.context import Context
from agents.console.screens.timeline import bars_of
from agents.console.view.requests import MAX_PROMPT, NEWEST, TrackedRequest
from agents.gateway.streaming.notes import begun_in
from agents.gateway.waiting.expected import lost_by
from planner.catalog.option_limits import OPTIONS
from planner.catalog.options import PLAIN
from planner.serving.again import NotAgain, again
from planner.serving.decisions import scores_in_words
from schemas.errors import InvalidRecord, PochadeError
from schemas.ids import seed_of
from schemas.messages import PromisedQuality, Result, Status
from streams.codec.requests import stated
from streams.operator.explain import cost_in_words, made_in_words, steps_of, why
from streams.settings import Gateway

PAGE: Final = 100
GALLERY: Final = 30
QUOTED: Final = ("prompt", "negative_prompt")  # fields with words of the client
STATUSES: Final = (  # of the filter, with its words
    ("open", "open"), ("ours", "errors of ours"), ("clients", "clients' own errors"),
    *((str(status), str(status).lower()) for status in Status),
)  # fmt: skip
LAST_MS: Final = {"5 min": 300_000, "15 min": 900_000, "1 h": 3_600_000, "6 h": 21_600_000}
FILTERS: Final = ("status", "level", "tenant", "id", "escalated", "prompt", "last", "since", "until")


def values(context: Context) -> dict[str, Any]:
    """Return what the template of the list shows."""
    query = {name: context.query.get(name, "").strip() for name in FILTERS}
    before = cursor_of(context.query.get("before", ""))
    found, has_more = context.view.requests.page(PAGE, before, wanted_by(query, context))
    kept = {name: value for name, value in query.items() if value}
    following = urlencode({**kept, "before": cursor_text(found[-1])}) if has_more else ""
    return {
        "found": found, "query": query, "next": f"/requests?{following}" if following else "",
        "is_first": before == NEWEST, "levels": list(context.view.catalog.served), "statuses": STATUSES,
        "remembered": len(context.view.requests), "open": context.view.requests.open, "href": href,
        "thumbnails": {each.request_id: _thumbnail(each, context) for each in found},
    }  # fmt: skip


def href(request_id: str) -> str:
    """Return the address of a request's page; the id may have any characters."""
    return f"/requests/{quote(request_id, safe='')}"


def _thumbnail(tracked: TrackedRequest, context: Context) -> str:
    """Return the address of a request's image; "" if it has none, or one that is flagged as unsafe."""
    if tracked.result is None or not tracked.result.image_uri:
        return ""
    *_, last = ("", *images_of(tracked, context))
    return last.address if isinstance(last, Shown) and not last.is_flagged else ""


def wanted_by(query: Mapping[str, str], context: Context) -> Callable[[TrackedRequest], bool]:
    """Return whether a request fits the filters of a query. Raises PochadeError for what is no time."""
    since_ms, until_ms = _moment(query, "since", 0), _moment(query, "until", 2**62)
    if query.get("last") in LAST_MS:
        since_ms = max(since_ms, context.now_ms - LAST_MS[query["last"]])
    words = query.get("prompt", "").lower().split() if context.is_clear else []

    def wanted(tracked: TrackedRequest) -> bool:
        status, result = query.get("status", ""), tracked.result
        if not since_ms <= tracked.first_ms < until_ms:
            return False
        if status and status not in _kinds(tracked):
            return False
        if words and not all(word in tracked.prompt.lower() for word in words):
            return False
        if (level := query.get("level", "")) and tracked.level != level:
            return False
        if (tenant := query.get("tenant", "")) and tracked.tenant != tenant:
            return False
        if (escalated := query.get("escalated", "")) and (result is None or result.escalated != (escalated == "yes")):
            return False
        return query.get("id", "") in tracked.request_id

    return wanted


def _kinds(tracked: TrackedRequest) -> set[str]:
    """Return the words of STATUSES that a request fits."""
    if tracked.result is None:
        return {"open"}
    status = tracked.result.status
    if tracked.is_clients:
        return {str(status), "clients"}
    return {str(status)} | (set() if status in (Status.COMPLETED, Status.CANCELLED) else {"ours"})


def _moment(query: Mapping[str, str], name: str, default: int) -> int:
    """Return the time (epoch ms) of a query, in UTC unless it names its zone. Raises PochadeError."""
    try:
        text = query.get(name, "")
        moment = datetime.fromisoformat(text) if text else None
        return default if moment is None else round(1000 * moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    except ValueError:
        raise PochadeError(f"{name} must be a time in UTC, such as 2026-11-29T03:05: got {query[name]!r:.40}") from None


def json_of(tracked: TrackedRequest, *, is_clear: bool) -> str:
    """Return a request as a producer would write it, and its result; with digests of prompts unless `is_clear`."""
    request, result = tracked.request, tracked.result
    found: dict[str, Any] = {"request_id": tracked.request_id}
    if request is not None:
        found["request"] = stated(request)
    if result is not None:
        found["result"] = asdict(result) | {"path": json.loads(result.path)}
    text = json.dumps(found, indent=2, ensure_ascii=False, default=str)
    return text if is_clear else json.dumps(_hidden(found, tracked), indent=2, default=str)


def _hidden(value: Any, tracked: TrackedRequest) -> Any:
    """Return JSON about a request without the words that were sent."""
    if isinstance(value, dict):
        kept = {name: _hidden(each, tracked) for name, each in value.items() if name not in (*QUOTED, "reason")}
        kept |= {name: hashed(value[name]) for name in QUOTED if value.get(name)}
        code = tracked.result.code if tracked.result else ""
        said = value.get("reason")
        return kept | ({} if said is None else {"reason": cited(said, code, tracked.prompts, is_clear=False)})
    return [_hidden(each, tracked) for each in value] if isinstance(value, (list, tuple)) else value


def cursor_text(tracked: TrackedRequest) -> str:
    """Return a request's place in the list, as an address holds it."""
    return f"{tracked.first_ms}-{tracked.request_id}"


def cursor_of(text: str) -> tuple[int, str]:
    """Return the place in an address; the newest if there is none."""
    at_ms, dash, request_id = text.partition("-")
    return (int(at_ms[:18]), request_id) if dash and at_ms.isdecimal() else NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An image of a request, as its page shows it."""

    title: str
    address: str
    words: str
    width: int | None = None
    height: int | None = None
    is_flagged: bool = False  # as unsafe


def one(context: Context, request_id: str) -> dict[str, Any] | None:
    """Return the template's values of one request; None if it is unknown."""
    tracked = context.view.requests.get(request_id)
    if tracked is None:
        return None
    letters = [each for each in context.view.letters() if each.request_id == request_id]
    made, not_again = tracked.result.made if tracked.result else None, ""
    try:
        if tracked.result is not None:
            again(tracked.request, tracked.result, context.now_ms)
    except NotAgain as error:
        not_again = str(error)
    others = [each for each in context.view.catalog.variants if made and each != made.variant]
    return {
        "seen": tracked, "bars": bars_of(tracked, context.now_ms), "images": images_of(tracked, context),
        "why": why(tracked.result) if tracked.result else "", "lost": lost_in_words(tracked, context),
        "cost": cost_in_words(tracked.result) if tracked.result else "",
        "made": made_in_words(made) if made else "", "not_again": not_again, "others": others,
        "letters": letters, "href": href(request_id), "json": json_of(tracked, is_clear=context.is_clear),
        "request_json": _options(tracked), "is_open": tracked.result is None, "promise": _promise(tracked.result),
    }  # fmt: skip


def lost_in_words(tracked: TrackedRequest, context: Context) -> str:
    """Say that the worker that had begun an open request does not live any more; "": it does, or none had."""
    fleet, begun = context.view.fleet, begun_in(tracked.notes)
    lost = lost_by(fleet, begun, context.now_ms) if begun and not tracked.result else None
    return lost.in_words(is_served=fleet.serves(lost.begun.variant, context.now_ms), names_worker=True) if lost else ""


def _promise(result: Result | None) -> PromisedQuality | None:
    """Return what was promised of the image that answers a request; None: nothing."""
    try:
        *_, last = (None, *(steps_of(result) if result else ()))
    except InvalidRecord:
        return None
    return last.promise if last else None


def curl_of(tracked: TrackedRequest | None, gateway: Gateway) -> str:
    """Return the command that asks a gateway for a request's images again, with all that made them; "": none can."""
    if tracked is None or tracked.request is None or len(tracked.prompt) >= MAX_PROMPT:
        return ""
    request = tracked.request
    with contextlib.suppress(NotAgain):  # then as it was asked for
        request = again(request, tracked.result, 0) if tracked.result else request
    fields = {"seed": seed_of(tracked.request_id), **stated(request), "strict": request.options.strict}
    asked = {name: value for name, value in fields.items() if name not in ("tenant", "deadline_ms", "model")}
    body = json.dumps({"version": request.options.model or "auto", "input": asked}, ensure_ascii=False)
    own = f"http{'s' if gateway.tls_certificate else ''}://{gateway.host}:{gateway.port}"
    key = ' -H "authorization: Bearer $POCHADE_API_KEY"' if gateway.authentication == "bearer" else ""
    return f"curl -s {gateway.public_url or own}/v1/predictions -H 'prefer: wait'{key} --json {shlex.quote(body)}"


def _options(tracked: TrackedRequest) -> dict[str, Any]:
    if tracked.request is None:
        return {}
    options = tracked.request.options
    named = {
        "images": options.n if options.n > 1 else None, "size": f"{options.width} by {options.height}" if options.width
        else None, "steps": options.steps, "guidance": options.guidance, "model": options.model,
        "adapters": ", ".join(options.adapters), "controls": ", ".join(options.controls), "reuse": options.reuse,
        "seed": tracked.request.seed, "begins with an image": "yes" if options.image else "",
        "must be honoured": "all of it" if options.strict else "",
    }  # fmt: skip
    named |= {name.replace("_", " "): getattr(options, name) for name in PLAIN if not OPTIONS[name].is_text}
    return {name: value for name, value in named.items() if value not in (None, "")}


def images_of(tracked: TrackedRequest, context: Context) -> list[Shown]:
    """Return drafts and images, in the order in which they were made."""
    result = tracked.result
    if result is None or result.path == "[]":
        drafts = dict.fromkeys(tracked.drafts)
        shown = [Shown(title="draft", address=context.address(uri), words="shown on the way") for uri in drafts]
        finals = result.image_uris if result else ()
        return [*shown, *(Shown(title="image", address=context.address(uri), words="") for uri in finals)]
    try:
        steps = steps_of(result)
    except InvalidRecord:
        return []
    shown = []
    for number, step in enumerate(steps):
        is_last = number == len(steps) - 1
        scored = "" if step.confidence is None else _scored(step.confidence, step.threshold)
        for image in (step.image, *step.more):
            if image is not None:
                shown.append(
                    Shown(
                        title="image" if is_last else "draft", address=context.address(image.uri),
                        words=", ".join(each for each in (step.level, scored) if each), width=image.width,
                        height=image.height, is_flagged=image.safety == "flag",
                    )
                )  # fmt: skip
    return shown


def gallery(context: Context) -> dict[str, Any]:
    """Return what the template of the gallery shows: the newest requests with an image."""
    query = {name: context.query.get(name, "").strip() for name in ("level", "tenant", "kept")}
    before = cursor_of(context.query.get("before", ""))

    def wanted(tracked: TrackedRequest) -> bool:
        result = tracked.result
        if result is None or not result.image_uri:
            return False
        if query["level"] and result.level != query["level"]:
            return False
        if query["tenant"] and tracked.tenant != query["tenant"]:
            return False
        return not query["kept"] or image_origin(result) == query["kept"]

    found, has_more = context.view.requests.page(GALLERY, before, wanted)
    cards = [
        {"seen": each, "images": images_of(each, context), "why": why(each.result), "score": _score(each.result)}
        for each in found if each.result is not None
    ]  # fmt: skip
    kept = {name: value for name, value in query.items() if value}
    following = urlencode({**kept, "before": cursor_text(found[-1])}) if has_more else ""
    return {
        "cards": cards, "query": query, "levels": list(context.view.catalog.served), "href": href,
        "next": f"/gallery?{following}" if following else "", "is_first": before == NEWEST,
        "kinds": ("first", "refined", "again", "reused"),
    }  # fmt: skip


def image_origin(result: Result) -> str:
    """Return how the final image of a request was made: first, refined, again or reused."""
    if result.reused:
        return "reused"
    if not result.escalated:
        return "first"
    try:
        return "refined" if steps_of(result)[-1].refine_from_step else "again"
    except (InvalidRecord, IndexError):
        return "again"


def _scored(confidence: float, threshold: float | None) -> str:
    known = {"confidence": confidence} | ({} if threshold is None else {"threshold": threshold})
    return ", ".join(map(" ".join, zip(known, scores_in_words(*known.values()), strict=True)))


def _score(result: Result) -> tuple[float, float | None, str] | None:
    """Return the deciding confidence, its threshold, and both in words; None if no image was scored."""
    try:
        judged = [step for step in steps_of(result) if step.confidence is not None]
    except (InvalidRecord, json.JSONDecodeError):
        return None
    if not judged:
        return None
    confidence, threshold = judged[-1].confidence or 0.0, judged[-1].threshold
    return confidence, threshold, _scored(confidence, threshold)
