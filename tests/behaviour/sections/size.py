"""Amount of project code that each role's file imports, directly and indirectly: information only."""

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
from tests.behaviour.tree import Tree
from tests.imports import behind, module_of, project_modules

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
    files = [project_modules()[name] for name in behind(module_of(role))]
    texts = [path.read_text().splitlines() for path in files]
    return {
        "files": len(files),
        "lines": sum(map(len, texts)),
        "lines that are neither blank nor comments": sum(map(_code, texts)),
    }


def _code(lines: Sequence[str]) -> int:
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)
