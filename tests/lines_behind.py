"""Counts the lines of project code behind a role's file: `python -m tests.lines_behind` prints who pulls in what.

Counted are all lines of every module that the file imports, directly or not, imports inside functions and the packages'
`__init__` files included.
"""

import sys
from collections.abc import Mapping
from typing import NamedTuple

from tests.imports import behind, project_modules

ROLES = {"router": "agents.router.role", "ledger": "agents.ledger.role"}
SHOWN = 25  # of the modules, the longest first


class Part(NamedTuple):
    """One module behind a role's file."""

    lines: int
    module: str
    importer: str  # the module that imports it; the first one met


def parts_behind(module: str) -> list[Part]:
    """The modules behind a module, itself included, the longest first."""
    files = project_modules()
    found = [Part(len(files[name].read_text().splitlines()), name, via) for name, via in behind(module).items()]
    return sorted(found, key=lambda part: (-part.lines, part.module))


def lines_behind(module: str) -> int:
    """All lines behind a module, its own included."""
    return sum(part.lines for part in parts_behind(module))


def table(roles: Mapping[str, str]) -> str:
    """What `python -m tests.lines_behind` prints."""
    rows = []
    for name, module in roles.items():
        parts = parts_behind(module)
        rows.append(f"{name}: {sum(part.lines for part in parts)} lines in {len(parts)} modules")
        rows += [f"  {part.lines:5} {part.module}  <- {part.importer}" for part in parts[:SHOWN]]
    return "\n".join(rows)


if __name__ == "__main__":
    print(table({name: name for name in sys.argv[1:]} or ROLES))
