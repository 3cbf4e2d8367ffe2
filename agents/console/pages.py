"""Pages from templates, with the format of numbers, times and prompts."""

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from markupsafe import Markup, escape

from planner.serving.decisions import scores_in_words
from streams.clock import utc
from streams.pages.templates import template
from streams.visible import amount, visible

MISSING: Final = "\N{EN DASH}"
CITING: Final = frozenset({"invalid", "InvalidRecord", "InvalidRequest"})  # their texts quote what was sent
WITHHELD: Final = "withheld, as it may quote a prompt (console.prompts)"
HASHED: Final = 8  # hex digits of a prompt's digest
BEGINNING: Final = 12  # characters of a prompt by which a text that quotes it is known


def ago(ms: float | None) -> str:
    """Say how long ago something was, or how long it takes, in one unit or two."""
    if ms is None:
        return MISSING
    s = ms / 1000
    if s < 0:
        return "0 s"
    if s < 90:
        return f"{s:.0f} s"
    if s < 5400:
        return f"{s / 60:.0f} min"
    return f"{s / 3600:.0f} h" if s < 172_800 else f"{s / 86_400:.0f} d"


def duration(ms: float | None) -> str:
    """Say how long something took."""
    if ms is None:
        return MISSING
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms / 60_000:.1f} min"


def moment(ms: int | None) -> str:
    """Return the time of day, in UTC."""
    return utc(ms).rpartition("T")[2] if ms else MISSING


def date(ms: int | None) -> str:
    """Return date and time, in UTC, as machines read it."""
    return utc(ms, "milliseconds") if ms else ""


def share(value: float | None) -> str:
    """Return a share in percent; with a decimal if a whole number would wrongly show 0 or 100 %."""
    if value is None:
        return MISSING
    percent = 100 * value
    return f"{percent:.1f} %" if 0 < percent < 1 or 99 < percent < 100 else f"{percent:.0f} %"


def number(value: float | None) -> str:
    """Return a number with three digits or so."""
    if value is None:
        return MISSING
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def hashed(prompt: str) -> str:
    """Return a prompt's digest, which is shown instead of its text."""
    digest = hashlib.sha256(prompt.encode(errors="replace")).hexdigest()[:HASHED]
    return f"prompt {digest}, {len(prompt)} characters"


def shown_prompt(prompt: str, *, is_clear: bool) -> str:
    """Return what a page says of a prompt: its text, or its digest."""
    if not prompt:
        return "no prompt"
    return visible(prompt) if is_clear else hashed(prompt)


def cited(text: str, what: str, prompts: Sequence[str] = (), *, is_clear: bool) -> str:
    """Return an error's text, unless it quotes a prompt. `what`: code of a result, or class of an error.

    `prompts`: the request's; (): they are not known, so that a text of a class that quotes may have one.
    """
    begun = (words[:BEGINNING] for each in prompts for words in (each.strip(), repr(each.strip())[1:]))
    quotes = not prompts or any(words in text for words in begun)
    return WITHHELD if quotes and what in CITING and not is_clear else visible(text)


def with_commands(text: str) -> Markup:
    """Return a text as HTML, with what stands in backticks as code."""
    parts = [escape(part) for part in visible(text).split("`")]
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


class Pages:
    """Renders templates of this package."""

    def __init__(self, *, is_clear: bool, clock_ms: Callable[[], int]) -> None:
        """`is_clear`: prompts are shown as they are."""
        self._clock_ms = clock_ms
        filters: dict[str, Callable[..., Any]] = {
            "ago": ago, "duration": duration, "moment": moment, "date": date, "share": share, "number": number,
            "prompt": functools.partial(shown_prompt, is_clear=is_clear), "since": lambda ms: ago(clock_ms() - ms),
            "cited": functools.partial(cited, is_clear=is_clear), "visible": visible, "commands": with_commands,
            "score": lambda value: scores_in_words(value, digits=3)[0], "amount": amount,
        }  # fmt: skip
        self._templates = template("agents.console", "templates/base.html.jinja", filters).environment
        self._templates.auto_reload = False  # an upgrade beneath a running process changes no page

    def load(self) -> None:
        """Compile all templates, so that no first request waits for that."""
        for file in self._templates.list_templates(extensions=["jinja"]):
            self._templates.get_template(file)

    def render(self, name: str, **values: Any) -> str:
        """Return a template's text with these values."""
        return self._templates.get_template(f"templates/{name}.html.jinja").render(now_ms=self._clock_ms(), **values)
