"""The components of a catalog's variants, and those that a request needs.

A component of unknown size is left out, as it cannot be placed. One without a measured load time gets its share, by
bytes, of the variant's load time, from every tier.
"""

from planner.catalog import components as listed
from planner.catalog.components import Selection
from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.components.component import Component, ComponentRequest, Kind, Tier, component_id


def components_of(catalog: Catalog, variant: str) -> dict[str, Component]:
    """Return the components of a variant by id; {} for one that lists no bases. Raises Unknown for the variant."""
    key = ("components", variant)
    if key not in catalog.derived:
        catalog.derived[key] = of_variant(catalog.level(variant))
    found: dict[str, Component] = catalog.derived[key]
    return found


def of_variant(variant: Variant) -> dict[str, Component]:
    """Return the components of a variant by id; {} for one that lists no bases."""
    if not variant.bases:
        return {}
    of_base = next((variant.base(name).bytes for name in variant.bases if variant.base(name).bytes), 0)
    per_byte = variant.load_ms / of_base if of_base else 0.0
    return {
        each.id: Component(
            id=each.id, bytes=each.bytes, load_ms=_load_ms(each, per_byte * each.bytes), digest=each.sha256
        )
        for each in variant.components
        if each.bytes
    }


def requested(selection: Selection) -> ComponentRequest:
    """Return the components of a request, as a variant that lists bases resolves it, by id."""
    return ComponentRequest(
        base=component_id(Kind.BASE, selection.base),
        adapters={component_id(Kind.ADAPTER, each.name): each.weight for each in selection.adapters},
        controls=tuple(component_id(Kind.CONTROL, each.name) for each in selection.controls),
    )


def fused(id_: str, base: Component) -> Component:
    """Return the component of a fused id: as large as its base, and made where its parts are."""
    return Component(id=id_, bytes=base.bytes, load_ms={})


def _load_ms(component: listed.Component, estimate_ms: float) -> dict[Tier, float]:
    """Return the measured load times; from remote, if not measured, the larger of the estimate and a nearer tier's."""
    times = {Tier[label.upper()]: ms for label, ms in component.load_ms.items() if Tier[label.upper()] < Tier.DEVICE}
    if Tier.REMOTE not in times:
        times[Tier.REMOTE] = max([estimate_ms, *times.values()])
    return times
