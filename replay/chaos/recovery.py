"""How soon work went on after a fault, and how much was painted again, from what the topics tell."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from replay.audit.paintings import Begun
from replay.audit.tally import Tally
from replay.chaos.doing import Doing, Faults

KILLS = ("kill", "last-worker")  # of a worker, by kill -9
OUTAGES = ("broker", "broker-restart")
ENDS = (*KILLS, *OUTAGES, "restart", "freeze", "broker-freeze")  # a process ends or stops as the fault begins
LEAVES = ("join", "second", "skew")  # and here as it ends too
HARMLESS = ("cancel", "repeat", "replay")  # to how soon others are served
SETTLES_MS = 5000  # after which a fault that is over delays nobody
AGAIN_MOST = 1.5  # jobs painted again for each that ran as a process ended
FIRST_RESULT_S, MOVED_S = 3.0, 3.0  # after the broker's port accepts; after the session of a killed worker


@dataclass(frozen=True, slots=True)
class Wait:
    """One time that work stood still."""

    seconds: float
    beside: tuple[str, ...]  # other faults that came in between, or were hardly over


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What a run's faults cost."""

    moved: list[Wait] = field(default_factory=list)  # from the kill of a worker until its job was begun again
    moved_limit_s: float
    first_result: list[Wait] = field(default_factory=list)  # from the broker's port until a result
    first_result_limit_s: float = FIRST_RESULT_S
    running_at_kills: int  # jobs under way as processes ended or stopped, of all these times together
    written_again: int  # open requests whose records a fault wrote again
    painted_twice_limit: float


def of(
    tally: Tally,
    faults: Faults,
    session_ms: int,
    job_limit_s: float,
    *,
    accepted_ms: Sequence[float] = (),
    written_again: int = 0,
    killers: Collection[str] = (),
) -> Recovery:
    """What `events`, `images` and `results` tell about the faults of a run.

    `session_ms`: until a silent member is dead; `job_limit_s`: until a job's process is ended; `accepted_ms`: when a
    restarted broker's port accepted; `written_again`: open requests whose records a fault wrote again; `killers`:
    requests that end the process which paints them.
    """
    begun = faults.begun
    kills = [doing for doing in begun if doing.fault.kind in KILLS]
    starts = tally.paintings.begun
    gaps = [gap for each in starts.values() for gap in _gaps(sorted(each), kills, session_ms)]
    moments = [*_ends(begun), *(each.at_ms for stage, some in starts.items() if stage[0] in killers for each in some)]
    spans = tally.paintings.spans(round(1000 * job_limit_s))
    running = sum(since_ms <= at_ms < until_ms for at_ms in moments for since_ms, until_ms in spans)
    outages = [doing for doing in begun if doing.fault.kind in OUTAGES]
    return Recovery(
        moved=sorted((_moved(kill, until_ms, begun) for kill, until_ms in gaps), key=_seconds),
        moved_limit_s=session_ms / 1000 + MOVED_S,
        first_result=[_wait(*each, begun, *outages) for each in _firsts(accepted_ms, tally.result_times_ms, outages)],
        running_at_kills=running,
        written_again=written_again,
        painted_twice_limit=AGAIN_MOST * running + written_again,
    )


def _seconds(wait: Wait) -> float:
    return wait.seconds


def _gaps(begun: Sequence[Begun], kills: Sequence[Doing], session_ms: int) -> Iterator[tuple[Doing, float]]:
    """The kill of the worker that had begun, and when the job was begun next."""
    for one, other in pairwise(begun):
        for kill in kills:
            is_hit = kill.fault.target in ("", one.worker_id)
            if is_hit and one.at_ms <= kill.began_ms < other.at_ms and kill.began_ms - one.at_ms < session_ms:
                yield kill, other.at_ms
                break


def _ends(begun: Sequence[Doing]) -> Iterator[float]:
    for doing in begun:
        if doing.fault.kind in (*ENDS, *LEAVES):
            yield doing.began_ms
        if doing.fault.kind in LEAVES and doing.ended_ms is not None:
            yield doing.ended_ms


def _firsts(
    accepted_ms: Sequence[float], times_ms: Sequence[int], outages: Sequence[Doing]
) -> Iterator[tuple[float, float]]:
    """When a port accepted, and the first result after it, unless the broker went away again before."""
    for at_ms in accepted_ms:
        first_ms = min((each for each in times_ms if each >= at_ms), default=None)
        if first_ms is not None and not any(at_ms < doing.began_ms < first_ms for doing in outages):
            yield at_ms, first_ms


def _moved(kill: Doing, until_ms: float, begun: Sequence[Doing]) -> Wait:
    """Where nobody is left who serves the variant, a job waits for more than its session: that is told beside it."""
    causes = [kill] if kill.fault.kind == "kill" else []
    return _wait(kill.began_ms, until_ms, begun, *causes)


def _wait(from_ms: float, until_ms: float, begun: Sequence[Doing], *causes: Doing) -> Wait:
    others = [doing for doing in begun if doing not in causes and doing.fault.kind not in HARMLESS]
    beside = [doing for doing in others if doing.began_ms < until_ms and _over_ms(doing) > from_ms - SETTLES_MS]
    told = tuple(f"{doing.fault.kind} {doing.fault.target}".strip() for doing in beside)
    return Wait(round((until_ms - from_ms) / 1000, 2), told)


def _over_ms(doing: Doing) -> float:
    return float("inf") if doing.ended_ms is None else doing.ended_ms
