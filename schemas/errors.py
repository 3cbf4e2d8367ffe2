"""The one root of Pochade's own errors. A message says what, the value, the limit and what to do."""

import difflib
from collections.abc import Iterable


class PochadeError(Exception):
    """Root of errors that a person can act on; command lines print the message without a traceback."""


class InvalidRecord(PochadeError):
    """Bytes on a topic that are not a message of ours: kept in the dlq, answered with FAILED."""


class UnknownSchema(InvalidRecord):
    """The bytes carry a schema id that this process has not learnt: a newer release's, or no schema's at all."""

    def __init__(self, schema_id: int, known: int) -> None:
        self.schema_id = schema_id
        super().__init__(
            f"unknown schema id {schema_id}: known are 1 to {known}; upgrade this role, "
            "or set registry.url to a registry that has it"
        )


class InvalidRequest(PochadeError):
    """A well-formed request whose values cannot be served: answered with REJECTED."""

    def __init__(self, message: str, *, field: str = "") -> None:
        """`field`: name of the request's field whose value is wrong; "": of none, or of several."""
        super().__init__(message)
        self.field = field


class InvalidPlan(PochadeError):
    """A plan that contradicts itself or the catalog."""


class Unknown(PochadeError):
    """A name that is not in a registry; the message lists the known ones and the nearest."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"unknown {kind} {name!r}: known are {', '.join(names) or 'none'}{hint}")
