"""The options of a live replay, and the deployment that follows from them."""

import pathlib
from dataclasses import dataclass

from planner.catalog.model import Catalog
from replay.load.place import prefix_of
from replay.local.deployment import own_deployment
from schemas.errors import PochadeError
from streams.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """The options of a live replay; None for the setting or the default."""

    name: str  # of the run: the same name and trace go on where the run was interrupted
    prefix: str | None
    is_production: bool
    serves: int | None  # workers of an own deployment; None: there is one
    catalog: str | None
    engine: str | None
    policy: str | None
    slo_s: float | None
    drops: bool  # the SLO is the deadline of requests that have none
    report: pathlib.Path | None
    probes: bool = False  # the machine's speed, during the run


def deployment_of(settings: Settings, options: LiveOptions) -> Settings:
    """Return the settings of the deployment to publish to. Raises PochadeError: production unasked, or two asked."""
    prefix = prefix_of(
        settings, options.name, options.prefix, is_production=options.is_production, serves=options.serves is not None
    )
    if options.serves is None and (options.engine or options.policy):
        raise PochadeError("--engine and --policy are of roles that --serve starts; the roles there have their own")
    return own_deployment(
        settings,
        prefix,
        catalog=options.catalog,
        engine=options.engine,
        policy=options.policy,
        slo_s=options.slo_s,
        workers=options.serves or 1,
    )


def slo_ms(settings: Settings, catalog: Catalog) -> float:
    """Return the SLO by which violations are counted, in ms. Raises PochadeError where nothing says it."""
    slo_s = settings.planner.slo_s or catalog.slo_s
    if not slo_s:
        raise PochadeError("give --slo SECONDS: neither the setting planner.slo_s nor the catalog says one")
    return 1000 * slo_s
