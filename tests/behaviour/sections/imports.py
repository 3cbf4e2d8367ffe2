"""What the commands that a user waits for load: packages of others by name, modules of the project by number."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.behaviour.tree import Tree, project, rooms

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
    """Command -> what its help loads, and what it loads until it finds that no broker answers."""
    found: dict[str, Any] = {}
    for name, arguments in track(list(COMMANDS.items())):
        found[f"{name} --help"] = _loaded(tree, name, "--help")
        found[name] = _loaded(tree, *NOWHERE, *arguments)
    return found


def _loaded(tree: Tree, *arguments: str) -> dict[str, Any]:
    module, _, function = project()["project"]["scripts"]["pochade"].partition(":")
    ended = tree.python("-c", LOAD, json.dumps([module, function, arguments]))
    if ended.returncode:
        raise RuntimeError(f"{arguments} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    modules = json.loads(ended.stdout.splitlines()[-1])
    tops = {module.split(".")[0] for module in modules}
    return {
        "packages of others": sorted(
            top for top in tops - {*sys.stdlib_module_names, *rooms()} if not top.startswith("_")
        ),
        "modules of the project (information)": sum(module.split(".")[0] in rooms() for module in modules),
    }
