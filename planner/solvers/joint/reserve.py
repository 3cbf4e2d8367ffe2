"""Reserve capacity for jumps of demand that come faster than workers can be moved, for as long as it pays.

Being ready is a bet against not being ready: README, Readiness, with its bounds and sources. A jump is reckoned by what
it would have cost a plan made just before it: the requests that its workers and their queues could not have taken until
others had loaded. A slow rise, noise and a lone spike that a queue takes in cost nothing.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from planner.observation.forecast import HORIZON_S, outlook

RESERVE = 1.5  # times the demand planned for that a plan carries: fuller batches, and escalations that give way
QUEUED = 0.5  # of the SLO: work that queues take in without harm
RISEN = 1.3  # times a demand that is lower than a jump's peak, noise and all
MIN_HISTORY_S = 10  # fewest seconds before a jump that show what is usual
MIN_PLANNED_RPS = 1.0  # lowest demand that any plan is made for
MAX_RISES: Final = 16  # that are remembered
MAX_WEIGHT: Final = 99.0  # of being ready, so that it ends soon after the last jump
REMEMBERED = "rises"  # in a plan's memory
STAKED: Final = "stake"  # in a plan's memory


class Bet(NamedTuple):
    """The weight of being ready against 1 of not being ready: pure learning, whatever the losses are of."""

    rate: float  # of learning, > 0
    stake: float  # weight at first, and at least after each jump, > 0

    def after(self, weight: float, gain: float) -> float:
        """Return the weight after a gain of being ready, in scales: at most 1; a loss is at least -1 / rate."""
        return min(MAX_WEIGHT, weight * max(0.0, 1 + self.rate * gain))

    def raised(self, weight: float) -> float:
        """Return the weight after a jump: no less than the stake."""
        return max(self.stake, weight)

    def rescaled(self, weight: float, times: float) -> float:
        """Return the weight as if all gains so far had been measured on a scale `times` as large, >= 1."""
        return self.stake * math.pow(weight / self.stake, 1 / times)


def share_of(weight: float) -> float:
    """Return the share of readiness that a weight stands for."""
    return weight / (1 + weight)


class Rise(NamedTuple):
    """A jump of demand."""

    at_s: int  # epoch s of the last second before it
    calm_rps: float  # expected then
    peak_rps: float  # that came, over an SLO's length
    lost: float  # requests that a plan made for the calm could not have answered in time


class Reserve(NamedTuple):
    """The memory of jumps, and the value so far of being ready for the next."""

    rises: tuple[Rise, ...] = ()  # oldest first
    before: float = 0.0  # weight of being ready before the newest jump
    paid: float = 1.0  # times the weight since then, as readiness costs
    cost: float = 0.0  # of being ready entirely, by the newest plan: units of quality a second
    at_s: int = 0  # epoch s of that plan

    def weight(self, bet: Bet) -> float:
        """Return the weight of being ready now. A jump that is still seen to grow counts by what it has come to."""
        if not self.rises:
            return 0.0
        *earlier, newest = self.rises
        if not earlier:
            return bet.stake * self.paid
        known, peak_rps = max(rise.lost for rise in earlier), max(rise.peak_rps for rise in earlier)
        scale = max(known, newest.lost)
        risen_rps = max(newest.peak_rps - newest.calm_rps, 1e-9)
        foreseen = min(1.0, max(0.0, (peak_rps - newest.calm_rps) / risen_rps))
        weight = bet.after(bet.rescaled(self.before, scale / known), foreseen * newest.lost / scale)
        return bet.raised(weight) * self.paid


def updated(
    memory: Mapping[str, Any], bet: Bet, keep_s: float, new: Rise | None, now_ms: int, late: float
) -> Reserve:  # fmt: skip
    """Return the reserve with what it has cost since the last plan, and with a jump of the last minute.

    `keep_s`: how long jumps are remembered; `late`: cost of a request that is not in time, in units of quality. A jump
    shows in many plans, at first only in part: by its time it counts as one, with its largest size. Jumps in the future
    (after a clock was set back) and malformed ones (of another release) are forgotten.
    """
    now_s = now_ms // 1000
    was = _read(memory, bet)
    rises = [rise for rise in was.rises if 0 <= now_s - rise.at_s <= keep_s][-MAX_RISES:]
    if rises and was.cost > 0:
        scale = late * max(rise.lost for rise in rises)
        loss = was.cost * max(0, now_s - was.at_s) / scale
        was = was._replace(paid=float(f"{was.paid * bet.after(1.0, -loss):.4g}"))
    was = was._replace(rises=tuple(rises), cost=0.0, at_s=0)
    if new is None or not 0 <= now_s - new.at_s <= keep_s:
        return was
    for place, rise in enumerate(rises):
        if abs(rise.at_s - new.at_s) <= MIN_HISTORY_S:
            rises[place] = _merged(rise, new)
            return was._replace(rises=tuple(rises))
    return Reserve((*rises, new)[-MAX_RISES:], float(f"{was.weight(bet):.4g}"))


def jumps_of(
    reserve: Reserve, share: float, now_rps: float, away_s: float, hold_s: float, now_ms: int
) -> tuple[tuple[float, float], ...]:
    """Return demands that may come at once, each with the share of the time in which it would be unprepared for.

    That is until plans and workers have followed it, as often as jumps have come. What is no more than what comes now
    is none, noise and all. `share`: how far to be ready; `hold_s`: how long a plan holds, as if none had come so long.
    """
    if not reserve.rises:
        return ()
    known_s = now_ms // 1000 - reserve.rises[0].at_s + hold_s
    chance = min(1 / len(reserve.rises), (away_s + HORIZON_S) / max(known_s, away_s + HORIZON_S))
    peaks = [now_rps + share * (rise.peak_rps - now_rps) for rise in reserve.rises]
    return tuple((peak_rps, chance) for peak_rps in peaks if now_rps * RISEN < peak_rps)


def memory_of(reserve: Reserve) -> dict[str, Any]:
    """Return what is to be remembered, in JSON's values."""
    if not reserve.rises:
        return {}
    return {
        REMEMBERED: [list(rise) for rise in reserve.rises],
        STAKED: [reserve.before, reserve.paid, reserve.cost, reserve.at_s],
    }


