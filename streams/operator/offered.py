"""Whether the catalog of a deployment offers what a request asks for, before the request is written."""

from collections.abc import Callable

from planner.catalog.model import Catalog
from planner.serving.routing.composing import fit_of
from schemas.errors import InvalidRequest
from schemas.messages import GenerateRequest
from streams.catalogs import load
from streams.settings import Settings


def check_offered(request: GenerateRequest, catalog: Catalog) -> None:
    """Raise InvalidRequest for a request that routers would reject by the catalog alone: no variant honours it."""
    if fault := fit_of(request.options, request.quality, catalog).fault:
        raise InvalidRequest(fault.reason, field=fault.param)


def checker(settings: Settings, variants: set[str]) -> Callable[[GenerateRequest], None]:
    """Return `check_offered` by the catalog of the settings.

    It checks nothing unless the cluster has topics for all variants of that catalog, `variants`: then the deployment
    serves another one, and its routers check.
    """
    catalog = load(settings.catalog)
    if not catalog.served.keys() <= variants:
        return lambda _request: None
    return lambda request: check_offered(request, catalog)
