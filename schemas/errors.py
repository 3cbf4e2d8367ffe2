"""The one root of Pochade's own errors. A message says what, the value, the limit and what to do."""

import difflib
from collections.abc import Iterable


class PochadeError(Exception):
    """Something a person can act on; command lines print it without a traceback."""


class InvalidRecord(PochadeError):
    """Bytes on a topic that are not a message of ours: kept in the dlq, answered with FAILED."""


class InvalidRequest(PochadeError):
    """A well-formed request whose values cannot be served: answered with REJECTED."""


class InvalidPlan(PochadeError):
    """A plan that contradicts itself or the catalog."""


class Unknown(PochadeError):
    """A name that is not in a registry; the message lists the known ones and the nearest."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"unknown {kind} {name!r}: known are {', '.join(names) or 'none'}{hint}")
