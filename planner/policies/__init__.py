"""The table of policies by name, one file each; it is the only place that lists them."""

from planner.control.proposal import InvalidParameter, PlanProposal, Policy
from planner.policies import (
    argus,
    clipper_heavy,
    clipper_light,
    diffserve,
    diffserve_static,
    hadis,
    joint,
    lru_round_robin,
    mlora,
    nirvana,
    octoai,
    pac,
    proteus,
    push_round_robin,
    random_split,
    sommelier,
)
from schemas.errors import Unknown

__all__ = [
    "BASELINE", "BEGINS_WITH_REUSE", "DEFAULT", "JUDGES_ALL", "LOOKUP_PER_REQUEST", "PLACES_COMPONENTS",
    "POLICIES", "SCALES", "SWITCHES_STRATEGY",
    "InvalidParameter", "PlanProposal", "Policy", "named",
]  # fmt: skip

POLICIES: dict[str, Policy] = {
    "argus": argus.plan,
    "clipper-heavy": clipper_heavy.plan,
    "clipper-light": clipper_light.plan,
    "diffserve": diffserve.plan,
    "diffserve-static": diffserve_static.plan,
    "hadis": hadis.plan,
    "joint": joint.plan,
    "lru-round-robin": lru_round_robin.plan,
    "mlora": mlora.plan,
    "nirvana": nirvana.plan,
    "octoai": octoai.plan,
    "pac": pac.plan,
    "proteus": proteus.plan,
    "push-round-robin": push_round_robin.plan,
    "random-split": random_split.plan,
    "sommelier": sommelier.plan,
}

BASELINE = "random-split"  # in every report: a blind split is hard to beat at equal heavy share (SOURCES.md 3.8)
DEFAULT = "joint"
JUDGES_ALL = "diffserve-static"  # every first image is judged: what the demo switches to on its way
BEGINS_WITH_REUSE = frozenset({"argus", "nirvana", "pac"})  # where the catalog has a profile of reuse
SWITCHES_STRATEGY = frozenset({"argus", "pac"})  # leave reuse where lookups fail; they have `overprovision`
SCALES = "octoai"  # says how many workers there should be: what `chaos --scale` runs
PLACES_COMPONENTS = "mlora"  # says what each worker holds: what `chaos --components` runs
LOOKUP_PER_REQUEST = "nirvana"  # every request looks for a stored image, at any load: what `chaos --reuse` runs


def named(name: str) -> Policy:
    """The policy of this name. Raises Unknown with the known ones and the nearest."""
    if name not in POLICIES:
        raise Unknown("policy", name, POLICIES)
    return POLICIES[name]
