"""Which variants honour all that a request states, by the catalog alone, and which of them it goes to.

Components and images are never left out: a request that no variant honours whole is rejected with what there is. Other
options (steps, guidance, size, negative prompt) route alike: among the levels that honour them the plan's shares are
drawn, renormalised. Where none honours them all, a strict request is rejected, and any other has them overridden.
The plan of the moment decides where a request goes, never whether it is valid.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from planner.catalog.components import Fault, needs_components, unhonoured
from planner.catalog.entries import run_ms, variant_of
from planner.catalog.model import Catalog
from planner.catalog.option_limits import ANY, BEST, CHEAPEST, OPTIONS, quality_named
from planner.catalog.options import AS_IT_IS, PLAIN, resolve_options
from planner.serving.routing.placement import Choice, sample
from schemas.errors import Unknown
from schemas.messages import GenerateOptions


class Composed:
    """The variants that honour a request's components: `variants` with the levels first, or `fault` why none does.

    Of them those that honour its other options too, where there is one.
    """

    def __init__(self, options: GenerateOptions, catalog: Catalog) -> None:
        names, unknown = _candidates(options, catalog)
        self.fault = Fault(unknown, "model") if unknown else None
        faults = {name: unhonoured(options, catalog.served[name].offer) for name in names}
        able = [name for name, fault in faults.items() if fault is None]
        self.variants = tuple(_whole(options, able, catalog) or able)
        if not self.variants and self.fault is None:
            found = [(name, fault) for name, fault in faults.items() if fault is not None]
            found = [each for each in found if catalog.served[each[0]].components] or found
            said = "; ".join(fault.reason for _, fault in found)
            others = [name for name in catalog.served if _could(options, name, catalog)]
            can = f"{' and '.join(others)} can: name {'it' if len(others) == 1 else 'one of them'}, or no model"
            self.fault = Fault(f"{said}; {can if others else 'ask for what a level has'}", found[0][1].param)


def _could(options: GenerateOptions, name: str, catalog: Catalog) -> bool:
    """Return whether a variant would do what a request asks for, if the request named no model."""
    return bool(options.model) and unhonoured(replace(options, model=""), catalog.served[name].offer) is None


class Fit(NamedTuple):
    """Where a request may go: by what it states and the catalog, not by the plan."""

    variants: tuple[str, ...] = ()  # those that honour all that it states, levels first; (): each level does, or none
    fault: Fault | None = None  # why it is rejected; None: it is valid
    level: str = ""  # the only one it asks for, by its model or its quality
    quality: str = ""  # the word that asked for `level`; "": its model did, or none is asked for
    dropped: str = ""  # the word for the quality that asks for another variant than the one that its model names
    is_composed: bool = False  # no level that lacks its components stands in
    is_strict: bool = False  # nothing is overridden, so that no other level stands in
    is_firm: bool = False  # a worker comes for `level`, which no other stands in for but for want of room

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
        if self.level and (self.is_strict or self.is_firm):
            return (self.level,)
        return self.variants if self.is_composed or self.is_strict else ()


ADVICE: Final[Mapping[str, str]] = {  # to a strict request: what it may do about an option that is not honoured
    **dict.fromkeys(PLAIN, "leave it out"),
    "prompt": "shorten or change it",
    "negative_prompt": "shorten it or leave it out",
    "quality": "leave out quality or model",
    **dict.fromkeys(("image", "mask", "control_images"), "send it in that form"),
}
ANYWHERE = Fit()
PLAIN_TEXTS = tuple(name for name in PLAIN if OPTIONS[name].is_text)  # whose words decide nothing here
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
        texts: dict[str, Any] = {name: "..." for name in PLAIN_TEXTS if getattr(options, name)}
        kind = replace(
            options, adapter_weights=(), control_images=(), control_weights=(), image="-" * bool(options.image),
            mask="-" * bool(options.mask), strength=None, n=1, reuse="", quality_at_least=None, **texts,
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
        fit = Fit(composed.variants, composed.fault, is_composed=True, is_strict=options.strict)
        if options.strict and fit.fault is None and not _whole(options, fit.variants, catalog):
            fit = _insisting(fit, options, fit.variants, catalog)
    else:
        levels = [options.model] if options.model else sorted(catalog.variants, key=partial(_by_cost, catalog=catalog))
        whole = _whole(options, levels, catalog)
        if not whole and options.strict:  # what no level honours, a variant on request may
            whole = [] if options.model else _whole(options, list(catalog.on_request), catalog)
        fit = Fit(tuple(whole), level=options.model, is_strict=options.strict, is_firm=True)
        if len(whole) == len(catalog.variants):
            fit = fit._replace(variants=())
        elif not whole and options.strict:
            fit = _insisting(fit, options, levels, catalog)
    return _of_quality(fit, options, quality, catalog)


def insists_on(level: str, overridden: Sequence[str], sizes: Sequence[str] = ()) -> Fault:
    """Return why a strict request is rejected. `overridden`: what it asks for -> what it would get.

    `sizes`: that there are, such as "512x512".
    """
    option = overridden[0].partition(":")[0]
    advice = ADVICE.get(option, f"ask for {' or '.join(sizes)}" if option == "size" else "ask for what it does")
    reason = f"{level} does not honour {'; '.join(overridden)}; {advice}, or send strict: false to have that"
    return Fault(reason, "width" if option == "size" else option)


def is_composed(options: GenerateOptions, catalog: Catalog) -> bool:
    """Whether a request names components, images, or a model that is no level: a base, a variant on request, none."""
    return needs_components(options) or (options.model != "" and options.model not in catalog.variants)


def _of_quality(fit: Fit, options: GenerateOptions, quality: str, catalog: Catalog) -> Fit:
    """The fit with the level that the word for the quality asks for.

    Where no quality is measured the word for the best level is all that is known of what another one would lose.
    """
    wanted = quality_named(quality).level
    if wanted == ANY or fit.fault is not None:
        return fit
    if options.model in catalog.served:
        return _beside_model(fit, options, quality, catalog)
    among = fit.variants or tuple(catalog.variants)
    if wanted == CHEAPEST:
        level = min(among, key=lambda each: _by_cost(each, catalog))
    else:
        level = max(among, key=lambda each: _by_quality(each, catalog))
    is_firm = wanted == BEST and not catalog.has_quality
    return fit._replace(level=level, quality=quality, is_firm=is_firm)


def _beside_model(fit: Fit, options: GenerateOptions, quality: str, catalog: Catalog) -> Fit:
    """The fit of a request that names a variant beside a quality: the variant, even if the word asks for another."""
    if fit_of(replace(options, model="", strict=False), quality, catalog).level == options.model:
        return fit
    fit = fit._replace(dropped=quality)
    if not options.strict:
        return fit
    return fit._replace(fault=insists_on(options.model, fit.overrides(options.model)))


def _by_cost(name: str, catalog: Catalog) -> tuple[float, str]:
    return run_ms(catalog.level(name), 1), name


def _by_quality(name: str, catalog: Catalog) -> tuple[bool, float, float]:
    """By quality; unmeasured ones come last, the slower one wins a tie."""
    variant = catalog.level(name)
    return variant.quality is not None, variant.quality or 0.0, run_ms(variant, 1)


def _whole(options: GenerateOptions, names: Sequence[str], catalog: Catalog) -> list[str]:
    return [name for name in names if not resolve_options(options, catalog.served[name]).overridden]


def _insisting(fit: Fit, options: GenerateOptions, levels: Sequence[str], catalog: Catalog) -> Fit:
    """The fit of a strict request that is rejected, by the level that overrides the least of it."""
    overridden = {name: resolve_options(options, catalog.level(name)).overridden for name in levels}
    level = min(levels, key=lambda name: len(overridden[name]))
    variants = [catalog.level(name) for name in levels]
    sizes = dict.fromkeys(f"{each.width}x{each.height}" for each in variants if "width" not in each.honours)
    fault = insists_on(level, overridden[level], list(sizes))
    if not options.model:
        fault = fault._replace(reason=f"no level honours all of it: {fault.reason}")
    return fit._replace(fault=fault)


def _candidates(options: GenerateOptions, catalog: Catalog) -> tuple[list[str], str]:
    """The variants that the request's model leaves, levels first, and why there are none."""
    if not options.model:
        return list(catalog.served), ""
    if options.model in catalog.served:
        return [options.model], ""
    if options.model in catalog.bases:
        return catalog.bases[options.model], ""
    return [], str(Unknown("model", options.model, [*catalog.served, *catalog.bases]))
