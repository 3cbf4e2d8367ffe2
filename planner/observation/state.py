"""The state of a deployment in one sentence with what to do, as the console shows it first, and commands may.

Neither reads a clock or a topic: the caller hands over plan, heartbeats, waiting requests and recent ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from planner.observation.workers import ReceivedHeartbeat, standing_of
from planner.serving.routing.unserved import Variants, unserved
from schemas.messages import Heartbeat, Plan

SLOW: Final = 1.5  # times the profiled time, from which on a worker is called slow
LONG_WAIT_MS: Final = 60_000  # of the oldest waiting request, from which on more workers are asked for
OVERDUE: Final = 0.5  # of the time after which a worker is silent: from here on its heartbeat is overdue
MANY: Final = 0.1  # share of the recent ends, from which on failures, or late ones, come first
ENOUGH: Final = 3  # failures, or late ends, that are no single bad request
START_WORKER: Final = "pochade serve worker"


class Waiting(NamedTuple):
    """A request that no worker has begun."""

    needs: Variants  # one of which must serve it; (): any level will
    since_ms: float  # epoch ms
    is_batch: bool = False  # it is served when there is room, however long that takes


class Problem(NamedTuple):
    """A fault of the deployment, and what to do about it."""

    what: str
    do: str
    command: str = ""  # that does it; "": none
    is_bad: bool = True  # requests wait, fail or come late; else the deployment serves, and should be looked at

    def __str__(self) -> str:
        """Return both as one sentence, as in "No worker serves; start one: `pochade serve worker`."."""
        return f"{self.what}; {self.do}" + (f": `{self.command}`." if self.command else ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The facts that its state follows from."""

    now_ms: int
    silent_ms: int  # a worker without a heartbeat for longer is silent
    plan: Plan | None  # in force
    heartbeats: Mapping[str, ReceivedHeartbeat]  # the last of each worker
    waiting: Sequence[Waiting] = ()
    open: int = 0  # requests without a result
    failed: int = 0  # of the recent ends
    ended: int = 0  # recently, whose ends say something of the service
    late: int = 0  # of `timed`, those that came later, or without an image
    timed: int = 0  # recent ends that had a deadline or a latency target
    demand_rps: float | None = None  # requests that come now; None: not known

    def with_standing(self, standing: str) -> dict[str, Heartbeat]:
        """Return the workers of one standing, by id."""
        return {
            worker_id: beat.heartbeat
            for worker_id, beat in sorted(self.heartbeats.items())
            if standing_of(beat, self.now_ms, self.silent_ms) == standing
        }


def state_of(seen: Deployment) -> tuple[Problem, ...]:
    """Return the problems of a deployment, the first to be mended first; () if it serves and nothing is to be done."""
    if seen.plan is None:
        return (Problem(f"No plan is in force{_open(seen)}", "start a planner", "pochade serve planner"),)
    if not seen.with_standing("ready"):
        problem = _unready(seen, seen.plan)
        return () if problem is None else (problem, *_failed(seen), *_doubled(seen))
    bad = (*overdue(seen), *_unserved(seen, seen.plan), *_failing(seen), *_behind(seen))
    return (*bad, *troubles(seen), *_stopped(seen, seen.plan), *_slow(seen))


def troubles(seen: Deployment) -> tuple[Problem, ...]:
    """Return the workers that have failed, have fallen silent or share an id, as `doctor` and *Now* say it."""
    return (*_failed(seen), *_silent(seen), *_doubled(seen))


def in_words(problems: Sequence[Problem]) -> str:
    """Return the sentence that comes first."""
    if not problems:
        return "Serving; nothing to do."
    return str(problems[0]) if problems[0].is_bad else f"Serving, but {problems[0]}"


def lasting(ms: float) -> str:
    """Say how long something has lasted, in one unit, as in "3 min"."""
    s = max(0.0, ms) / 1000
    if s < 90:
        return f"{s:.0f} s"
    return f"{s / 60:.0f} min" if s < 5400 else f"{s / 3600:.0f} h"


def _unready(seen: Deployment, plan: Plan) -> Problem | None:
    """Return why no worker is ready; None if the plan wants none and no request is open."""
    started, silent = seen.with_standing("started"), seen.with_standing("silent")
    if started:
        return Problem(
            f"No worker is ready yet, {len(started)} started{_open(seen)}", "wait until one has loaded its model"
        )
    if not seen.open and plan.scale is not None and not any(plan.scale.targets.values()):
        return None
    if silent:
        newest_ms = max(seen.heartbeats[each].seen_ms for each in silent)
        since = f"{_named(silent)} sent no heartbeat for {lasting(seen.now_ms - newest_ms)}"
        return Problem(f"No worker serves: {since}{_open(seen)}", "if the broker answers, start one", START_WORKER)
    return Problem(f"No worker serves{_open(seen)}", "start one", START_WORKER)


def overdue(seen: Deployment) -> Iterator[Problem]:
    """Yield how long all ready workers have sent nothing, if each one's heartbeat is overdue: they may be dead."""
    ready = seen.with_standing("ready")
    newest_ms = max((seen.heartbeats[each].seen_ms for each in ready), default=seen.now_ms)
    if seen.now_ms - newest_ms > OVERDUE * seen.silent_ms:
        since = lasting(seen.now_ms - newest_ms)
        what = f"No worker may be serving: {_named(ready)} sent no heartbeat for {since}{_open(seen)}"
        yield Problem(what, "see whether the broker answers, then the workers' logs")


