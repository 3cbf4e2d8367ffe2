"""Amount of project code by imports: behind each role's file, what is read to change a decision, what an adopter runs.

Information only.
"""

import inspect
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agents.classifier.role import Classifier
from agents.discriminator.role import Discriminator
from agents.ledger.role import Ledger
from agents.planner.loop import PlannerLoop
from agents.router.role import Router
from agents.worker.role import Worker
from tests.behaviour.tree import ROOT, Tree, project
from tests.imports import CLIENT, behind, module_of, project_modules

ROLES: dict[str, Any] = {
    "classifier": Classifier,
    "router": Router,
    "worker": Worker,
    "discriminator": Discriminator,
    "ledger": Ledger,
    "planner": PlannerLoop,
}
DECIDING = ("schemas", "planner/serving", "planner/control")  # the folders that decide what becomes of a request
ASSEMBLY = "agents.runtime.assembly"


def record(_tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """Files and lines behind the file of each role's class, itself included, and of the two amounts that are named."""
    files = {role: pathlib.Path(inspect.getfile(kind)) for role, kind in ROLES.items()}
    found = {role: _measured(_reached(module_of(file))) for role, file in track(list(files.items()))}
    read = [path for room in DECIDING for path in (ROOT / room).rglob("*.py")]
    found[f"{', '.join(DECIDING)} and the roles' files"] = _measured([*read, *files.values()])
    found["behind roles and operators' commands"] = _measured(_reached(ASSEMBLY, *_operators()))
    return found


def _operators() -> list[str]:
    """The modules of the product's commands, but for those of `replay`, which are about traces and reports."""
    entries = project()["project"]["entry-points"]["pochade.commands"].values()
    return [module for entry in entries if not (module := entry.partition(":")[0]).startswith("replay.")]


def _reached(*modules: str) -> list[pathlib.Path]:
    """The files behind modules, without those of the client, which is a distribution of its own."""
    return [path for name in behind(*modules) if CLIENT not in (path := project_modules()[name]).parents]


def _measured(files: Iterable[pathlib.Path]) -> dict[str, int]:
    texts = [path.read_text().splitlines() for path in {*files}]
    return {
        "files": len(texts),
        "lines": sum(map(len, texts)),
        "lines that are neither blank nor comments": sum(map(_code, texts)),
    }


def _code(lines: Sequence[str]) -> int:
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)
