"""Which variants honour all that a request states, by the catalog alone, and which of them it goes to.

Components and images are never left out: a request that no variant honours whole is rejected with what there is. Other
options (steps, guidance, size, negative prompt) route alike: among the levels that honour them the plan's shares are
drawn, renormalised. Where none honours them all, a strict request is rejected, and any other has them overridden.
The plan of the moment decides where a request goes, never whether it is valid.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from planner.catalog.components import needs_components, unhonoured
from planner.catalog.entries import run_ms, variant_of
from planner.catalog.model import Catalog
from planner.catalog.option_limits import ANY, CHEAPEST, quality_named
from planner.catalog.options import AS_IT_IS, COMPONENTS, resolve_options
from planner.serving.decisions import unhonoured_option, unhonoured_reason
from planner.serving.routing.placement import Choice, sample
from schemas.errors import Unknown
from schemas.messages import GenerateOptions


class Composed:
    """The variants that honour a request's components: `variants` with the levels first, or `reason` why none does.

    Of them those that honour its other options too, where there is one.
    """

    def __init__(self, options: GenerateOptions, catalog: Catalog) -> None:
        names, self.reason = _candidates(options, catalog)
        faults = {name: unhonoured(options, catalog.served[name].offer) for name in names}
        able = [name for name, fault in faults.items() if not fault]
        self.variants = tuple(_whole(options, able, catalog) or able)
        if not self.variants and not self.reason:
            able = [fault for name, fault in faults.items() if catalog.served[name].components] or list(faults.values())
            self.reason = "; ".join(able) + "; nothing of it is left out: ask for what there is"


class Fit(NamedTuple):
    """Where a request may go: by what it states and the catalog, not by the plan."""

    variants: tuple[str, ...] = ()  # those that honour all that it states, levels first; (): each level does, or none
    reason: str = ""  # why it is rejected; "": it is valid
    level: str = ""  # the only one it asks for, by its model or its quality
    quality: str = ""  # the word that asked for `level`; "": its model did, or none is asked for
    dropped: str = ""  # the word for the quality that asks for another variant than the one that its model names
    is_composed: bool = False  # no level that lacks its components stands in
    is_strict: bool = False  # nothing is overridden, so that no other level stands in

    def choose(self, drawn: Sequence[Choice], allocated: Collection[str], request_id: str) -> str:
        """Return the level to go to first; "": as the plan draws it.

        `drawn`: the levels of its route under the plan. `allocated`: variants that the plan gives workers.
        """
        if self.level or not self.variants:
            return self.level
        fit = [choice for choice in drawn if variant_of(choice.level) in self.variants]
        total = sum(choice.probability for choice in fit)
        if total > 0:
            return sample([Choice(each.level, each.probability / total) for each in fit], request_id).level
        if self.is_composed:
            return self.variants[0]
        served = [name for name in self.variants if name in allocated]
        return (served or self.variants)[0] if served or self.is_strict else ""

    def overrides(self, variant: str) -> tuple[str, ...]:
        """Return what a variant does instead of the quality that was asked for."""
        word = self.dropped or (self.quality if variant != self.level else "")
        return (f"quality: {word} -> {variant}",) if word else ()

    def needs(self) -> tuple[str, ...]:
        """Return the variants one of which must have a worker, as no other will do; (): any level will."""
        if self.level and (self.is_strict or not self.quality):
            return (self.level,)
        return self.variants if self.is_composed or self.is_strict else ()


ANYWHERE = Fit()
MAX_COMBINATIONS = 10_000  # of options that are remembered: tenants choose them


class Fits:
    """Where requests may go, looked up once for the combinations of options that come again."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[tuple[GenerateOptions, str], Fit] = {}

    def of(self, options: GenerateOptions, quality: str) -> Fit:
        """Return where a request with these options and this quality may go."""
        if quality == "auto" and (options is AS_IT_IS or options == AS_IT_IS):
            return ANYWHERE
        kind = replace(
            options, adapter_weights=(), control_images=(), control_weights=(), image="-" * bool(options.image),
            mask="-" * bool(options.mask), strength=None, negative_prompt="..." if options.negative_prompt else "",
            n=1, reuse="",
        )  # fmt: skip
        found = self._known.get((kind, quality))
        if found is None:
            if len(self._known) >= MAX_COMBINATIONS:
                self._known.clear()
            found = self._known[kind, quality] = fit_of(kind, quality, self._catalog)
        return found


