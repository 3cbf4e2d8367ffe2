"""The parameter that is swept for each policy before it is compared: one each, of equally many values.

A comparison of policies is that of their best settings on traces apart from those that it is told of. Who gets more
settings to choose from wins by that alone, so that all get the same number, ours too.
"""

from typing import Final, NamedTuple

from schemas.errors import Unknown

BUDGET: Final = 8  # values of each policy's parameter


class Sweep(NamedTuple):
    """A parameter and the values to try, rising; the policy's default is among them."""

    parameter: str
    values: tuple[float, ...]


# From a plan below the mean demand to one for bursts of seven times the calm (Twitter's, SOURCES.md 4).
OVERPROVISION: Final = Sweep("overprovision", (0.7, 0.8, 0.9, 1.05, 1.3, 1.8, 3.0, 6.0))
OF_MEAN: Final = Sweep("overprovision", (0.7, 0.8, 0.9, 1.0, 1.3, 1.8, 3.0, 6.0))  # its margins are in the model
OF_PEAK: Final = Sweep("overprovision", (0.5, 0.6, 0.7, 0.8, 0.9, 1.05, 1.2, 1.4))  # no demand is above `peak_rps`
BATCH_TIME: Final = Sweep("objective", (0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0))  # share of the SLO
HEAVY_SHARE: Final = Sweep("heavy_share", (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0))
FLOORS: Final = Sweep("shift", (-0.2, -0.15, -0.1, -0.05, 0.0, 0.05, 0.1, 0.15))  # of similarity

TUNING: Final[dict[str, Sweep]] = {
    "argus": OVERPROVISION,
    "clipper-heavy": BATCH_TIME,
    "clipper-light": BATCH_TIME,
    "diffserve": OVERPROVISION,
    "diffserve-static": OF_PEAK,  # with `peak_rps`, the trace's
    "hadis": OVERPROVISION,
    "joint": OF_MEAN,
    "nirvana": FLOORS,
    "pac": OVERPROVISION,
    "proteus": OVERPROVISION,
    "random-split": HEAVY_SHARE,
    "sommelier": OVERPROVISION,
}


def sweep_of(policy: str) -> Sweep:
    """Return what is swept for a policy. Raises Unknown with the known ones and the nearest."""
    if policy not in TUNING:
        raise Unknown("policy", policy, TUNING)
    return TUNING[policy]
