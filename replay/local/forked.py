"""Starts the roles of a deployment by fork from one process that has imported them: seconds, spent once for all."""

import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Final

from planner.catalog.model import Catalog
from streams import catalogs
from streams.processes.children import Child, spawn
from streams.processes.forkserver import LastingForkServer
from streams.settings import Settings
from streams.shipped import INFRA, classifier_kind
from streams.weights.classes import classes_of

ROLE_MODULES: Final = (
    "replay.local.forked", "agents.commands.serve", "agents.runtime.assembly", "streams.faust.host",
    "agents.classifier.role", "agents.router.role", "agents.discriminator.role", "agents.discriminator.scorers",
    "agents.router.reroute", "agents.router.waiting.forwarder", "agents.runtime.following",
    "agents.worker.role", "agents.worker.reuse", "agents.ledger.role", "agents.planner.loop", "planner.policies.joint",
    "streams.kafka.transactions.lease",
)  # fmt: skip
"""What roles import, beside the library of an engine."""

ENGINE_MODULES: Final = {"diffusers": "agents.engines.diffusers_engine"}  # that take seconds to import
PREDICTOR: Final = ("agents.models.predictor",)  # of the shipped family's classifiers
JUDGES: Final = ("agents.models.discriminator",)  # that need torch, as that engine does
PROGRAM: Final = (sys.executable, "-c")
RUN_PROGRAM: Final = "replay.local.forked:run_program"  # a fork server's target for one


def modules_of(settings: Settings) -> list[str]:
    """Return what the roles of a deployment import before they can load a model."""
    catalog = catalogs.load(settings.catalog)
    engines = engine_modules(settings, catalog)
    learned = [each for each in catalog.classifiers.values() if each.engine == "learned"]
    has_family = any(classifier_kind(each.folder) == "family" for each in learned)
    return [*ROLE_MODULES, *(PREDICTOR if has_family else ()), *engines, *(JUDGES if engines else ())]


def engine_modules(settings: Settings, catalog: Catalog) -> list[str]:
    """Return what a worker of a deployment imports of the libraries of its engines."""
    modules = list[str]()
    for variant in catalog.served.values():
        engine = settings.worker.engine or variant.engine
        if engine in ENGINE_MODULES:
            modules.append(ENGINE_MODULES[engine])
            model = INFRA / variant.model
            modules += classes_of(model) if model.is_dir() else []
    return list(dict.fromkeys(modules))


class RoleForks:
    """Starts a supervisor's processes: by fork where the command is `python -c PROGRAM ...`, others anew.

    The server begins with the first process. Where the system is not Linux, all processes are started anew.
    """

    def __init__(self, modules: Callable[[], Sequence[str]], log: pathlib.Path) -> None:
        """`modules`: what the server imports; `log`: of its own output."""
        self._server = LastingForkServer(modules, log)

    def __call__(self, command: Sequence[str], log: pathlib.Path) -> Child:
        """Start one process. Raises ForkFailed."""
        if sys.platform != "linux" or tuple(command[:2]) != PROGRAM:
            return spawn(command, log)
        return self._server.spawn(command[2:], log, target=RUN_PROGRAM)

    def close(self) -> None:
        """End the server, and what it has forked."""
        self._server.close()


def run_program(arguments: Sequence[str]) -> None:
    """Run what `python -c` would: a program, and its arguments."""
    program, *rest = arguments
    sys.argv = ["-c", *rest]
    exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
