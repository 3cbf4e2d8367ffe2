"""The policies by name, one file each, and which of them what else names by what it does.

`POLICIES`, the table of `table.py`, is loaded when it is first asked for: who shows names needs no solver.
"""

from typing import TYPE_CHECKING, Any

from planner.control.proposal import InvalidParameter, PlanProposal, Policy
from schemas.errors import Unknown

if TYPE_CHECKING:
    from planner.policies.table import POLICIES

__all__ = [
    "BASELINE", "BEGINS_WITH_REUSE", "DEFAULT", "JUDGES_ALL", "LOOKUP_PER_REQUEST", "NAMES", "PLACES_COMPONENTS",
    "POLICIES", "SCALES", "SWITCHES_STRATEGY",
    "InvalidParameter", "PlanProposal", "Policy", "check_name", "named",
]  # fmt: skip

NAMES = (
    "argus",
    "clipper-heavy",
    "clipper-light",
    "diffserve",
    "diffserve-static",
    "hadis",
    "joint",
    "lru-round-robin",
    "mlora",
    "nirvana",
    "octoai",
    "pac",
    "proteus",
    "push-round-robin",
    "random-split",
    "sommelier",
)

BASELINE = "random-split"  # in every report: a blind split is hard to beat at equal heavy share (SOURCES.md 3.8)
DEFAULT = "joint"
JUDGES_ALL = "diffserve-static"  # every first image is judged: what the demo switches to on its way
BEGINS_WITH_REUSE = frozenset({"argus", "nirvana", "pac"})  # where the catalog has a profile of reuse
SWITCHES_STRATEGY = frozenset({"argus", "pac"})  # leave reuse where lookups fail; they have `overprovision`
SCALES = "octoai"  # says how many workers there should be: what `chaos --scale` runs
PLACES_COMPONENTS = "mlora"  # says what each worker holds: what `chaos --components` runs
LOOKUP_PER_REQUEST = "nirvana"  # every request looks for a stored image, at any load: what `chaos --reuse` runs


def check_name(name: str) -> None:
    """Raise Unknown for a name of no policy, with the known ones and the nearest."""
    if name not in NAMES:
        raise Unknown("policy", name, NAMES)


def named(name: str) -> Policy:
    """The policy of this name. Raises Unknown with the known ones and the nearest."""
    from planner.policies.table import POLICIES

    if name not in POLICIES:
        raise Unknown("policy", name, POLICIES)
    return POLICIES[name]


def __getattr__(name: str) -> Any:
    if name != "POLICIES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from planner.policies.table import POLICIES

    return POLICIES
