"""How soon work went on after a fault, from what the topics tell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from replay.audit.paintings import Begun
from replay.audit.tally import Tally
from replay.chaos.doing import Doing, Faults

KILLS = ("kill", "last-worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Seconds."""

    jobs_moved: int  # begun by a worker that was killed, and begun again
    moved_s: list[float] = field(default_factory=list)  # from the kill until the job was begun again
    first_result_s: list[float] = field(default_factory=list)  # from the broker's answer to the first result after it


def of(tally: Tally, faults: Faults, session_ms: int) -> Recovery:
    """What `events` and `results` tell about the faults of a run; `session_ms`: until a silent member is dead."""
    kills = [doing for doing in faults.begun if doing.fault.kind in KILLS]
    moved = [gap for stage, begun in tally.paintings.begun.items() for gap in _gaps(sorted(begun), kills, session_ms)]
    answered = [doing.ended_ms for doing in faults.begun if doing.fault.kind == "broker" and doing.ended_ms is not None]
    return Recovery(
        jobs_moved=len(moved),
        moved_s=[round(each, 2) for each in sorted(moved)],
        first_result_s=[round(gap, 2) for at in answered for gap in _first_after(at, tally.result_times_ms)],
    )


def _gaps(begun: Sequence[Begun], kills: Sequence[Doing], session_ms: int) -> Iterator[float]:
    """From the kill of the worker that had begun to when the job was begun next."""
    for one, other in pairwise(begun):
        for kill in kills:
            is_hit = kill.fault.target in ("", one.worker_id) and one.worker_id != other.worker_id
            if is_hit and one.at_ms <= kill.began_ms < other.at_ms and kill.began_ms - one.at_ms < session_ms:
                yield (other.at_ms - kill.began_ms) / 1000
                break


def _first_after(at_ms: float, times_ms: Sequence[int]) -> list[float]:
    later = [each for each in times_ms if each >= at_ms]
    return [(min(later) - at_ms) / 1000] if later else []
