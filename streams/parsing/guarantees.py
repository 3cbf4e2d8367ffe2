"""Reads the guarantees out of a profile's JSON text, for those who serve: they read nothing else of it."""

import json
from dataclasses import dataclass

from planner.catalog.guarantees import ADVICE, Guarantee, check_guarantees
from streams.parsing.closed import Source, read


@dataclass(frozen=True, kw_only=True)
class _Part:
    guarantees: tuple[Guarantee, ...]


def parse(text: str, file: str) -> tuple[Guarantee, ...]:
    """Return the guarantees of a profile; none of a text that is no profile, which planners refuse.

    Raises:
        Unknown: a key that is not known, with the nearest.
        InvalidCatalog: a wrong type, an impossible value.
    """
    try:
        root = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(root, dict) or "guarantees" not in root:
        return ()
    where = f"profile {file}"
    found = read(_Part, {"guarantees": root["guarantees"]}, Source(where, ADVICE)).guarantees
    check_guarantees(found, where)
    return found
