"""Whether a request is served at all: the order of all checks before its prompt is judged, and the checks themselves.

`ClassifierLogic` is the classifier's machine: a request, or why there is none, and the time in; what to do out. The
role reads, judges and writes (`agents/classifier/role.py`). Simulated requests need no checks: they ask `way_of` alone.
Clients and gateways ask `check` before they send a request.
"""

import dataclasses
import math
import unicodedata
from collections.abc import Callable, Container, Iterable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from planner.catalog.option_limits import BATCH_TIER, MAX_ID, OPTIONS, check_options
from planner.serving.admission.inputs import check_inputs
from planner.serving.deadlines import has_passed
from planner.serving.decisions import ENDED, IN_FLIGHT, Ignored
from planner.serving.ending.outcomes import expired, rejected
from schemas.errors import InvalidRequest
from schemas.messages import GenerateRequest, Outcome
from schemas.vocabulary import as_stated

ROLE: Final = "classifier"
TEXTS = tuple(name for name, each in OPTIONS.items() if each.is_text)
SEED_LIMIT = 2**63
YEAR_MS = 365 * 24 * 60 * 60 * 1000
UNSEEN = frozenset({"Cc", "Cf", "Mn", "Me"})  # Unicode's categories: controls, formats, marks upon a letter
BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and symbols that are drawn as nothing
AHEAD_MS = 24 * 60 * 60 * 1000  # a creation time further ahead is in another unit, not a clock's error


class Limits(Protocol):
    """Limits of what a request may ask for; the settings' section `requests`."""

    @property
    def max_prompt_bytes(self) -> int:
        """Bytes of UTF-8 of a prompt."""

    @property
    def max_images(self) -> int:
        """Images of one request."""

    @property
    def max_deadline_s(self) -> float:
        """Time of a deadline from now on, in s."""


class Way(Enum):
    """The destination of an admitted request."""

    JUDGE = "its prompt is judged"
    BATCH = "it waits on the topic of its tier"
    EXPIRE = "its deadline has passed"


class Refusal(NamedTuple):
    """The request ends so, and its record is kept for an operator."""

    outcome: Outcome
    error: InvalidRequest


def way_of(tier: str, deadline_ms: float | None, now_ms: float, *, has_waited: bool) -> Way:
    """Return where a request goes. `has_waited`: it has passed the batch gate."""
    if has_passed(deadline_ms, now_ms):
        return Way.EXPIRE
    return Way.BATCH if tier == BATCH_TIER and not has_waited else Way.JUDGE


class ClassifierLogic:
    """Decides on records of `prompts` and of `prompts.batch`."""

    def __init__(
        self, limits: Limits, ended: Container[str] = frozenset(), in_flight: Container[str] = frozenset()
    ) -> None:
        """`ended`: requests with a result; waiting ones may have been cancelled.

        `in_flight`: requests that have been classified. Another record with such an id must neither end its request nor
        change its deadline.
        """
        self._limits, self._ended, self._in_flight = limits, ended, in_flight

    def on_request(
        self, request: GenerateRequest, now_ms: int, *, has_waited: bool, stated: Callable[[], Iterable[str]] = tuple
    ) -> Ignored | Refusal | Outcome | Way:
        """Decide on a request that can be read. `has_waited`: it has passed the batch gate.

        `stated`: returns the names of fields that its sender wrote.
        """
        if (repetition := self._repetition(request.request_id)) is not None:
            return repetition
        try:
            check(request, self._limits, now_ms)
        except InvalidRequest as error:  # what is refused for its length must not travel on whole
            short = dataclasses.replace(request, prompt=request.prompt[: self._limits.max_prompt_bytes])
            return _refusal(short, as_stated(error, stated()), now_ms)
        way = way_of(request.tier, request.deadline_ms, now_ms, has_waited=has_waited)
        return _too_late(request, now_ms) if way is Way.EXPIRE else way

    def on_fault(self, request_id: str, error: InvalidRequest, now_ms: int) -> Ignored | Refusal:
        """Decide on a record that can be read and is no request."""
        return self._repetition(request_id) or _refusal(request_id, error, now_ms)

    def _repetition(self, request_id: str) -> Ignored | None:
        """Return why a record is dropped whose id belongs to another one; before its checks, as it may end nothing."""
        if request_id in self._ended:
            return ENDED
        return IN_FLIGHT if request_id in self._in_flight else None


def _refusal(subject: str | GenerateRequest, error: InvalidRequest, now_ms: int) -> Refusal:
    return Refusal(rejected(subject, reason=str(error), by=ROLE, now_ms=now_ms, param=error.field), error)


def _too_late(request: GenerateRequest, now_ms: int) -> Outcome:
    deadline_ms = request.deadline_ms or 0
    meant = meant_deadline(deadline_ms, now_ms)
    reason = f"deadline_ms {deadline_ms} had passed when the prompt was read at {now_ms}"
    return expired(request, reason=f"{reason}; {meant}" if meant else reason, by=ROLE, now_ms=now_ms)


