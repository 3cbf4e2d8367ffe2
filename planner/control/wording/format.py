"""Formats numbers for reasons: 1,040/s and 1 worker, never 1.04e+03/s and 1 workers."""

import math

import numpy as np

DIGITS = 3  # that a reader of a reason needs


def number(value: float, digits: int = DIGITS) -> str:
    """A number in at least `digits` significant digits, without an exponent; from 10^digits on in whole ones."""
    if not math.isfinite(value) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return str(np.format_float_positional(value, precision=digits, unique=False, fractional=False, trim="-"))


def rate(rps: float, of: str = "") -> str:
    """Format a rate, "10.5/s", or with what is counted, "10.5 requests/s"."""
    return f"{number(rps)} {of}/s" if of else f"{number(rps)}/s"


def counted(count: int, noun: str) -> str:
    """Format a count with a noun of regular plural: "1 worker", "1,000 workers"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
