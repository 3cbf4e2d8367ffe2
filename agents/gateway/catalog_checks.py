"""Checks of requests against the catalog: does it offer the model, and does a variant honour all options?"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from agents.gateway.openai_images import PLAN_CHOOSES
from agents.gateway.predictions import OWNER
from agents.gateway.refusals import UNKNOWN_MODEL, Refusal
from agents.gateway.sizes import limits_of
from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.serving.decisions import UNHONOURED
from planner.serving.routing.composing import fit_of
from schemas.errors import Unknown
from schemas.messages import GenerateRequest
from schemas.topics import HOUR_MS
from streams.settings import InvalidSettings

NO_WAYS: Final[Mapping[str, str]] = {}
UNKNOWN_S: Final = 0  # a model's creation time: catalogs do not state it, OpenAI's clients require a number


class CatalogChecks:
    """Refuses, before anything is written, requests that the router would reject by the catalog alone."""

    def __init__(
        self, catalog: Catalog, aliases: Mapping[str, str], serving: Callable[[str], tuple[int, float, float | None]]
    ) -> None:
        """`aliases`: other names of models (`gateway.models`). `serving`: a variant's workers now, their slowness, and
        their price per hour.

        Raises InvalidSettings for an alias of no model.
        """
        self._catalog = catalog
        self._aliases = aliases
        self._serving = serving
        bases = (name for name in catalog.bases if name not in catalog.served)
        self.models = (PLAN_CHOOSES, *catalog.served, *bases)
        self.listed = (*self.models, *(name for name in aliases if name not in self.models))
        for name, model in aliases.items():
            if model not in self.models:
                raise InvalidSettings(f"gateway.models: {name!r} is to be {Unknown('model', model, self.models)}")

    def own(self, name: Any) -> Any:
        """Return the model that a client's name for one stands for; another name, or none, as it is."""
        return self._aliases.get(name, name) if isinstance(name, str) else name

    def check_model(self, name: str, param: str) -> None:
        """Raise Refusal if the catalog does not offer the model."""
        if name not in self.models:
            name = name[:80]
            fault = Unknown("model", name, self.models, {name: (name.rpartition("/")[2],)})  # of pochade/NAME
            ways = f"with {PLAN_CHOOSES}, or none, the plan chooses; Replicate's clients name them {OWNER}/NAME"
            others = "the deployment's setting gateway.models says which model other products' names stand for"
            raise Refusal(UNKNOWN_MODEL, f"{fault}; {ways}; {others}", param=param)

    def described(self, name: str, base_url: str) -> dict[str, Any]:
        """Return a model in the shape of both APIs; `pochade` holds the options that a request may state.

        `base_url`: the prefix of addresses.
        """
        of_openai = {"id": name, "object": "model", "created": UNKNOWN_S, "owned_by": OWNER}
        owner, _, short = name.rpartition("/") if name in self._aliases and "/" in name else (OWNER, "/", name)
        links = ("github_url", "paper_url", "license_url", "cover_image_url", "default_example", "latest_version")
        return {
            **of_openai, "url": f"{base_url}/v1/models/{owner}/{short}", "owner": owner, "name": short,
            "description": "the plan chooses a level" if self.own(name) == PLAN_CHOOSES else None,
            "visibility": "private", "run_count": 0, **dict.fromkeys(links), "pochade": self._offer(self.own(name)),
        }  # fmt: skip

    def _offer(self, name: str) -> dict[str, Any]:
        """Return a variant's own size, steps and guidance, what may be asked of it, and the time of an image.

        `limits`: of the options in numbers that it follows; without width and height it has one size. `expected_ms`: of
        an image once a worker begins it, by the workers of now; null: none serves it, as `why` says. `price`: of that
        time; null: unknown.
        """
        if name not in self._catalog.served:
            return {"model": name, "variants": self._catalog.bases.get(name, list(self._catalog.variants))}
        variant = self._catalog.served[name]
        workers, slowness, price = self._serving(name)
        expected_ms = run_ms(variant, 1) * slowness if workers else None
        return {
            "model": name, "size": f"{variant.width}x{variant.height}", "steps": variant.steps,
            "guidance": variant.guidance, "honours": list(variant.honours), "bases": list(variant.bases),
            "adapters": list(variant.adapters),
            "controls": list(variant.controls), "limits": limits_of(variant), "workers": workers,
            "expected_ms": None if expected_ms is None else round(expected_ms),
            "price": round(price * expected_ms / HOUR_MS, 9) if price and expected_ms else None,
            "why": "" if workers else f"no worker serves {name}",
        }  # fmt: skip

    def check(self, request: GenerateRequest, params: Mapping[str, str], ways: Mapping[str, str] = NO_WAYS) -> None:
        """Raise Refusal if no variant honours the request.

        `params`: field of a request -> the API's name for it, where they differ. `ways`: the API's name -> what to do
        about a value of it that no variant honours.
        """
        options = request.options
        if options.model:
            self.check_model(options.model, params.get("model", "model"))
        if fault := fit_of(options, request.quality, self._catalog).fault:
            param = params.get(fault.param, fault.param)
            raise Refusal(UNHONOURED, "; ".join(filter(None, (fault.reason, ways.get(param)))), param=param or None)
