"""Which variants generate with the components and images that a request names, and which of them it goes to.

Those are never left out: a request that no variant honours whole is rejected with what there is. Levels that honour
it are drawn as the plan draws them, renormalised; where it draws none, it goes to a variant that is there on request.
"""

from collections.abc import Sequence

from planner.catalog.components import needs_components, unhonoured
from planner.catalog.entries import variant_of
from planner.catalog.model import Catalog
from planner.serving.routing.placement import Choice, sample
from schemas.errors import Unknown
from schemas.messages import GenerateOptions


class Composed:
    """The variants that honour a request's components: `variants` with the levels first, or `reason` why none does."""

    def __init__(self, options: GenerateOptions, catalog: Catalog) -> None:
        names, self.reason = _candidates(options, catalog)
        faults = {name: unhonoured(options, catalog.served[name].offer) for name in names}
        self.variants = tuple(name for name, fault in faults.items() if not fault)
        if not self.variants and not self.reason:
            able = [fault for name, fault in faults.items() if catalog.served[name].components] or list(faults.values())
            self.reason = "; ".join(able) + "; nothing of it is left out: ask for what there is"

    def choose(self, drawn: Sequence[Choice], request_id: str) -> Choice:
        """Return the variant for a request. `drawn`: the levels of its route under the plan.

        The probability is 0, as no other level may stand in for it.
        """
        assert self.variants, "a request that nothing honours is rejected"
        fit = [choice for choice in drawn if variant_of(choice.level) in self.variants]
        total = sum(choice.probability for choice in fit)
        if total > 0:
            scaled = [Choice(choice.level, choice.probability / total) for choice in fit]
            return Choice(variant_of(sample(scaled, request_id).level), 0.0)
        return Choice(self.variants[0], 0.0)


def is_composed(options: GenerateOptions, catalog: Catalog) -> bool:
    """Whether a request names components, images, or a model that is no level: a base, a variant on request, none."""
    return needs_components(options) or (options.model != "" and options.model not in catalog.variants)


def on_request_variant(options: GenerateOptions, catalog: Catalog) -> str:
    """Return the variant on request that a request needs; "": levels serve it, or nothing does."""
    if not catalog.on_request or not is_composed(options, catalog):
        return ""
    variants = Composed(options, catalog).variants
    return variants[0] if variants and variants[0] in catalog.on_request else ""


def _candidates(options: GenerateOptions, catalog: Catalog) -> tuple[list[str], str]:
    """The variants that the request's model leaves, levels first, and why there are none."""
    if not options.model:
        return list(catalog.served), ""
    if options.model in catalog.served:
        return [options.model], ""
    if options.model in catalog.bases:
        return catalog.bases[options.model], ""
    return [], str(Unknown("model", options.model, [*catalog.served, *catalog.bases]))
