"""Features that stand beside the roles: a record names the parts of one, and roles name no feature.

A feature that ships is active where it is installed, and another one where the setting `features` names it. A section
of settings that belongs to a feature is unknown where that is missing, so that nothing starts without what it asks for.
"""

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planner.catalog.model import Catalog
from schemas.extensions import Table

if TYPE_CHECKING:  # most roles route nothing
    from planner.serving.routing.routing import RouterCheck


class Feature(NamedTuple):
    """The parts of a feature; None for a kind that it lacks."""

    checks: Callable[[Catalog], "Sequence[RouterCheck]"] | None = None  # of requests, in live and simulated routers
    rights: Callable[..., Any] | None = None  # settings -> `TenantRights` of a live router
    worker: Callable[..., Any] | None = None  # `agents.worker.stages.Opening` -> a stage of a live worker


def _late(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports this one when it is called: a role loads no part that it does not open."""
    return lambda *asked: getattr(importlib.import_module(module), name)(*asked)


FEATURES: Final = Table[Feature](
    "feature",
    "pochade.features",
    {
        "previews": Feature(worker=_late("agents.features.previews", "open_stage")),
        "receipts": Feature(worker=_late("agents.features.receipts", "open_stage")),
        "safety": Feature(worker=_late("agents.features.safety", "open_stage")),
        "tenants": Feature(rights=_late("agents.features.tenants", "rights_of")),
    },
)


def active(named: Iterable[str]) -> list[Feature]:
    """Return the features that ship, and those of these names. Raises PochadeError: one of them cannot be loaded."""
    return [FEATURES.load(name) for name in dict.fromkeys((*FEATURES, *named))]


def checks_of(named: Iterable[str], catalog: Catalog) -> "list[RouterCheck]":
    """Return the checks of routers that active features add. Raises PochadeError: one cannot be loaded."""
    return [check for each in active(named) if each.checks is not None for check in each.checks(catalog)]
