"""Amount of project code that each role's file imports, directly and indirectly: information only."""

import ast
import functools
import inspect
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from agents.classifier.role import Classifier
from agents.discriminator.role import Discriminator
from agents.ledger.role import Ledger
from agents.planner.loop import PlannerLoop
from agents.router.role import Router
from agents.worker.role import Worker
from tests.behaviour.tree import ROOT, Tree, module_path, rooms

ROLES: dict[str, Any] = {
    "classifier": Classifier,
    "router": Router,
    "worker": Worker,
    "discriminator": Discriminator,
    "ledger": Ledger,
    "planner": PlannerLoop,
}


def record(_tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """Role -> files and lines that the file of its class reaches by imports, itself included."""
    return {role: _measured(pathlib.Path(inspect.getfile(kind))) for role, kind in track(list(ROLES.items()))}


def _measured(role: pathlib.Path) -> dict[str, int]:
    files = behind(role)
    texts = [path.read_text().splitlines() for path in files]
    return {
        "files": len(files),
        "lines": sum(map(len, texts)),
        "lines that are neither blank nor comments": sum(map(_code, texts)),
    }


def _code(lines: Sequence[str]) -> int:
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


def behind(start: pathlib.Path) -> set[pathlib.Path]:
    """All project files that a file reaches by imports, itself included. Imports inside functions count."""
    found, open_ends = set[pathlib.Path](), [start]
    while open_ends:
        path = open_ends.pop()
        if path not in found:
            found.add(path)
            open_ends += _imported(path)
    return found


@functools.cache
def _imported(path: pathlib.Path) -> list[pathlib.Path]:
    names = imported_names(ast.parse(path.read_text()))
    own = [name for name in names if name.split(".")[0] in rooms()]
    files = [module_path(part) for name in own for part in _with_packages(name)]
    return [file for file in files if file is not None and file.is_file() and file.is_relative_to(ROOT)]


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported, and every name in one, which may be a module too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _with_packages(name: str) -> Iterator[str]:
    """The module and its packages: importing `a.b.c` also runs `a` and `a.b`."""
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
