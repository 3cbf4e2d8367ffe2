"""Whether a request can be served at all, and whether a deadline can be met."""

import math
import unicodedata

from planner.catalog.option_limits import OPTIONS
from planner.serving.admission.inputs import check_inputs
from schemas.errors import InvalidRequest
from schemas.ids import draw
from schemas.messages import Admission, GenerateRequest

TEXTS = tuple(name for name, each in OPTIONS.items() if each.is_text)
SEED_LIMIT = 2**63
MAX_ID = 200  # characters, of a tenant's name too
SALT = "admission"  # never the plan's version: under an equal share a request has an equal answer, whoever asks
YEAR_MS = 365 * 24 * 60 * 60 * 1000
UNSEEN = frozenset({"Cc", "Cf", "Mn", "Me"})  # Unicode's categories: controls, formats, marks upon a letter
BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and symbols that are drawn as nothing
AHEAD_MS = 24 * 60 * 60 * 1000  # a creation time further ahead is in another unit, not a clock's error


def check_request(
    request: GenerateRequest, max_prompt_bytes: int, now_ms: int, max_deadline_s: float = math.inf
) -> None:
    """Raise InvalidRequest unless the request's values can be served. A deadline in the past is no such fault."""
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
    """The ledger remembers for some days who has ended: whom it forgot before the deadline it would end once more."""
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
        return f"it is a time in ms since 1970, not a span: did you mean now + {deadline_ms} = {now_ms + deadline_ms}?"
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
    texts = {"tenant": (request.tenant,)} | {name: (text,) if isinstance(text, str) else text for name, text in stated}
    sizes = {name: sum(len(text.encode(errors="replace")) for text in values) for name, values in texts.items()}
    size = sum(sizes.values())
    if size > max_bytes:
        longest = max(sizes, key=sizes.__getitem__)
        limit = f"{', '.join(texts)} must have at most {max_bytes} bytes of UTF-8"
        raise InvalidRequest(f"{limit} together: got {size}; shorten {longest} {who}", field=longest)


def is_admitted(admission: Admission | None, request_id: str, tier: str) -> bool:
    """Whether a plan lets a request in: by the request's own dice: a higher share lets more in, never others."""
    share = admission.shares.get(tier, 1.0) if admission else 1.0
    return share >= 1 or draw(request_id, SALT) < share


def predicted_finish_ms(now_ms: float, wait_ms: float, run_ms: float) -> float:
    """Return when a job that is sent now has its images (epoch ms); infinity if `wait_ms` is (no worker serves it)."""
    return now_ms + wait_ms + run_ms


def can_meet(deadline_ms: float | None, finish_ms: float) -> bool:
    """Whether the finish is in time; without a deadline any finish is."""
    return deadline_ms is None or finish_ms <= deadline_ms
