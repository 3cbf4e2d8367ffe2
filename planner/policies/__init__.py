"""The policies by name. One file each; this table is the only place that lists them."""

from planner.policies import clipper_heavy, clipper_light, diffserve_static, random_split
from planner.policies.draft import Draft, Policy
from planner.policies.parameters import InvalidParameter
from schemas.errors import Unknown

__all__ = ["DEFAULT", "POLICIES", "Draft", "InvalidParameter", "Policy", "named"]

POLICIES: dict[str, Policy] = {
    "clipper-heavy": clipper_heavy.plan,
    "clipper-light": clipper_light.plan,
    "diffserve-static": diffserve_static.plan,
    "random-split": random_split.plan,
}

DEFAULT = "diffserve-static"


def named(name: str) -> Policy:
    """The policy of this name. Raises Unknown with the known ones and the nearest."""
    if name not in POLICIES:
        raise Unknown("policy", name, POLICIES)
    return POLICIES[name]
