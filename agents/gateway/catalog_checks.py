"""What the catalog offers to clients: the models that a request may name, and whether one honours all it states."""

from collections.abc import Mapping

from agents.gateway.openai_images import PLAN_CHOOSES
from agents.gateway.refusals import UNKNOWN_MODEL, Refusal
from planner.catalog.model import Catalog
from planner.serving.decisions import UNHONOURED
from planner.serving.routing.composing import fit_of
from schemas.errors import Unknown
from schemas.messages import GenerateRequest


class CatalogChecks:
    """Refuses what the router would reject by the catalog alone, before anything is written or stored."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        bases = (name for name in catalog.bases if name not in catalog.served)
        self.models = (PLAN_CHOOSES, *catalog.served, *bases)

    def check_model(self, name: str, param: str) -> None:
        """Raise Refusal for a model that is not offered."""
        if name not in self.models:
            fault = f"{Unknown('model', name[:80], self.models)}; with {PLAN_CHOOSES}, or none, the plan chooses"
            raise Refusal(UNKNOWN_MODEL, fault, param=param)

    def check(self, request: GenerateRequest, params: Mapping[str, str]) -> None:
        """Raise Refusal for a request that no variant honours.

        `params`: field of a request -> the parameter that stood for it, where the API calls it otherwise.
        """
        options = request.options
        if options.model:
            self.check_model(options.model, params.get("model", "model"))
        if fault := fit_of(options, request.quality, self._catalog).fault:
            raise Refusal(UNHONOURED, fault.reason, param=params.get(fault.param, fault.param) or None)