def fit_of(options: GenerateOptions, quality: str, catalog: Catalog) -> Fit:
    """Return where a request with these options and this quality may go."""
    if options == AS_IT_IS and quality == "auto":
        return ANYWHERE
    if is_composed(options, catalog):
        composed = Composed(options, catalog)
        fit = Fit(composed.variants, composed.reason, is_composed=True, is_strict=options.strict)
        if options.strict and not fit.reason and not _whole(options, fit.variants, catalog):
            fit = fit._replace(reason=_overridden(options, fit.variants, catalog))
    else:
        levels = [options.model] if options.model else sorted(catalog.variants, key=partial(_by_cost, catalog=catalog))
        whole = _whole(options, levels, catalog)
        if not whole and options.strict:  # what no level honours, a variant on request may
            whole = [] if options.model else _whole(options, list(catalog.on_request), catalog)
        fit = Fit(tuple(whole), level=options.model, is_strict=options.strict)
        if len(whole) == len(catalog.variants):
            fit = fit._replace(variants=())
        elif not whole:
            fit = fit._replace(reason=_overridden(options, levels, catalog) if options.strict else "")
    return _of_quality(fit, options, quality, catalog)


def option_at_fault(options: GenerateOptions, reason: str, catalog: Catalog) -> str:
    """Return the option for which a `Fit` has this reason; "": no single one."""
    if option := unhonoured_option(reason):
        return option
    if _candidates(options, catalog)[1]:
        return "model"
    for name in COMPONENTS:
        alone = GenerateOptions(model=options.model, **{name: getattr(options, name)})
        if getattr(options, name) and Composed(alone, catalog).reason:
            return name
    return ""


def is_composed(options: GenerateOptions, catalog: Catalog) -> bool:
    """Whether a request names components, images, or a model that is no level: a base, a variant on request, none."""
    return needs_components(options) or (options.model != "" and options.model not in catalog.variants)


def _of_quality(fit: Fit, options: GenerateOptions, quality: str, catalog: Catalog) -> Fit:
    """The fit with the level that the word for the quality asks for."""
    wanted = quality_named(quality).level
    if wanted == ANY or fit.reason:
        return fit
    if options.model in catalog.served:
        return _beside_model(fit, options, quality, catalog)
    among = fit.variants or tuple(catalog.variants)
    if wanted == CHEAPEST:
        level = min(among, key=lambda each: _by_cost(each, catalog))
    else:
        level = max(among, key=lambda each: _by_quality(each, catalog))
    return fit._replace(level=level, quality=quality)


def _beside_model(fit: Fit, options: GenerateOptions, quality: str, catalog: Catalog) -> Fit:
    """The fit of a request that names a variant beside a quality: the variant, even if the word asks for another."""
    if fit_of(replace(options, model="", strict=False), quality, catalog).level == options.model:
        return fit
    fit = fit._replace(dropped=quality)
    if not options.strict:
        return fit
    return fit._replace(reason=unhonoured_reason(options.model, fit.overrides(options.model)))


def _by_cost(name: str, catalog: Catalog) -> tuple[float, str]:
    return run_ms(catalog.level(name), 1), name


def _by_quality(name: str, catalog: Catalog) -> tuple[bool, float, float]:
    """By quality; unmeasured ones come last, the slower one wins a tie."""
    variant = catalog.level(name)
    return variant.quality is not None, variant.quality or 0.0, run_ms(variant, 1)


def _whole(options: GenerateOptions, names: Sequence[str], catalog: Catalog) -> list[str]:
    return [name for name in names if not resolve_options(options, catalog.served[name]).overridden]


def _overridden(options: GenerateOptions, levels: Sequence[str], catalog: Catalog) -> str:
    """Why a strict request is rejected: by the level that overrides the least of it."""
    least = min((resolve_options(options, catalog.level(name)).overridden for name in levels), key=len)
    level = next(name for name in levels if resolve_options(options, catalog.level(name)).overridden == least)
    return ("" if options.model else "no level honours all of it: ") + unhonoured_reason(level, least)


def _candidates(options: GenerateOptions, catalog: Catalog) -> tuple[list[str], str]:
    """The variants that the request's model leaves, levels first, and why there are none."""
    if not options.model:
        return list(catalog.served), ""
    if options.model in catalog.served:
        return [options.model], ""
    if options.model in catalog.bases:
        return catalog.bases[options.model], ""
    return [], str(Unknown("model", options.model, [*catalog.served, *catalog.bases]))
