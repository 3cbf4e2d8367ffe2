"""The policies by name, one file each, and which of them what else names by what it does.

A policy's module is imported when it is asked for: what shows names needs no solver.
"""

from typing import Final

from planner.control.proposal import InvalidParameter, PlanProposal, Policy
from schemas.extensions import Table

__all__ = [
    "BASELINE", "BEGINS_WITH_REUSE", "DEFAULT", "HEAVY_ALONE", "JUDGES_ALL", "LOOKUP_PER_REQUEST", "PLACES_COMPONENTS",
    "POLICIES", "SCALES", "SWITCHES_STRATEGY",
    "InvalidParameter", "PlanProposal", "Policy", "named",
]  # fmt: skip

POLICIES: Final = Table[Policy](
    "policy",
    "pochade.policies",
    {
        "argus": "planner.policies.argus:plan",
        "clipper-heavy": "planner.policies.clipper_heavy:plan",
        "clipper-light": "planner.policies.clipper_light:plan",
        "diffserve": "planner.policies.diffserve:plan",
        "diffserve-static": "planner.policies.diffserve_static:plan",
        "hadis": "planner.policies.hadis:plan",
        "joint": "planner.policies.joint:plan",
        "lru-round-robin": "planner.policies.lru_round_robin:plan",
        "mlora": "planner.policies.mlora:plan",
        "nirvana": "planner.policies.nirvana:plan",
        "octoai": "planner.policies.octoai:plan",
        "pac": "planner.policies.pac:plan",
        "proteus": "planner.policies.proteus:plan",
        "push-round-robin": "planner.policies.push_round_robin:plan",
        "random-split": "planner.policies.random_split:plan",
        "sommelier": "planner.policies.sommelier:plan",
    },
)

BASELINE = "random-split"  # in every report: a blind split is hard to beat at equal heavy share (SOURCES.md 3.8)
HEAVY_ALONE: Final = "clipper-heavy"  # the best level alone, against which reports say what a policy saves
DEFAULT = "joint"
JUDGES_ALL = "diffserve-static"  # every first image is judged: what the demo switches to on its way
BEGINS_WITH_REUSE = frozenset({"argus", "nirvana", "pac"})  # where the catalog has a profile of reuse
SWITCHES_STRATEGY = frozenset({"argus", "pac"})  # leave reuse where lookups fail; they have `overprovision`
SCALES = "octoai"  # says how many workers there should be: what `chaos --scale` runs
PLACES_COMPONENTS = "mlora"  # says what each worker holds: what `chaos --components` runs
LOOKUP_PER_REQUEST = "nirvana"  # every request looks for a stored image, at any load: what `chaos --reuse` runs


def named(name: str) -> Policy:
    """The policy of this name, one that ships or of an installed package. Raises what `Table.load` does."""
    return POLICIES.load(name)
