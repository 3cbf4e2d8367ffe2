"""The release after this one: every record that travels has one field more, with a default, under new ids.

`with written():` makes this process write and read as that release does. `python -m tests.next_release ARGUMENTS` is
its command line. TEST_NEXT_RELEASE_IS_SILENT in the environment keeps its roles from announcing their schemas.
"""

import contextlib
import copy
import os
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

from schemas import registry
from schemas.registry import Registered, registered
from streams.codec import avro

SILENT = "TEST_NEXT_RELEASE_IS_SILENT"
FIELD = {"name": "mood", "type": "string", "default": "calm"}
CACHES = (registry.by_id, registry.latest, avro._writer, avro._schemas)


def with_field(schema: Any) -> Any:
    """The schema with one field more in every record that it defines."""
    if isinstance(schema, list):
        return [with_field(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    grown = {
        name: with_field(value) if name in ("type", "items", "values") else value for name, value in schema.items()
    }
    if schema.get("type") == "record":
        fields = [{**field, "type": with_field(field["type"])} for field in schema["fields"]]
        grown["fields"] = [*fields, copy.deepcopy(FIELD)]
    return grown


def entries() -> tuple[Registered, ...]:
    """This release's versions, and one more of each message."""
    own = registered()
    newest = {entry.subject: entry for entry in own}
    later = (
        Registered(len(own) + n, subject, entry.version + 1, with_field(entry.schema))
        for n, (subject, entry) in enumerate(sorted(newest.items()), 1)
    )
    return (*own, *later)


@contextlib.contextmanager
def written() -> Iterator[None]:
    """Within, this process is of the next release."""
    grown = entries()
    with mock.patch.object(registry, "registered", return_value=grown):
        _forget()
        try:
            yield
        finally:
            _forget()


def _forget() -> None:
    for cache in CACHES:
        cache.cache_clear()


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of the next release; `arguments`: in place of those of the process."""
    from agents.runtime import assembly
    from streams.cli import main as command_line

    if SILENT in os.environ:
        assembly.announcements = list  # type: ignore[assignment]
    with written():
        command_line(arguments, prog_name="pochade")


if __name__ == "__main__":
    main()
