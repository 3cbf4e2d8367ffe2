"""The deployment of one run: its own topic prefix, and its settings as options for child processes."""

import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replay.local.processes import RoleProcess, role_process
from streams.catalogs import check_names
from streams.provenance import hidden
from streams.security.secrets import is_secret
from streams.settings import PREFIX, Settings

PACKAGES = ("pochade", "confluent-kafka", "faust-streaming", "diffusers", "torch", "transformers", "pillow", "numpy")

PROPERTIES = "kafka.properties."


def own_deployment(
    settings: Settings,
    prefix: str,
    *,
    catalog: str | None = None,
    engine: str | None = None,
    policy: str | None = None,
    slo_s: float | None = None,
    workers: int = 1,
    vectors_url: str | None = None,
    parameters: Mapping[str, float] | None = None,
) -> Settings:
    """The settings of a run: topics of its own under `prefix`, and what was asked for.

    Raises Unknown, PochadeError before anything is started: a catalog, engine or policy that is not there.
    """
    kafka = settings.kafka
    changes = {"prefix": prefix, "jobs_partitions": max(kafka.jobs_partitions, workers)}
    changed: dict[str, Any] = {"home": settings.home.expanduser().resolve(), "kafka": kafka.model_copy(update=changes)}
    if catalog is not None:
        changed["catalog"] = catalog
    if engine is not None:
        changed["worker"] = settings.worker.model_copy(update={"engine": engine})
    if vectors_url is not None:
        changed["vectors"] = settings.vectors.model_copy(update={"url": vectors_url})
    planner = {
        name: value
        for name, value in {"policy": policy, "slo_s": slo_s, "parameters": parameters}.items()
        if value is not None
    }
    if planner:
        changed["planner"] = settings.planner.model_copy(update=planner)
    own = settings.model_copy(update=changed)
    for error in check_names(own):
        raise error
    return own


def child_options(settings: Settings, inherited: Settings) -> list[str]:
    """Global options that make a child process see `settings`, given what it `inherited` by environment and TOML.

    What may be a secret is not among them, as everybody sees a command line: `child_environment` has it.
    """
    options = ["--home", str(settings.home)]
    for key, value in _differing(settings, inherited).items():
        if not _is_private(key):
            options += ["--set", f"{key}={json.dumps(value) if isinstance(value, list) else value}"]
    return options


def child_environment(settings: Settings, inherited: Settings) -> dict[str, str]:
    """The variables that `child_options` leaves out; only a process's owner sees its environment."""
    private = [key for key in _differing(settings, inherited) if _is_private(key)]
    variables = {PREFIX + key.upper().replace(".", "__"): key for key in private if not key.startswith(PROPERTIES)}
    found = {variable: str(dict(_leaves(settings.model_dump(mode="json")))[key]) for variable, key in variables.items()}
    if settings.kafka.properties != inherited.kafka.properties:
        found[PREFIX + "KAFKA__PROPERTIES"] = json.dumps(settings.kafka.properties)
    return found


def _is_private(key: str) -> bool:
    return key.startswith(PROPERTIES) or (key.startswith("registry.") and is_secret(key))


def _differing(settings: Settings, inherited: Settings) -> dict[str, Any]:
    there = dict(_leaves(inherited.model_dump(mode="json")))
    wanted = dict(_leaves(settings.model_dump(mode="json")))
    return {key: value for key, value in wanted.items() if there.get(key) != value and key != "home"}


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def roles_of(options: Sequence[str], workers: Sequence[str], *, has_index: bool = False) -> list[RoleProcess]:
    """The processes of a small deployment: one for each kind of work, one for each worker.

    `has_index`: there is a vector store, so that an index writer is among them.
    """
    indexers = [role_process("indexer", ["indexer"], options, {})] if has_index else []
    return [
        role_process("ledger-planner", ["ledger", "planner"], options, {}),
        *(role_process(worker, ["worker"], options, {"worker.id": worker}) for worker in workers),
        role_process("classifier-router", ["classifier", "router"], options, {}),
        role_process("discriminator", ["discriminator"], options, {}),
        *indexers,
    ]


def settings_shown(settings: Settings) -> dict[str, Any]:
    """The settings for a report: secrets hidden, as `config show` hides them, and nothing of [kafka.properties]."""
    shown = hidden(settings.model_dump(mode="json"))
    shown["kafka"].pop("properties")
    return shown


def versions() -> dict[str, str]:
    """Return the versions of Python, the machine, and the packages that matter."""
    found = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
