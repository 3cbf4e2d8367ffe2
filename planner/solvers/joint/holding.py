"""Candidates that leave reserved workers where they are, for the plans that would be made without a reservation do not.

The model of value judges them, and improves the best as it does others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.control.sharing import spare_of
from planner.observation.observation import Observation
from schemas.messages import Cascade, Route

SHARES: Final = (0.2, 0.4, 0.6, 0.8)  # of the requests on the reserved level; small changes go on from there
THRESHOLDS: Final = (0.3, 0.6, 0.9)  # likewise


def holding(
    held: Mapping[str, str], candidates: Sequence[PlanProposal], seen: Observation, catalog: Catalog
) -> Iterator[PlanProposal]:
    """Yield the candidates with the reserved workers in place, and plans with the others on one level each.

    `held`: reserved workers by id, with their level.
    """
    for plan in candidates:
        yield replace(plan, allocation={**plan.allocation, **held})
    others = [worker.worker_id for worker in seen.workers if worker.worker_id not in held]
    for level in catalog.variants if others else ():
        allocation = {**held, **dict.fromkeys(others, level)}
        levels = sorted(set(allocation.values()))
        batch = {name: spare_of(catalog.level(name), (), 0.0, seen.slo_ms).batch for name in levels}
        plain = replace(candidates[0], allocation=allocation, batch=batch, cascades=(), strategy="models", reuse=None)
        for name in levels:
            yield replace(plain, routes=(Route(levels={name: 1.0}),))
        for pair in catalog.cascades:
            if {pair.light, pair.heavy} <= set(levels):
                for threshold in THRESHOLDS:
                    cascade = Cascade(
                        level=pair.light, next_level=pair.heavy, discriminator=pair.discriminator,
                        threshold=threshold, refine_from_step=pair.refine_from_step,
                    )  # fmt: skip
                    yield replace(plain, routes=(Route(levels={pair.light: 1.0}),), cascades=(cascade,))
        for reserved in set(levels) - {level}:
            for share in SHARES:
                yield replace(plain, routes=(Route(levels={reserved: share, level: 1 - share}),))
