"""Checks of requests against the catalog: does it offer the model, and does a variant honour all options?"""

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

UNKNOWN_S: Final = 0  # a model's creation time: catalogs do not state it, OpenAI's clients require a number


class CatalogChecks:
    """Refuses, before anything is written, requests that the router would reject by the catalog alone."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        bases = (name for name in catalog.bases if name not in catalog.served)
        self.models = (PLAN_CHOOSES, *catalog.served, *bases)

    def check_model(self, name: str, param: str) -> None:
        """Raise Refusal if the catalog does not offer the model."""
        if name not in self.models:
            ways = f"with {PLAN_CHOOSES}, or none, the plan chooses; Replicate's clients name them {OWNER}/NAME"
            raise Refusal(UNKNOWN_MODEL, f"{Unknown('model', name[:80], self.models)}; {ways}", param=param)

    def described(self, name: str, base_url: str) -> dict[str, Any]:
        """Return a model in the shape of both APIs; `pochade` holds the options that a request may state.

        `base_url`: the prefix of addresses.
        """
        of_openai = {"id": name, "object": "model", "created": UNKNOWN_S, "owned_by": OWNER}
        links = ("github_url", "paper_url", "license_url", "cover_image_url", "default_example", "latest_version")
        return {
            **of_openai, "url": f"{base_url}/v1/models/{OWNER}/{name}", "owner": OWNER, "name": name,
            "description": "the plan chooses a level" if name == PLAN_CHOOSES else None, "visibility": "private",
            "run_count": 0, **dict.fromkeys(links), "pochade": self._offer(name),
        }  # fmt: skip

    def _offer(self, name: str) -> dict[str, Any]:
        """Return a variant's size, steps and guidance, the options that it honours, and its adapters and controls."""
        if name not in self._catalog.served:
            return {"variants": self._catalog.bases.get(name, list(self._catalog.variants))}
        variant = self._catalog.served[name]
        return {
            "size": f"{variant.width}x{variant.height}", "steps": variant.steps, "guidance": variant.guidance,
            "honours": list(variant.honours), "bases": list(variant.bases), "adapters": list(variant.adapters),
            "controls": list(variant.controls),
        }  # fmt: skip

    def check(self, request: GenerateRequest, params: Mapping[str, str]) -> None:
        """Raise Refusal if no variant honours the request.

        `params`: field of a request -> the API's name for it, where they differ.
        """
        options = request.options
        if options.model:
            self.check_model(options.model, params.get("model", "model"))
        if fault := fit_of(options, request.quality, self._catalog).fault:
            raise Refusal(UNHONOURED, fault.reason, param=params.get(fault.param, fault.param) or None)
