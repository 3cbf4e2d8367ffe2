"""Measures how soon work went on after each fault, and how much was generated again, from the topics."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter

from replay.verify.audit.generations import Begun
from replay.verify.audit.topic_figures import TopicFigures
from replay.verify.chaos.doing import Doing, Faults
from replay.verify.chaos.pace import Answered, back_after_ms

KILLS = ("kill", "last-worker", "all-roles-kill")  # of a worker, by kill -9
OUTAGES = ("broker", "broker-restart")
OF_SEVERAL = (*OUTAGES, "broker-freeze", "broker-lost", "controller", "leaders", "rolling")  # others go on meanwhile
DEATHS = ("broker", "broker-lost", "controller")  # of one broker of several
# kill -9 of whichever worker comes to a point
AIMED = ("fetch-kill", "load-kill", "fuse-kill", "starting-kill", "draining-kill", "serving-kill")
ENDS = (*KILLS, *OF_SEVERAL, "restart", "freeze")  # a process ends or stops as the fault begins
LEAVES = ("join", "second", "skew", "volume-full")  # and here as it ends too
HARMLESS = (
    "cancel",
    "repeat",
    "replay",
    "vectors-kill",
    "vectors-freeze",
    "vectors-empty",
    "vectors-lie",
    "indexer-kill",
    "indexer-freeze",
    "volume-altered",
    "volume-cut",
)  # to how soon others are served: a lookup is cut at its deadline
SETTLES_MS = 8000  # after which a fault that is over delays no request: a killed classifier serves again
MAX_REPEATS = 1.5  # jobs generated again for each that ran as a process ended
FIRST_RESULT_S, MOVED_S = 3.0, 3.0  # after the broker's port accepts; after the session of a killed worker
STILL_S, P99_BACK_S = 10.0, 10.0  # without any result, and until p99 is what it was, with one broker of several


@dataclass(frozen=True, slots=True)
class Wait:
    """One time span in which work stood still."""

    fault: int  # number of the one that caused it
    seconds: float
    beside: tuple[str, ...]  # other faults that came in between, or were hardly over


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The costs of a run's faults: waits, and jobs that may be generated twice."""

    moved: list[Wait] = field(default_factory=list)  # from the kill of a worker until its job was begun again
    moved_limit_s: float
    first_result: list[Wait] = field(default_factory=list)  # from the broker's port until a result
    first_result_limit_s: float = FIRST_RESULT_S
    still: list[Wait] = field(default_factory=list)  # of several brokers: the longest time without a result at a fault
    still_limit_s: float = STILL_S
    p99_back: list[Wait] = field(default_factory=list)  # of several: from a broker's death until p99 is as before
    p99_back_limit_s: float = P99_BACK_S
    running_at_kills: int  # jobs under way as processes ended or stopped, of all these times together
    become_new_record: int  # open requests whose records a fault wrote again
    painted_twice_limit: float


def of(
    tally: TopicFigures,
    faults: Faults,
    session_ms: int,
    job_timeout_s: float,
    *,
    accepted_ms: Sequence[float] = (),
    become_new_record: int = 0,
    killers: Collection[str] = (),
    ordinary: Collection[str] = (),
    brokers: int = 1,
) -> Recovery:
    """Compute the costs of a run's faults from `events`, `images` and `results`.

    `session_ms`: until a silent member is dead; `job_timeout_s`: until a job's process is ended; `accepted_ms`: when a
    restarted broker's port accepted; `become_new_record`: open requests whose records a fault wrote again; `killers`:
    requests that end the process which generates them; `ordinary`: requests that ask for nothing special; `brokers`: of
    the run.
    """
    begun = faults.begun
    kills = [doing for doing in begun if doing.fault.kind in KILLS]
    starts = tally.generations.begun
    gaps = [gap for each in starts.values() for gap in _gaps(sorted(each), kills, session_ms)]
    moments = [*_ends(begun), *(each.at_ms for stage, some in starts.items() if stage[0] in killers for each in some)]
    spans = tally.generations.spans(round(1000 * job_timeout_s))
    running = sum(since_ms <= at_ms < until_ms for at_ms in moments for since_ms, until_ms in spans)
    several = begun if brokers > 1 else []
    running += sum(
        since_ms < over_ms and began_ms <= until_ms
        for began_ms, over_ms in _of_several(several)
        for since_ms, until_ms in spans
    )
    moved = list(_of_strangers(begun, session_ms))
    running += sum(any(since_ms < over and began <= until_ms for began, over in moved) for since_ms, until_ms in spans)
    outages = [doing for doing in begun if doing.fault.kind in OUTAGES and not doing.met_nothing]
    answered = sorted(Answered(at, until - at) for name, (at, until) in tally.answered_ms.items() if name in ordinary)
    return Recovery(
        still=list(_still(several, tally.result_times_ms)),
        p99_back=list(_p99_back(several, answered)),
        moved=sorted((_moved(kill, until_ms, begun) for kill, until_ms in gaps), key=attrgetter("seconds")),
        moved_limit_s=session_ms / 1000 + MOVED_S,
        first_result=[
            Wait(outage.fault.number, _seconds(at_ms, first_ms), _beside(begun, outage.began_ms, first_ms, outage))
            for outage, at_ms, first_ms in _firsts(accepted_ms, tally.result_times_ms, outages)
        ],
        running_at_kills=running,
        become_new_record=become_new_record,
        painted_twice_limit=MAX_REPEATS * running + become_new_record,
    )


