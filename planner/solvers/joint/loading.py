"""The wait of a level's requests for components that no worker holds: a part of its run time, in the model of value.

Source: MLoRA 6.3.2 and 7.2, where a request is routed by the locality of what it needs; here that also says which level
is the better one, so that a level whose bases are warm is worth more than one that loads for 20 s first.
"""

from dataclasses import replace

from planner.catalog.model import Catalog
from planner.components.component import Kind, Tier, kind_of
from planner.components.from_catalog import components_of
from planner.observation.components import ObservedComponents


def with_cold_loads(catalog: Catalog, seen: ObservedComponents | None, now_ms: float, hold_s: float) -> Catalog:
    """Return the catalog with run times that include loads of components; the same one where nothing is cold.

    `hold_s`: how long a plan holds, in which the first request for a component loads it for those after it.
    """
    cold = {name: cold_load_ms(name, catalog, seen, now_ms, hold_s) for name in catalog.variants} if seen else {}
    if not any(cold.values()):
        return catalog
    variants = {
        name: replace(variant, latency_ms={b: ms + b * cold[name] for b, ms in variant.latency_ms.items()})
        for name, variant in catalog.variants.items()
    }
    return replace(catalog, variants=variants)


def cold_load_ms(variant: str, catalog: Catalog, seen: ObservedComponents, now_ms: float, hold_s: float) -> float:
    """Return the mean time in ms that a request of a variant loads what no worker holds on its device.

    0 where no worker reports components: nothing is known then.
    """
    known, demand = components_of(catalog, variant), seen.demand.get(variant)
    if demand is None or not known or not seen.workers:
        return 0.0
    counted, holdings = demand.counted(), seen.holdings()
    requests = counted.requests(now_ms)
    total = sum(count for id_, count in requests.items() if kind_of(id_) is Kind.BASE)
    waits_ms = 0.0
    for id_, count in requests.items():
        if id_ not in known:
            continue
        nearest = max((holdings.tier_of(worker, id_) for worker in holdings.by_worker), default=Tier.REMOTE)
        if nearest is not Tier.DEVICE:
            expected = counted.rate_per_s(id_, now_ms) * hold_s  # requests while the plan holds; one of them loads
            waits_ms += count * known[id_].load_from(nearest) / max(1.0, expected)
    return waits_ms / total if total else 0.0
