"""What the catalog offers to clients: the models that a request may name, and whether one honours all it states."""

from collections.abc import Mapping
from typing import Any, Final

from agents.gateway.openai_images import PLAN_CHOOSES
from agents.gateway.predictions import OWNER
from agents.gateway.refusals import UNKNOWN_MODEL, Refusal
from planner.catalog.model import Catalog
from planner.serving.decisions import UNHONOURED
from planner.serving.routing.composing import fit_of
from schemas.errors import Unknown
from schemas.messages import GenerateRequest

UNKNOWN_S: Final = 0  # since when a model is there: catalogs do not tell, OpenAI's clients want a number


class CatalogChecks:
    """Refuses what the router would reject by the catalog alone, before anything is written or stored."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        bases = (name for name in catalog.bases if name not in catalog.served)
        self.models = (PLAN_CHOOSES, *catalog.served, *bases)

    def check_model(self, name: str, param: str) -> None:
        """Raise Refusal for a model that is not offered."""
        if name not in self.models:
            ways = f"with {PLAN_CHOOSES}, or none, the plan chooses; Replicate's clients name them {OWNER}/NAME"
            raise Refusal(UNKNOWN_MODEL, f"{Unknown('model', name[:80], self.models)}; {ways}", param=param)

    def described(self, name: str, base_url: str) -> dict[str, Any]:
        """Return a model that is offered as both APIs describe one, and in `pochade` what a request may ask of it.

        `base_url`: with which addresses begin.
        """
        of_openai = {"id": name, "object": "model", "created": UNKNOWN_S, "owned_by": OWNER}
        links = ("github_url", "paper_url", "license_url", "cover_image_url", "default_example", "latest_version")
        return {
            **of_openai, "url": f"{base_url}/v1/models/{OWNER}/{name}", "owner": OWNER, "name": name,
            "description": "the plan chooses a level" if name == PLAN_CHOOSES else None, "visibility": "private",
            "run_count": 0, **dict.fromkeys(links), "pochade": self._offer(name),
        }  # fmt: skip

    def _offer(self, name: str) -> dict[str, Any]:
        """Return a variant's own size, steps and guidance, the options it honours instead, and what it may be given."""
        if name not in self._catalog.served:
            return {"variants": self._catalog.bases.get(name, list(self._catalog.variants))}
        variant = self._catalog.served[name]
        return {
            "size": f"{variant.width}x{variant.height}", "steps": variant.steps, "guidance": variant.guidance,
            "honours": list(variant.honours), "bases": list(variant.bases), "adapters": list(variant.adapters),
            "controls": list(variant.controls),
        }  # fmt: skip

    def check(self, request: GenerateRequest, params: Mapping[str, str]) -> None:
        """Raise Refusal for a request that no variant honours.

        `params`: field of a request -> the parameter that stood for it, where the API calls it otherwise.
        """
        options = request.options
        if options.model:
            self.check_model(options.model, params.get("model", "model"))
        if fault := fit_of(options, request.quality, self._catalog).fault:
            raise Refusal(UNHONOURED, fault.reason, param=params.get(fault.param, fault.param) or None)