def check(request: GenerateRequest, limits: Limits, now_ms: int) -> None:
    """Raise InvalidRequest for a request that the classifier would reject by its rules and these limits."""
    check_request(request, limits.max_prompt_bytes, now_ms, limits.max_deadline_s)
    check_options(request, limits.max_images)


def check_request(
    request: GenerateRequest, max_prompt_bytes: int, now_ms: int, max_deadline_s: float = math.inf
) -> None:
    """Raise InvalidRequest unless all but the request's options can be served. A deadline in the past is no fault."""
    who = f"(request {request.request_id[:80]})"
    if not 0 < len(request.request_id) <= MAX_ID:
        got = f"got {len(request.request_id)}"
        limit = f"request_id must have 1 to {MAX_ID} characters"
        raise InvalidRequest(f"{limit}: {got}; omit it and one is made {who}", field="request_id")
    if len(request.tenant) > MAX_ID:
        fault = f"tenant must have at most {MAX_ID} characters: got {len(request.tenant)}; shorten it {who}"
        raise InvalidRequest(fault, field="tenant")
    _check_prompt(request.prompt, max_prompt_bytes, who)
    check_inputs(request)
    _check_texts(request, max_prompt_bytes, who)
    if request.seed is not None and not 0 <= request.seed < SEED_LIMIT:
        fault = f"seed must be in [0, 2**63): got {request.seed}; choose another or omit it {who}"
        raise InvalidRequest(fault, field="seed")
    _check_deadline(request.deadline_ms, max_deadline_s, now_ms, who)
    if not 0 <= request.created_ms <= now_ms + AHEAD_MS:
        got = f"got {request.created_ms}, now {now_ms}"
        limit = "created_ms must be epoch milliseconds, not ahead of now"
        raise InvalidRequest(f"{limit}: {got}; check the unit {who}", field="created_ms")


def _check_deadline(deadline_ms: int | None, max_s: float, now_ms: int, who: str) -> None:
    """Refuse a deadline beyond the ledger's memory of ended requests: the ledger would end the request once more."""
    ahead_s = 0.0 if deadline_ms is None else (deadline_ms - now_ms) / 1000
    if ahead_s > max_s:
        limit = f"deadline_ms must be at most {max_s:g} s ahead (requests.max_deadline_s): got {deadline_ms}"
        meant = meant_deadline(deadline_ms or 0, now_ms)
        fault = f"{limit}, {ahead_s:.0f} s ahead; {meant or 'choose an earlier one or omit it'} {who}"
        raise InvalidRequest(fault, field="deadline_ms")


def meant_deadline(deadline_ms: int, now_ms: int) -> str:
    """Return which time was meant by a deadline that is no time in ms since 1970; "": it may well be one."""
    for unit, in_ms in (("seconds", deadline_ms * 1000), ("microseconds", deadline_ms // 1000)):
        if abs(in_ms - now_ms) < YEAR_MS:
            return f"it looks like {unit} since 1970: did you mean {in_ms}, in ms?"
    if 0 < deadline_ms < YEAR_MS:
        return f"it is a time in ms since 1970, not a span: did you mean deadline_in_ms {deadline_ms}?"
    return ""


def _is_blank(text: str) -> bool:
    """Whether a text shows nothing: spaces, marks without a letter, and characters of no width."""
    return all(each in BLANK or each.isspace() or unicodedata.category(each) in UNSEEN for each in text)


def _check_prompt(prompt: str, max_bytes: int, who: str) -> None:
    if "\0" not in prompt and _is_blank(prompt):
        fault = f"prompt must not be empty: got {prompt!r:.80}; say what to generate {who}"
        raise InvalidRequest(fault, field="prompt")
    if "\0" in prompt:
        at = prompt.index("\0")
        fault = f"prompt must not hold the character NUL: got one at position {at}; remove it {who}"
        raise InvalidRequest(fault, field="prompt")
    try:
        size = len(prompt.encode())
    except UnicodeEncodeError as error:
        fault = f"prompt must be valid Unicode: {error}; send whole surrogate pairs {who}"
        raise InvalidRequest(fault, field="prompt") from None
    if size > max_bytes:
        fault = f"prompt must be at most {max_bytes} bytes of UTF-8: got {size}; shorten it {who}"
        raise InvalidRequest(fault, field="prompt")


def _check_texts(request: GenerateRequest, max_bytes: int, who: str) -> None:
    """Limit the texts of a request: every record of it carries them, some twice, and each must fit its topic."""
    stated = ((name, getattr(request.options, name)) for name in TEXTS)
    texts = {"tenant": (request.tenant,)} | {
        name: (text,) if isinstance(text, str) else text or () for name, text in stated
    }
    sizes = {name: sum(len(text.encode(errors="replace")) for text in values) for name, values in texts.items()}
    size = sum(sizes.values())
    if size > max_bytes:
        longest = max(sizes, key=sizes.__getitem__)
        limit = f"{', '.join(texts)} must have at most {max_bytes} bytes of UTF-8"
        raise InvalidRequest(f"{limit} together: got {size}; shorten {longest} {who}", field=longest)
