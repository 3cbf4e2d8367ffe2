"""The entries of a list of prompts: a JSON array, a CSV table, JSON lines or plain text, recognised by its content.

| begins with | is | an entry |
|---|---|---|
| `["`, `[{` or `[` alone | one JSON array | a string, or an object with a request's fields |
| a row with the cell `prompt` | a CSV table with `,`, `;` or tabs | a row; an empty cell is a field that is left out |
| anything else | lines | a JSON object, or a prompt as plain text |

A line that belongs to another format (a comment, options of a command, a table's header) is a fault, never a prompt.
"""

import csv
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from schemas.errors import InvalidRequest, PochadeError
from schemas.vocabulary import ALIASES
from streams.codec.requests import HINTS, without_repeated_keys

ARRAY: Final = re.compile(r'\[\s*(["{\]]|$)')
OPTION: Final = re.compile(r"--[A-Za-z]")
SEPARATORS: Final = ",;\t"
OF_HEADERS: Final = frozenset(  # columns of tables that no prompt is made of
    (
        "arrival_ms",
        "caption",
        "created_ms",
        "deadline_ms",
        "guidance",
        "height",
        "id",
        "n",
        "negative_prompt",
        "prompt_index",
        "request_id",
        "seed",
        "steps",
        "tenant",
        "text",
        "width",
    )
)
AS_JSON: Final = 'write {"prompt": "..."} for a prompt that begins so'


class InvalidPrompts(PochadeError):
    """A list of prompts that gives none, or has an entry that is none."""


class Entry(NamedTuple):
    """One entry of a list: the fields of a request, or what is wrong with it."""

    where: str  # file and line, or the entry's number in a JSON array
    fields: dict[str, Any]
    fault: str = ""


def entries(lines: Iterable[str], name: str) -> Iterator[Entry]:
    """Yield the entries of the list `name`, bad ones too; blank lines are passed over."""
    numbered = ((number, line.lstrip("\ufeff")) for number, line in enumerate(lines, 1))
    for number, line in numbered:
        if not (text := line.strip()):
            continue
        if ARRAY.match(text):
            yield from _of_array("".join([line, *(later for _, later in numbered)]), f"{name}:{number}", name)
        elif separator := _separator(text):
            yield from _of_table(itertools.chain([line], (later for _, later in numbered)), separator, number, name)
        elif _is_header(text):
            fault = f"this looks like the header of a table without a column 'prompt': name it so, or {AS_JSON}"
            yield Entry(f"{name}:{number}", {}, fault)
        else:
            for at, later in itertools.chain([(number, line)], numbered):
                if later.strip():
                    yield _of_line(later.strip(), f"{name}:{at}")


def prompts_in(lines: Iterable[str], name: str) -> list[str]:
    """Return the prompts of a list alone. Raises InvalidPrompts for the first entry that has none."""
    prompts = []
    for where, fields, fault in entries(lines, name):
        prompt = fields.get("prompt")
        if fault or not isinstance(prompt, str):
            raise InvalidPrompts(f"{where}: {fault or f'the field prompt must be a text: got {prompt!r:.80}'}")
        prompts.append(prompt)
    return prompts


def _of_array(text: str, where: str, name: str) -> Iterator[Entry]:
    try:
        found = json.loads(text, object_pairs_hook=without_repeated_keys)
    except (ValueError, RecursionError, InvalidRequest) as error:
        yield Entry(where, {}, f"this begins as a JSON array, but it is none: {error}; {AS_JSON}")
        return
    for number, item in enumerate(found, 1):
        at = f"{name}: entry {number}"
        if isinstance(item, str):
            yield Entry(at, {"prompt": item})
        elif isinstance(item, dict):
            yield Entry(at, item)
        else:
            yield Entry(at, {}, f"an entry is a prompt or an object with a request's fields: got {item!r:.80}")


def _separator(header: str) -> str:
    """Return the separator of a table with a column `prompt`, or "" for a line that is no such header."""
    return next((each for each in SEPARATORS if "prompt" in _names(header, each)), "")


def _is_header(line: str) -> bool:
    """Whether a line has the names of fields alone, two or more, or is the header of arrivals."""
    names = next((names for each in SEPARATORS if len(names := _names(line, each)) > 1), [line])
    return names == ["arrival_ms"] or (
        len(names) > 1 and all(name.isidentifier() for name in names) and not OF_HEADERS.isdisjoint(names)
    )


def _names(header: str, separator: str) -> list[str]:
    try:
        return [name.strip().lower() for name in next(csv.reader([header], delimiter=separator))]
    except csv.Error:
        return []


def _of_table(lines: Iterator[str], separator: str, first: int, name: str) -> Iterator[Entry]:
    rows = csv.reader(lines, delimiter=separator, strict=True)
    columns = [column.strip().lower() for column in next(rows)]
    while True:
        where = f"{name}:{first + rows.line_num}"
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield Entry(where, {}, f"not a row of CSV: {error}")
            continue
        if not any(cell.strip() for cell in row):
            continue
        if row[0].startswith("#"):
            yield Entry(where, {}, _comment())
        elif len(row) != len(columns):
            wanted = f"expected {len(columns)} cells ({separator.join(columns)}), got {len(row)}"
            yield Entry(where, {}, f"{wanted}: put a cell with {separator!r} in double quotes")
        else:
            cells = {column: cell.strip() for column, cell in zip(columns, row, strict=True)}
            yield Entry(where, {column: _value(column, cell) for column, cell in cells.items() if cell})


def _value(column: str, cell: str) -> Any:
    """Return a cell as the field of its column wants it; what does not fit is left to the check of fields."""
    hint = HINTS.get(ALIASES.get(column, (column,))[0], str)
    if hint is str:
        return cell
    try:
        return json.loads(cell.lower() if hint is bool else cell)
    except (ValueError, RecursionError):
        return cell


def _of_line(text: str, where: str) -> Entry:
    if text.startswith("{"):
        try:
            return Entry(where, json.loads(text, object_pairs_hook=without_repeated_keys))
        except (ValueError, RecursionError, InvalidRequest) as error:
            return Entry(where, {}, f"not JSON: {error}; a plain prompt may not begin with a brace")
    if text.startswith("#"):
        return Entry(where, {}, _comment())
    if OPTION.match(text):
        advice = 'write {"prompt": "a cat", "steps": 20} for a request with options'
        return Entry(where, {}, f"this looks like options of a command, which are not read here: {advice}")
    if ARRAY.match(text):
        return Entry(where, {}, f"this looks like a JSON array, which must be all of a file: {AS_JSON}")
    return Entry(where, {"prompt": text})


def _comment() -> str:
    return f"this looks like a comment, which a list of prompts has none of: delete the line, or {AS_JSON}"
