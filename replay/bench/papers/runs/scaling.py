"""A question's fleet that grows and shrinks: its configuration and its figures."""

import itertools
from typing import Final, NamedTuple

from planner.scaling.fleet import ScaleRules
from replay.simulation.run import Ran
from replay.simulation.setup import FIXED

TEN_MINUTES_MS: Final = 600_000.0


class Scaling(NamedTuple):
    """Limits of a fleet that grows and shrinks, where its policy scales."""

    max_workers: int = 64
    warm: int = 0  # started workers that are held ready
    period_s: float = 10.0  # between decisions
    start_s: float = 60.0  # until a worker that is started anew is in the pool

    def rules(self) -> ScaleRules:
        """Return the settings of the simulated planner and supervisor."""
        return ScaleRules(
            max_workers=self.max_workers,
            warm=self.warm,
            period_ms=1000 * self.period_s,
            start_ms=1000 * self.start_s,
        )


class Scaled(NamedTuple):
    """Numbers of workers of one run."""

    workers: float = 0.0  # mean over the run, those that start included
    targets: tuple[int, ...] = ()  # workers that should serve, each time another number; (): the fleet stayed as it was
    changes: float = 0.0  # of the target, in ten minutes

    @property
    def growth(self) -> float:
        """Factor by which the target grew in one decision at most; from zero it counts as from one."""
        return max((after / max(1, before) for before, after in itertools.pairwise(self.targets)), default=1.0)


def rules_of(scaling: Scaling | None) -> ScaleRules:
    """Return the rules of a fleet; None if it does not scale."""
    return FIXED if scaling is None else scaling.rules()


def scaled_of(ran: Ran) -> Scaled:
    """Return what a run says of its fleet's size."""
    totals = [sum(plan.scale.targets.values()) for plan in ran.plans if plan.scale is not None]
    targets = tuple(total for total, _ in itertools.groupby(totals))
    changes = max(0, len(targets) - 1) * TEN_MINUTES_MS / ran.ended_ms if ran.ended_ms else 0.0
    return Scaled(ran.up_ms / ran.ended_ms if ran.ended_ms else 0.0, targets, changes)
