"""Settings and options under the names of release 0.1: they work in 0.2, with a warning that names the new one."""

import logging
from collections.abc import Mapping
from typing import Any, Final

log = logging.getLogger(__name__)

NEW_NAMES: Final[Mapping[str, str]] = {  # as dotted names: of 0.1 -> of 0.2
    "drain_s": "shutdown_timeout_s",
    "ledger.grace_s": "ledger.deadline_grace_s",
    "planner.explore": "planner.exploration_rate",
    "planner.leader_silent_ms": "planner.leader_timeout_ms",
    "planner.sheds": "planner.load_shedding",
    "planner.solve_limit_s": "planner.solver_timeout_s",
    "planner.worker_silent_ms": "planner.worker_timeout_ms",
    "requests.max_pictures": "requests.max_images",
    "worker.job_limit_s": "worker.job_timeout_s",
}


def in_new_names(tree: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Nested settings with every old name replaced; `where` they stand, for a warning about each, "": no warning.

    Raises:
        ValueError: a setting is given under both of its names.
    """
    renamed = {name: dict(value) if isinstance(value, Mapping) else value for name, value in tree.items()}
    for old, new in NEW_NAMES.items():
        section, _, name = old.rpartition(".")
        values = renamed.get(section) if section else renamed
        if not isinstance(values, dict) or name not in values:
            continue
        target = new.rpartition(".")[2]
        if target in values:
            raise ValueError(f"{old} and {new} are both given: remove {old}, the setting's name before 0.2")
        values[target] = values.pop(name)
        if where:
            log.warning("setting %s (%s) is called %s since 0.2; the old name works until 0.3", old, where, new)
    return renamed