def _unserved(seen: Deployment, plan: Plan) -> Iterator[Problem]:
    """Yield the levels that requests wait for and no worker serves."""
    ready = {beat.variant for beat in seen.with_standing("ready").values()}
    for each in unserved(((waiting.needs, waiting.since_ms) for waiting in seen.waiting), ready):
        wait = f"{_requests(each.requests)} for it, oldest {lasting(seen.now_ms - each.oldest_ms)}"
        what = f"No worker serves {' or '.join(each.variants)}; {wait}"
        live = {**seen.with_standing("ready"), **seen.with_standing("started")}
        coming = [worker_id for worker_id in live if plan.allocation.get(worker_id) in each.variants]
        if coming:
            yield Problem(what, f"wait until {_named(coming)} has loaded it")
        else:
            yield Problem(what, "start one", START_WORKER)


def _failing(seen: Deployment) -> Iterator[Problem]:
    if seen.failed >= ENOUGH and seen.failed >= MANY * seen.ended:
        what = f"Serving, but {seen.failed} of the last {seen.ended} requests failed"
        yield Problem(what, "read why under Requests, status FAILED")
    elif seen.late >= ENOUGH and seen.late >= MANY * seen.timed:
        late = f"{seen.late} of the last {seen.timed} requests came too late"
        if seen.demand_rps == 0 and not seen.open:
            yield Problem(f"{late}, and none waits now", "read why under Requests", is_bad=False)
        else:
            yield Problem(f"Serving, but {late}", "start more workers if the load stays", START_WORKER)


def _behind(seen: Deployment) -> Iterator[Problem]:
    """Yield the wait for levels that are served, if it is long."""
    ready = {beat.variant for beat in seen.with_standing("ready").values()}
    waits = [each for each in seen.waiting if not each.is_batch and (not each.needs or ready & {*each.needs})]
    oldest_ms = min((each.since_ms for each in waits), default=seen.now_ms)
    if seen.now_ms - oldest_ms > LONG_WAIT_MS:
        what = f"Serving, but {_requests(len(waits))}, oldest {lasting(seen.now_ms - oldest_ms)}"
        yield Problem(what, "start more workers", START_WORKER)


def _failed(seen: Deployment) -> Iterator[Problem]:
    for worker_id, beat in seen.with_standing("failed").items():
        why = f": {beat.detail:.120}" if beat.detail else ""
        yield Problem(f"{worker_id:.80} reports {beat.state}{why}", "read its log", is_bad=False)


def _silent(seen: Deployment) -> Iterator[Problem]:
    for worker_id in seen.with_standing("silent"):
        since = lasting(seen.now_ms - seen.heartbeats[worker_id].seen_ms)
        yield Problem(
            f"{worker_id:.80} has sent no heartbeat for {since}", "read its log, or start another", is_bad=False
        )


def _doubled(seen: Deployment) -> Iterator[Problem]:
    for worker_id, beat in sorted(seen.heartbeats.items()):
        if beat.is_doubled(seen.now_ms, seen.silent_ms):
            what = f"two processes send heartbeats as {worker_id:.80}"
            yield Problem(what, "stop one, and give each a worker.id of its own", is_bad=False)


def _stopped(seen: Deployment, plan: Plan) -> Iterator[Problem]:
    """Yield the workers that have stopped while the plan in force still counts on them."""
    for worker_id in seen.with_standing("gone").keys() & plan.allocation.keys():
        what = f"{worker_id:.80} has stopped, which the plan gives {plan.allocation[worker_id]}"
        yield Problem(what, "wait for the next plan, or start another", START_WORKER, is_bad=False)


def _slow(seen: Deployment) -> Iterator[Problem]:
    for worker_id, beat in seen.with_standing("ready").items():
        if slow := slow_in_words(worker_id, beat):
            yield Problem(slow, "see what else uses its device", is_bad=False)


def slow_in_words(worker_id: str, beat: Heartbeat) -> str:
    """Say how slow a worker is, as in "heavy on worker-2 takes 2.5 times its profiled time"; "" below SLOW."""
    if beat.slowness < SLOW:
        return ""
    return f"{beat.variant or 'a job'} on {worker_id:.80} takes {beat.slowness:.1f} times its profiled time"


def _open(seen: Deployment) -> str:
    """Say how many requests are open and how long the oldest waits; "" if none is."""
    if not seen.open:
        return ""
    oldest_ms = min((each.since_ms for each in seen.waiting), default=None)
    oldest = "" if oldest_ms is None else f", oldest {lasting(seen.now_ms - oldest_ms)}"
    return f"; {_requests(seen.open)}{oldest}"


def _requests(number: int) -> str:
    return "1 request waits" if number == 1 else f"{number} requests wait"


def _named(workers: Mapping[str, object] | Sequence[str]) -> str:
    """Name one worker; count several."""
    return f"{next(iter(workers)):.80}" if len(workers) == 1 else f"{len(workers)} workers"