def too_slow(recovery: Recovery) -> list[str]:
    """Return the waits longer than their limit, but for those beside another fault, whose cause is unclear."""
    judged = (
        ("a killed worker's job began elsewhere", recovery.moved, recovery.moved_limit_s),
        ("the first result came after the broker's port", recovery.first_result, recovery.first_result_limit_s),
        ("no result came beside a broker's fault for", recovery.still, recovery.still_limit_s),
        ("p99 was back after a broker's death in", recovery.p99_back, recovery.p99_back_limit_s),
    )
    return [
        f"{what} {wait.seconds:.1f} s (limit {limit_s:g} s, fault {wait.fault})"
        for what, waits, limit_s in judged
        for wait in waits
        if wait.seconds > limit_s and not wait.beside
    ]


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
        if doing.fault.kind in (*LEAVES, *AIMED) and doing.ended_ms is not None:
            yield doing.ended_ms


def _firsts(
    accepted_ms: Sequence[float], times_ms: Sequence[int], outages: Sequence[Doing]
) -> Iterator[tuple[Doing, float, float]]:
    """Yield each outage, when the port accepted, and the first result then, unless the broker went away again before.

    Where one fault met the broker as it came back from another, both show when its port accepted: that is one outage.
    """
    reported = set[int]()
    for at_ms in sorted(accepted_ms):
        outage = max((each for each in outages if each.began_ms <= at_ms), key=attrgetter("began_ms"))
        first_ms = min((each for each in times_ms if each >= at_ms), default=None)
        if first_ms is None or any(at_ms < doing.began_ms < first_ms for doing in outages):
            continue
        if outage.fault.number not in reported:
            reported.add(outage.fault.number)
            yield outage, at_ms, first_ms


def _of_several(begun: Sequence[Doing]) -> Iterator[tuple[float, float]]:
    """The times in which a worker may lose its partitions though it lives, as its group's broker is another."""
    for doing in begun:
        if doing.fault.kind in OF_SEVERAL and not doing.met_nothing:
            yield doing.began_ms, _over_ms(doing) + SETTLES_MS


def _of_strangers(begun: Sequence[Doing], session_ms: int) -> Iterator[tuple[float, float]]:
    """The times in which a worker may lose partitions to a stranger in its group, or another gets them back."""
    for doing in begun:
        if doing.fault.kind == "stranger":
            for at_ms in (doing.began_ms, doing.ended_ms):
                if at_ms is not None:
                    yield at_ms, at_ms + session_ms


def _still(begun: Sequence[Doing], times_ms: Sequence[int]) -> Iterator[Wait]:
    """Yield the longest time without a result from a broker's fault until SETTLES_MS after its end."""
    times = sorted(times_ms)
    for doing in begun:
        if doing.fault.kind in OF_SEVERAL and not doing.met_nothing and times:
            until_ms = min(_over_ms(doing) + SETTLES_MS, times[-1])
            inside = [at_ms for at_ms in times if doing.began_ms <= at_ms <= until_ms]
            after = [at_ms for at_ms in times if at_ms > until_ms][:1]  # where none came inside, or long none
            gaps = [other - one for one, other in pairwise([doing.began_ms, *inside, *after])]
            beside = _beside(begun, doing.began_ms, until_ms, doing)
            yield Wait(doing.fault.number, round(max(gaps, default=0) / 1000, 2), beside)


def _p99_back(begun: Sequence[Doing], answered: Sequence[Answered]) -> Iterator[Wait]:
    for doing in begun:
        if doing.fault.kind in DEATHS and not doing.met_nothing and answered:
            back_ms = back_after_ms(answered, doing.began_ms, answered[-1].asked_ms)
            if back_ms is not None:
                beside = _beside(begun, doing.began_ms, doing.began_ms + back_ms, doing)
                yield Wait(doing.fault.number, _seconds(0, back_ms), beside)


def _moved(kill: Doing, until_ms: float, begun: Sequence[Doing]) -> Wait:
    """Return the wait of a killed worker's jobs; where no worker of the variant is left, that is noted beside it."""
    causes = [kill] if kill.fault.kind == "kill" else []
    beside = _beside(begun, kill.began_ms, until_ms, *causes)
    return Wait(kill.fault.number, _seconds(kill.began_ms, until_ms), beside)


def _beside(begun: Sequence[Doing], from_ms: float, until_ms: float, *causes: Doing) -> tuple[str, ...]:
    """Return the other faults of this time span, or that were hardly over as it began.

    What dies while the broker is away is a member of its group until a whole session after the broker is back: the
    time of an outage is that from its beginning.
    """
    others = [doing for doing in begun if doing not in causes and doing.fault.kind not in HARMLESS]
    met = [doing for doing in others if not doing.met_nothing]
    beside = [doing for doing in met if doing.began_ms < until_ms and _over_ms(doing) > from_ms - SETTLES_MS]
    return tuple(f"{doing.fault.kind} {doing.fault.target}".strip() for doing in beside)


def _seconds(from_ms: float, until_ms: float) -> float:
    return round((until_ms - from_ms) / 1000, 2)


def _over_ms(doing: Doing) -> float:
    return float("inf") if doing.ended_ms is None else doing.ended_ms
