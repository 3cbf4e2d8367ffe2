"""The plan flaps: an operator pins one policy after the other."""

from collections.abc import Iterator

from planner.policies import POLICIES
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import Steps, World
from schemas.errors import PochadeError
from streams.control.topic import order

EVERY_S = 0.7
TRIES = 20  # to unpin, as the broker may be away


def flap(world: World, fault: Fault) -> Steps:
    """A pin every EVERY_S, and none in the end."""
    dice, pinned = fault.draw(), []
    for _ in range(max(1, round(fault.lasts_ms / 1000 / EVERY_S))):
        pinned.append(dice.choice(sorted(POLICIES)))
        yield from _pin(world, pinned[-1], 1)
        yield EVERY_S
    yield from _pin(world, "", TRIES)
    return f"pinned {', '.join(pinned)}, then unpinned"


def _pin(world: World, policy: str, tries: int) -> Iterator[float]:
    for _ in range(tries):
        try:
            yield from world.beside(lambda: order(world.settings, policy))
            return
        except PochadeError:
            yield EVERY_S
