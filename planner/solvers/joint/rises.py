"""What has come faster than workers can be moved: the jumps of the last minutes, as they are remembered.

A jump is reckoned by what it would have cost a plan made just before it: the requests that its workers and their queues
could not have taken until others had loaded. A slow rise, noise and a lone spike that a queue takes in cost nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from planner.observation.forecast import HORIZON_S, outlook

RESERVE = 1.5  # times the demand planned for that a plan carries: fuller batches, and escalations that give way
QUEUED = 0.5  # of the SLO: work that queues take in without harm
RISEN = 1.3  # times a demand that is lower than a jump's peak, noise and all
FEWEST_S = 10  # seconds before, to tell from what is usual
LEAST_RPS = 1.0  # that any plan is made for
REMEMBERED = "rises"  # in a plan's memory


class Rise(NamedTuple):
    """A jump of demand."""

    at_s: int  # epoch s of the last second before it
    calm_rps: float  # expected then
    peak_rps: float  # that came, over an SLO's length
    lost: float  # requests that a plan made for the calm could not have answered in time


def remembered(memory: Mapping[str, Any], keep_s: float, new: Rise | None, now_ms: int) -> tuple[Rise, ...]:
    """The jumps of the last `keep_s`, oldest first. `new`: the worst of the last minute.

    A jump is seen in many plans, at first only in part: it stays one, by its time, and is told by the most of it. What
    lies in the future, after a clock was set back, and what is no jump, of another release, is forgotten.
    """
    now_s = now_ms // 1000
    known = [rise for rise in _read(memory) if 0 <= now_s - rise.at_s <= keep_s]
    if new is None or not 0 <= now_s - new.at_s <= keep_s:
        return tuple(known)
    for place, rise in enumerate(known):
        if abs(rise.at_s - new.at_s) <= FEWEST_S:
            known[place] = _most(rise, new)
            return tuple(known)
    return tuple(sorted([*known, new]))


def jumps_of(rises: Sequence[Rise], now_rps: float, away_s: float, keep_s: float) -> tuple[tuple[float, float], ...]:
    """Demands that may come again at once, each with the share of the time remembered in which it was unprepared for.

    That is until plans and workers have followed it. What is no more than what comes now is none, noise and all.
    """
    unready_s = away_s + HORIZON_S
    return tuple(
        (rise.peak_rps, min(1 / len(rises), unready_s / max(keep_s, unready_s)))
        for rise in rises
        if now_rps * RISEN < rise.peak_rps
    )


def memory_of(rises: Sequence[Rise]) -> dict[str, Any]:
    """What is to be remembered, in JSON's values."""
    return {REMEMBERED: [list(rise) for rise in rises]} if rises else {}


def rise_in(counts: Sequence[int], now_ms: int, away_s: float, slo_s: float) -> Rise | None:
    """The jump that would have cost most; None: none would have cost a request.

    `counts`: arrivals in each second until now, the oldest first. `away_s`: until a worker that is moved serves again.
    """
    ahead_s = max(1, round(away_s + HORIZON_S / 2))  # from the jump to the plan, and to its workers
    at = np.arange(FEWEST_S - 1, len(counts) - 1)  # the last second before it
    if not len(at):
        return None
    expected = np.maximum(outlook(counts, ahead_s)[at], LEAST_RPS)
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


def _most(old: Rise, new: Rise) -> Rise:
    return Rise(old.at_s, min(old.calm_rps, new.calm_rps), max(old.peak_rps, new.peak_rps), max(old.lost, new.lost))


def _coarse(value: float) -> float:
    """To two figures, so that a memory does not change with every plan."""
    return float(f"{value:.2g}")


def _read(memory: Mapping[str, Any]) -> list[Rise]:
    try:
        return [Rise(int(at_s), float(calm), float(peak), float(lost)) for at_s, calm, peak, lost in memory[REMEMBERED]]
    except (KeyError, TypeError, ValueError):
        return []
