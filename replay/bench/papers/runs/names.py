"""The policies that questions compare, by the names they have in the table."""

from types import ModuleType

from planner import policies as every
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


def _named(module: ModuleType) -> str:
    return next(name for name, policy in every.POLICIES.items() if policy is module.plan)


ARGUS, PAC, NIRVANA, PROTEUS, SOMMELIER = (_named(m) for m in (argus, pac, nirvana, proteus, sommelier))
LIGHT, HEAVY = _named(clipper_light), _named(clipper_heavy)
DIFFSERVE, STATIC, HADIS = _named(diffserve), _named(diffserve_static), _named(hadis)
MLORA, IN_TURN = _named(mlora), _named(lru_round_robin)
JOINT, RANDOM = _named(joint), _named(random_split)
OCTOAI, PUSHED = _named(octoai), _named(push_round_robin)
