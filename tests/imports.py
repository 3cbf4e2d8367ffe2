"""Who imports whom in this project, read from the syntax trees: the one walker of imports that tests share."""

import ast
import functools
import pathlib
from collections.abc import Iterable, Iterator

from tests.paths import ROOT

ROOMS = ("schemas", "planner", "streams", "agents", "replay", "pochade")
CLIENT = ROOT / "streams" / "client"  # a distribution of its own, whose package is `pochade`


def sources(room: str) -> list[pathlib.Path]:
    """The Python files below a folder of the project."""
    if room == "pochade":
        return sorted((CLIENT / room).rglob("*.py"))
    return sorted(path for path in (ROOT / room).rglob("*.py") if CLIENT not in path.parents)


def module_of(path: pathlib.Path) -> str:
    """The dotted name of a file; that of the package for its `__init__.py`."""
    parts = path.relative_to(CLIENT if CLIENT in path.parents else ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """The line of each import among these nodes, with every module that it names.

    Every name that is imported from a module follows as `module.name`, since it may be a module too.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


@functools.cache
def imports_of(path: pathlib.Path) -> tuple[tuple[int, str], ...]:
    """All imports of a file, those inside functions too."""
    return tuple(imported_names(ast.walk(ast.parse(path.read_text()))))


@functools.cache
def project_modules() -> dict[str, pathlib.Path]:
    """The dotted name of each module of the project, with its file."""
    return {module_of(path): path for room in ROOMS for path in sources(room)}


def project_imports(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """The line of each import of this project's own modules; of `from package import module` the module alone."""
    known = project_modules()
    named = imports_of(path)
    packages = {(line, name.rpartition(".")[0]) for line, name in named if name in known}
    yield from ((line, name) for line, name in named if name in known and (line, name) not in packages)


def behind(*starts: str) -> dict[str, str]:
    """Each module that runs when one of these is imported and its functions run, with the module that imports it.

    Counted are the starts themselves, imports inside functions, and the packages of every module: `import a.b` runs
    `a` too. A start, and its packages, stand for themselves.
    """
    known = project_modules()
    found: dict[str, str] = {}
    open_ends = [(part, start) for start in starts for part in _with_packages(start)]
    while open_ends:
        name, importer = open_ends.pop(0)
        if name in known and name not in found:
            found[name] = importer
            open_ends += [(part, name) for _, named in imports_of(known[name]) for part in _with_packages(named)]
    return found


def _with_packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
