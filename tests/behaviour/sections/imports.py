"""Modules that the quick commands load: third-party packages by name, modules of the project by number.

Each command runs once with `--help` and once until it finds that no broker answers. A third list holds every import
that its module can reach, imports inside functions included: the upper bound of what the command ever loads.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.behaviour.tree import Tree, project, rooms
from tests.imports import behind, imports_of, project_modules

LOAD = """
import contextlib, io, json, sys
from importlib import import_module
module, function, arguments = json.loads(sys.argv[1])
sys.argv = ["pochade", *arguments]
quiet = io.StringIO()
with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), contextlib.suppress(SystemExit):
    getattr(import_module(module), function)()
print(json.dumps(sorted(sys.modules)))
"""
NOWHERE = ("--set", "kafka.bootstrap_servers=127.0.0.1:1")  # nobody answers there
COMMANDS = {
    "submit": ("submit", "a red heart"),
    "results": ("results",),
    "watch": ("watch", "r-1"),
    "status": ("status",),
}  # fmt: skip


def record(tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """Command and situation -> what is loaded."""
    found: dict[str, Any] = {}
    for name, arguments in track(list(COMMANDS.items())):
        found[f"{name} --help"] = _loaded(tree, name, "--help")
        found[name] = _loaded(tree, *NOWHERE, *arguments)
        found[f"{name}, whatever it does"] = reachable(name)
    return found


def reachable(name: str) -> dict[str, Any]:
    """Return what a command's module can import, imports inside functions included."""
    entry = project()["project"]["entry-points"]["pochade.commands"][name].partition(":")[0]
    assert entry in project_modules(), f"the entry point of {name} names {entry}, which is not there"
    modules = behind(entry)
    imported = {top.split(".")[0] for module in modules for _, top in imports_of(project_modules()[module])}
    return {"packages of others": _of_others(imported), "modules of the project (information)": len(modules)}


def _of_others(tops: set[str]) -> list[str]:
    own = {*sys.stdlib_module_names, *rooms()}
    return sorted(top for top in tops - own if not top.startswith("_"))


def _loaded(tree: Tree, *arguments: str) -> dict[str, Any]:
    module, _, function = project()["project"]["scripts"]["pochade"].partition(":")
    ended = tree.python("-c", LOAD, json.dumps([module, function, arguments]))
    if ended.returncode:
        raise RuntimeError(f"{arguments} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    modules = json.loads(ended.stdout.splitlines()[-1])
    return {
        "packages of others": _of_others({module.split(".")[0] for module in modules}),
        "modules of the project (information)": sum(module.split(".")[0] in rooms() for module in modules),
    }
