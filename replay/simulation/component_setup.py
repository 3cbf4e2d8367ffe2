"""How much of a trace's components simulated workers can hold, and by which rule one leaves a full tier."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.catalog.components import Selection
from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.catalog.options import resolve_options
from planner.components.component import Component, total_bytes
from planner.components.eviction import score_named
from planner.components.from_catalog import components_of, requested
from planner.components.tiers import Budgets
from planner.serving.routing.composing import Composed
from replay.traces.trace import Trace
from schemas.errors import PochadeError, Unknown
from schemas.messages import GenerateOptions

SHARE: Final = 0.25  # of the bytes of all components in use, that the default budgets hold
BY_PLAN: Final = ""  # the worth of a component where the plan in force places any, else the least recently used
GB: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSetup:
    """The tiers of each simulated worker."""

    budgets: Budgets
    eviction: str = BY_PLAN  # or its name in planner/components/eviction.py
    overlaps: bool = False  # a request's components load at once, each as fast as alone; False: one after the other


def table_of(catalog: Catalog) -> dict[str, Component]:
    """Return the components of all variants that list bases, by id; {}: none does."""
    found: dict[str, Component] = {}
    for name in catalog.served:
        found |= components_of(catalog, name)
    return found


def needed_by(options: GenerateOptions, variant: Variant, known: Mapping[str, Component]) -> tuple[str, ...]:
    """Return the ids of the components that a variant needs for these options, those of known size; (): none."""
    return ids_of(resolve_options(options, variant).components, variant, known) if variant.bases else ()


def ids_of(selection: Selection, variant: Variant, known: Container[str]) -> tuple[str, ...]:
    """Return the ids of what a variant needs for a request's components, those of known size; (): none."""
    return tuple(id_ for id_ in requested(selection).ids if id_ in known) if variant.bases else ()


def needs_of(trace: Trace, catalog: Catalog) -> set[tuple[str, ...]]:
    """Return what the requests of a trace need, each combination once."""
    return set(needs_by_row(trace, catalog).values()) - {()}


def needs_by_row(trace: Trace, catalog: Catalog) -> dict[int, tuple[str, ...]]:
    """Return what requests need by their row in the trace's wishes."""
    known = table_of(catalog)

    def needed(options: GenerateOptions) -> tuple[str, ...]:
        names = Composed(options, catalog).variants[:1] if known else ()
        return needed_by(options, catalog.level(names[0]), known) if names else ()

    return {row: needed(trace.wishes[row].options) for row in np.unique(trace.wish).tolist()}


def budgets_of(needs: Iterable[tuple[str, ...]], catalog: Catalog, workers: int, share: float = SHARE) -> Budgets:
    """Return budgets by the bytes of all components in use.

    Each volume holds `share` of them, all devices together as much, and host memory the geometric mean of volume and
    device; each at least the largest request. The rule is ours: the study (MLoRA) gives no sizes of tiers.
    """
    known, combinations = table_of(catalog), set(needs)
    largest = max((total_bytes(ids, known) for ids in combinations), default=0)
    volume = max(largest, int(share * total_bytes({id_ for ids in combinations for id_ in ids}, known)))
    device = max(largest, volume // workers)
    return Budgets(volume=volume, host=math.isqrt(volume * device), device=device)


def check_budgets(budgets: Budgets, needs: Iterable[tuple[str, ...]], catalog: Catalog) -> None:
    """Raise PochadeError where a request's components are together larger than a device."""
    known = table_of(catalog)
    for ids in needs:
        if (wanted := total_bytes(ids, known)) > budgets.device:
            raise PochadeError(
                f"--budgets must leave room on the device for {', '.join(ids)}: {wanted / GB:g} GB, "
                f"got {budgets.device / GB:g}; raise the last number"
            )


def evictions_of(given: Sequence[str], policies: Sequence[str]) -> dict[str, str]:
    """Return the eviction of each policy from texts `[POLICY=]NAME`, of which later ones hold.

    Raises Unknown for a policy that is not simulated, or an eviction that is none.
    """
    found = dict.fromkeys(policies, BY_PLAN)
    for each in given:
        policy, _, name = each.rpartition("=")
        if policy and policy not in found:
            raise Unknown("policy of --eviction", policy, policies)
        score_named(name)
        found |= {policy: name} if policy else dict.fromkeys(policies, name)
    return found
