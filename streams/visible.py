"""Texts of others for a terminal or a log: what would steer the terminal, or pass for another line, is taken out."""

import json
import math
import re
import sys
from typing import Any

STEERS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"  # control characters: ESC, CSI, backspace ...
    "\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # those that turn the direction of what follows
)
BREAKS = re.compile("[\t\n\v\f\r\x85\u2028\u2029]+")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def visible(text: str) -> str:
    """Return the text as one line, without control characters."""
    return BREAKS.sub(" ", visible_lines(text))


def visible_lines(text: str) -> str:
    """Text with its lines and tabs, everything else that does not show made visible."""
    return STEERS.sub(REPLACEMENT, text)


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun, as "1 broker" or "3 brokers"; `nouns`: a plural that is not noun + s."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def amount(value: float) -> str:
    """Return money with at least two decimals, and three significant digits, such as 12.30 or 0.000123."""
    decimals = 2 - math.floor(math.log10(abs(value))) if value else 2
    return f"{value:,.{max(2, decimals)}f}"


def takes_unicode() -> bool:
    """Whether standard output, as far as it is known, can encode every character."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON whose strings hold such characters as escapes, so that a terminal shows what another program reads.

    Where standard output cannot encode all of Unicode, all but ASCII is escaped.
    """
    text = json.dumps(value, ensure_ascii=not takes_unicode(), indent=indent)
    return STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