def rise_in(counts: Sequence[int], now_ms: int, away_s: float, slo_s: float) -> Rise | None:
    """The jump that would have cost most; None: none would have cost a request.

    `counts`: arrivals in each second until now, the oldest first. `away_s`: until a worker that is moved serves again.
    """
    ahead_s = max(1, round(away_s + HORIZON_S / 2))  # from the jump to the plan, and to its workers
    at = np.arange(MIN_HISTORY_S - 1, len(counts) - 1)  # the last second before it
    if not len(at):
        return None
    expected = np.maximum(outlook(counts, ahead_s)[at], MIN_PLANNED_RPS)
    total = np.concatenate([[0.0], np.cumsum(counts)])
    until = np.minimum(at + 1 + ahead_s, len(counts))
    lost = total[until] - total[at + 1] - RESERVE * expected * (until - at - 1 + QUEUED * slo_s)
    worst = int(np.argmax(lost))
    if lost[worst] <= 0:
        return None
    after = np.array(counts[at[worst] + 1 : at[worst] + 1 + 2 * ahead_s], float)
    width = max(1, min(round(slo_s), ahead_s, len(after)))
    peak_rps = float(np.convolve(after, np.ones(width) / width, "valid").max())
    at_s = now_ms // 1000 - (len(counts) - 1 - int(at[worst]))
    return Rise(at_s, round(float(expected[worst]), 1), round(peak_rps, 1), _coarse(float(lost[worst])))


def _merged(old: Rise, new: Rise) -> Rise:
    """Return one jump that was seen in two plans, by the most of it."""
    return Rise(old.at_s, min(old.calm_rps, new.calm_rps), max(old.peak_rps, new.peak_rps), max(old.lost, new.lost))


def _coarse(value: float) -> float:
    """To two figures, so that a memory does not change with every plan."""
    return float(f"{value:.2g}")


def _read(memory: Mapping[str, Any], bet: Bet) -> Reserve:
    try:
        rises = tuple(Rise(int(at_s), float(c), float(peak), float(lost)) for at_s, c, peak, lost in memory[REMEMBERED])
        before, paid, cost, at_s = memory.get(STAKED, (bet.stake, 1.0, 0.0, 0))  # an earlier release has noted no stake
        return Reserve(rises, float(before), float(paid), float(cost), int(at_s))
    except (KeyError, TypeError, ValueError):
        return Reserve()
