"""The one root of Pochade's own errors. A message says what, the value, the limit and what to do."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

Synonyms = Mapping[str, Sequence[str]]  # name of another product -> ours for it; the known ones are meant, all together
NO_SYNONYMS: Synonyms = MappingProxyType({})


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

    def __init__(self, fault: str, *, field: str = "", command: str = "") -> None:
        """`field`: name of the request's field whose value is wrong; "": of none, or of several.

        `command`: what helps who has a command line, and is no use to others.
        """
        super().__init__(f"{fault}; {command}" if command else fault)
        self.fault = fault
        self.field = field.encode(errors="replace")[:80].decode(errors="replace")  # a sender may have chosen it
        self.command = command


class InvalidPlan(PochadeError):
    """A plan that contradicts itself or the catalog."""


class EndsProcess(PochadeError):
    """What only a new process can get over; `status` is this one's exit status."""

    status = 70


class Unknown(PochadeError):
    """A name that is not in a registry; the message names the nearest, then all that are known."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], synonyms: Synonyms = NO_SYNONYMS, advice: str = ""
    ) -> None:
        """`advice`: what else to do about the name."""
        names = sorted({*known})
        near = [each for each in synonyms.get(name, ()) if each in names]
        near = near or [each for each in names if sorted(each) == sorted(name)][:1]  # two letters are swapped
        near = near or difflib.get_close_matches(name[:80], names, n=1, cutoff=0.75)  # "user" is not near "reuse"
        meant = f"did you mean {' and '.join(map(repr, near))}?" if near else ""
        self.hint = meant and f"; {meant}"
        said = [f"unknown {kind} {name!r}:", meant, advice and f"{advice};", f"known are {', '.join(names) or 'none'}"]
        super().__init__(" ".join(filter(None, said)))
