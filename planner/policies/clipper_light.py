"""`clipper-light`: every request on the cheapest variant. Source: Clipper's throughput end (ARGUS 5.1, DiffServe T. 1).

We differ: the batch size is a parameter; DiffServe's own baseline fixes 1, Clipper tunes it by AIMD.
"""

from collections.abc import Mapping
from typing import Any

from planner.catalog import Catalog
from planner.observation import Observation
from planner.policies.draft import Draft
from planner.policies.one_level import on


def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> Draft:
    """All workers on the variant with the shortest call. Parameter: batch."""
    del memory  # constant in time
    return on(catalog.cheapest(), observation, catalog, parameters)
