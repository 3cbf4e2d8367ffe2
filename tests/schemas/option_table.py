"""The table of what a request may ask for: `python -m tests.schemas.option_table` writes `OPTIONS.md`."""

import pathlib
from dataclasses import MISSING
from typing import Any, Final

from schemas.option_fields import Declared
from schemas.vocabulary import DECLARED, SCHEMAS
from schemas.wire_names import FIELDS

DOCUMENT: Final = pathlib.Path(__file__).parents[2] / "schemas" / "OPTIONS.md"
HEAD: Final = """# The options of a request

What a request may ask for, on `prompts`, over HTTP, in forms and on the command line; only the prompt is needed.
An option that needs `honours` is followed by levels whose catalog entry lists it there; others override it, or reject
the request where it is strict. An alias states the same in JSON on `prompts`, over HTTP, in forms and in files of
`pochade submit`; beside the option itself it is refused. Four have a form (last table).

Written by `python -m tests.schemas.option_table` from the fields of `GenerateRequest` and `GenerateOptions`.

| option | aliases | values | default | needs `honours` | what it says |
|---|---|---|---|---|---|
"""
OF_RESULTS: Final = ("generate_ms", "refine_from_step")  # of a result, and of the stages of its path
RESULTS: Final = """
In results a few fields have an older name beside the documented one, in JSON, and alone in Avro:

| documented | older |
|---|---|
"""
FORMS: Final = """
| alias with a form | what it says |
|---|---|
"""
KINDS: Final[dict[Any, str]] = {int: "integer", float: "number"}


def document() -> str:
    """Return the document."""
    forms = (f"| `{alias}` | {schema['description']} |\n" for alias, schema in SCHEMAS.items())
    results = (f"| `{name}` | `{wire}` |\n" for name, wire in FIELDS.items() if name in OF_RESULTS)
    return HEAD + "".join(map(_row, DECLARED.items())) + FORMS + "".join(forms) + RESULTS + "".join(results)


def _row(named: tuple[str, Declared]) -> str:
    name, declared = named
    default = "" if declared.default in (None, "", (), MISSING) else f"`{declared.default}`"
    needs = f" Only with `{declared.about.needs}`." if declared.about.needs else ""
    aliases = ", ".join(f"`{each}`" for each in declared.about.aliases)
    return (
        f"| `{name}` | {aliases} | {_values(declared)} | {default} | {'yes' if declared.about.honoured else ''} "
        f"| {declared.about.help}{needs} |\n"
    )


def _values(declared: Declared) -> str:
    about, kind = declared.about, KINDS.get(declared.numbers, "text") if declared.type is not bool else "true or false"
    kind = " or ".join(f"`{word}`" for word in about.words) or kind
    limits = [
        f"{about.span} {about.unit}".strip(),
        f"a multiple of {about.multiple_of}" * (about.multiple_of > 1),
        f"at most {about.longest} characters" * (about.longest > 0),
    ]
    return ("list: " if declared.is_list else "") + ", ".join([kind, *filter(None, limits)])


if __name__ == "__main__":
    DOCUMENT.write_text(document())
