"""Every setting: its default, its limits, and the comment that stands beside it in the code."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel

from infra.site.reference.tables import code, table, values
from streams.settings import Settings

HEAD: Final = ("setting", "default", "values", "what")


def body() -> str:
    """Return a table a section, those of the process itself first."""
    schema = Settings.model_json_schema()
    text = "\n## Of the process\n" + table(HEAD, _rows(Settings, "", schema, schema))
    for name, field in Settings.model_fields.items():
        section, key = _section(field.annotation, name)
        if section is not None:
            rows = _rows(section, key, schema["$defs"][section.__name__], schema)
            text += f"\n## `{name}`\n\n{inspect.cleandoc(section.__doc__ or '')}\n" + table(HEAD, rows)
    return text


def _section(kind: Any, key: str) -> tuple[type[BaseModel] | None, str]:
    """The section that a field holds, and the key of its settings; those of a table have a name of yours between."""
    for each in (kind, *get_args(kind), *(deeper for part in get_args(kind) for deeper in get_args(part))):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each, key if each is kind else f"{key}.NAME"
    return None, key


def _rows(
    section: type[BaseModel], key: str, schema: Mapping[str, Any], whole: Mapping[str, Any]
) -> Iterator[tuple[str, ...]]:
    said = comments(inspect.getsource(section))
    for name, field in section.model_fields.items():
        path = f"{key}.{name}" if key else name
        inner, deeper = _section(field.annotation, path)
        if inner is None:
            yield f"`{path}`", code(field.default), values(schema["properties"][name]), said[name]
        elif key:  # the top's sections have headings of their own
            yield from _rows(inner, deeper, whole["$defs"][inner.__name__], whole)


def comments(source: str) -> dict[str, str]:
    """Return what a class's source says of each field: the lines of comment above it, and the comment behind it."""
    lines, said = source.splitlines(), dict[str, str]()
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    for node in tree.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        found = [lines[(node.end_lineno or 1) - 1][node.end_col_offset or 0 :].partition("#")[2].strip()]
        at = node.lineno - 2
        while lines[at].strip().startswith("#"):
            found.insert(0, lines[at].strip().lstrip("# "))
            at -= 1
        said[node.target.id] = " ".join(filter(None, found))
    return said
