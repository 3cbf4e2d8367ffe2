"""What the tests of the cascade policies share: catalogs, an observation, and what a draft says."""

from typing import Any

from planner.catalog.curves import PairRow
from planner.catalog.entries import DeferralPoint
from planner.catalog.model import Catalog
from planner.control.plans import publish
from planner.control.validity import check
from planner.observation.observation import Observation
from planner.policies import PlanProposal, Policy
from tests.builders import a_catalog, a_discriminator, an_observation

TWENTIETHS = tuple(DeferralPoint(t / 20, t / 20) for t in range(21))
ROWS = (
    PairRow("light", "heavy", 0.0, 0.0, 20.0, 0.80),
    PairRow("light", "heavy", 0.0, 0.5, 120.0, 0.86),
    PairRow("light", "heavy", 0.3, 0.0, 74.0, 0.87),
    PairRow("light", "heavy", 0.3, 0.5, 144.0, 0.95),
    PairRow("light", "heavy", 1.0, 0.0, 200.0, 0.93),
)


def a_fine_catalog(**changes: Any) -> Catalog:
    """`a_catalog` with f(t) = t measured at each twentieth: light 91/s in batches of 4, heavy 10/s."""
    return a_catalog(discriminators={"look": a_discriminator(deferral=TWENTIETHS)}, **changes)


def a_table_catalog(**changes: Any) -> Catalog:
    """`a_catalog`, whose f(t) = t, with a table of five measured rows."""
    return a_catalog(**({"pair_rows": ROWS} | changes))


def seen(n_workers: int = 4, demand_rps: float = 30.0, **changes: Any) -> Observation:
    return an_observation(n_workers, demand_rps=demand_rps, **({"slo_ms": 1000.0, "hop_ms": 0.0} | changes))


def planned(policy: Policy, observation: Observation, catalog: Catalog, **parameters: float) -> PlanProposal:
    """A proposal that is checked, without over-provisioning unless asked for."""
    draft = policy(observation, catalog, {}, {"overprovision": 1.0, **parameters})
    check(publish(draft, None, "test", 0), catalog)
    return draft


def counts(draft: PlanProposal) -> tuple[int, int]:
    """Workers on light and heavy."""
    variants = list(draft.allocation.values())
    return variants.count(draft.cascades[0].level), variants.count(draft.cascades[0].next_level)


def quality(draft: PlanProposal) -> float:
    assert draft.expected
    assert draft.expected.quality is not None
    return draft.expected.quality
