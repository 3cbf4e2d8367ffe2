"""Whether several periods agree that a variant's workers are too few or too many.

Source: OctoAI, "Stable Diffusion at scale", automatic scaling: "we can now acquire consistent signal over several time
periods before making an auto-scaling decision". The post says no more. Ours takes the mean number in flight of each
period, and asks two things of a change:

    agreement       each of the last periods says the same
    significance    their mean is above what the workers are for by more than `deviations` standard deviations of such a
                    mean, if requests in flight vary as a Poisson number does and periods that share requests are one

A load just above the workers' target shows only over many periods, an 8-fold burst at once: the test to grow is
repeated over 1, 2, 4 ... times `agreeing` periods. A variant shrinks only if the periods of ten minutes would not have
let it grow again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from planner.scaling.utilisation import LOAD_FACTOR, wanted_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """When periods agree, for periods of about 10 s. Raises ValueError for values that cannot be used."""

    agreeing: int = 3  # periods, to grow
    calm: int = 60  # periods, to shrink by little; the most that are remembered
    idle: int = 18  # periods, to shrink where half of the workers and four at least were idle in each of them
    deviations: float = 3.0  # standard deviations that a mean must differ by
    shared_periods: float = 1.0  # that one request spans: their means are not independent (`shared_periods`)
    concurrency: float = 1.0  # requests that one worker runs at once
    load_factor: float = LOAD_FACTOR

    def __post_init__(self) -> None:
        if not 1 <= self.agreeing <= self.idle <= self.calm:
            raise ValueError(f"need 1 <= agreeing <= idle <= calm: got {self.agreeing}, {self.idle}, {self.calm}")
        if not (self.deviations >= 0 and self.shared_periods >= 1):
            raise ValueError(f"need deviations >= 0, shared_periods >= 1: {self.deviations}, {self.shared_periods}")
        wanted_workers(0.0, self.concurrency, self.load_factor)

    def wanted(self, in_flight: float) -> int:
        """Return the workers that a number in flight asks for."""
        return wanted_workers(in_flight, self.concurrency, self.load_factor)

    def meant_for(self, workers: int) -> float:
        """Return the number in flight that workers are for."""
        return workers * self.concurrency * self.load_factor


def shared_periods(run_ms: float, period_ms: float) -> float:
    """Return how many periods count as one for requests of `run_ms`: the number in flight forgets itself within twice
    that time.
    """
    return max(1.0, 2.0 * run_ms / period_ms)


def grown(in_flight: Sequence[float], current: int, rule: Agreement, deviations: float | None = None) -> int:
    """Return how many workers the periods agree on, more than `current`; `current` where they do not agree on more.

    `in_flight`: mean number of requests in flight of each period, the last one last. `deviations` replaces the rule's.
    With no worker at all one period is enough for the first: what is in flight then cannot end by itself, and is no
    noise. The number agreed on is the least that the periods are sure of, or their mean where `deviations` asked for
    more.
    """
    if current == 0:
        return 1 if in_flight and in_flight[-1] > 0 else 0
    if any(rule.wanted(each) <= current for each in in_flight[-rule.agreeing :]):
        return current
    sure = rule.deviations if deviations is None else deviations
    meant_for, periods = rule.meant_for(current), rule.agreeing
    while periods <= min(len(in_flight), rule.calm):
        mean = sum(in_flight[-periods:]) / periods
        noise = sure * math.sqrt(meant_for / max(1.0, periods / rule.shared_periods))
        if mean - noise > meant_for:
            return max(current + 1, rule.wanted(mean - noise if deviations is None else mean))
        periods *= 2
    return current


def has_idle_half(in_flight: Sequence[float], current: int, rule: Agreement) -> bool:
    """Whether half of the workers, and four at least, were too many in each of the last `idle` periods."""
    last = in_flight[-rule.idle :]
    if len(last) < rule.idle:
        return False
    wanted = rule.wanted(max(last))
    return wanted <= current - 4 and 2 * wanted <= current


def can_do_with_fewer(in_flight: Sequence[float], current: int, rule: Agreement) -> bool:
    """Whether one worker fewer would have been enough in all of the last `calm` periods, and for their mean.

    A third of the deviations that let workers grow is too much for that, so that few shrinks are taken back.

    The last worker can leave only where nothing at all was in flight.
    """
    last = in_flight[-rule.calm :]
    if current == 0 or len(last) < rule.calm:
        return False
    if current == 1:
        return not any(each > 0 for each in last)
    fewer = current - 1
    if rule.wanted(sum(last) / len(last)) > fewer:
        return False
    ends = range(rule.agreeing, len(last) + 1)
    return all(grown(last[:end], fewer, rule, rule.deviations / 3) == fewer for end in ends)
