"""What each name of `planner.policies.NAMES` stands for: loads every policy, and with them the solvers."""

from planner.control.proposal import Policy
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
