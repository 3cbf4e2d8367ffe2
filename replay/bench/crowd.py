"""Some clients crowd a pipeline: what do the others notice? One deployment on the `profile` engine, measured calm, then
crowded, with the same arrivals of those who are watched.

The plan stands still: every request is painted by `heavy`, 200 ms, one a call.
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from replay.bench.environment import plan, traffic
from replay.bench.environment.figures import percentiles, quantile
from replay.bench.environment.side import Side
from replay.bench.environment.site import Site
from replay.bench.environment.topic_counter import TopicCounter
from replay.traces import poisson
from schemas.messages import GenerateRequest, Status
from schemas.topics import PROMPTS, RESULTS
from streams.codec.avro import decode_result
from streams.kafka.producer import KafkaRecordProducer

CATALOG, LEVEL, RUN_MS = "profile", "heavy", 200.0
START_S = 90.0
STUCK_S = 30.0
LAYOUT = (("ledger",), ("classifier", "router"), ("discriminator",))
WARM = 8


class Due(NamedTuple):
    """One submission."""

    at_ms: float  # since the phase began
    request: GenerateRequest
    topic: str = PROMPTS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How long and how much."""

    seconds: float  # of each phase
    rate: float  # requests a second of those who are watched
    times: int  # as many of the crowd's to each of theirs
    workers: int

    def watched(self, name: str, **who: Any) -> list[Due]:
        """Those who are watched; in every phase they come at the same moments."""
        return stream(name, self.rate, self.seconds, **who)


def stream(name: str, rate: float, seconds: float, seed: int = 1, topic: str = PROMPTS, **who: Any) -> list[Due]:
    """Poisson arrivals of requests that have in common what `who` says: tier, tenant."""
    arrivals = [at_ms for at_ms in poisson(rate, max(1, round(rate * seconds)), seed) if at_ms < 1000 * seconds]
    made = traffic.requests(name, len(arrivals))
    return [Due(at_ms, dataclasses.replace(r, **who), topic) for at_ms, r in zip(arrivals, made, strict=True)]


class Crowd:
    """A running pipeline. Made by `opened`."""

    def __init__(self, site: Site, side: Side) -> None:
        self._site, self.side = site, side

    def submit(self, *streams: Iterable[Due]) -> None:
        """All of them at their times; back when the last is on its way."""
        begun = time.monotonic()
        for due in sorted((due for each in streams for due in each), key=lambda due: due.at_ms):
            time.sleep(max(0.0, begun + due.at_ms / 1000 - time.monotonic()))
            self.side.send(due.request, due.topic)

    def wait(self, watched: Sequence[Due], limit_s: float = STUCK_S) -> None:
        """Until these have ended. One that has not within the limit after the last end is counted as lost."""
        names = {due.request.request_id.encode() for due in watched}
        before, end_s = -1, 0.0
        while (left := self.side.results.lost(names)) and (left != before or time.monotonic() < end_s):
            if left != before:
                before, end_s = left, time.monotonic() + limit_s
            self._site.check()
            time.sleep(0.05)

    def as_table(self, watched: Sequence[Due]) -> dict[str, Any]:
        """How these requests ended; latency of those that were completed, ms from submission to the result read."""
        names = list(dict.fromkeys(due.request.request_id for due in watched))
        ends = {arrival.key.decode(): decode_result(arrival.value) for arrival in list(self.side.results.arrivals)}
        took = self.side.took_ms()
        done = [took[name] for name in names if name in ends and ends[name].status is Status.COMPLETED]
        ended = [ends[name] for name in names if name in ends]
        return {
            "requests": len(names),
            "completed": len(done),
            "refused": sum(each.status is Status.REJECTED for each in ended),
            "lost": len(names) - len(ended),
            "latency_ms": {**percentiles(done), "p95": p95(done)} if done else None,
        }


def p95(values: Sequence[float]) -> float:
    """To three digits after the point."""
    return round(quantile(values, 0.95), 3)


def added_ms(crowded: dict[str, Any], calm: dict[str, Any]) -> float:
    """What the crowd adds to the p95 of those who are watched."""
    return round(float(crowded["latency_ms"]["p95"]) - float(calm["latency_ms"]["p95"]), 3)


@contextlib.contextmanager
def opened(site: Site, name: str, workers: int, **changes: Any) -> Iterator[Crowd]:
    """A deployment of `workers` that has painted its first requests. `changes`: of its settings."""
    settings = site.fresh(name, [LEVEL, "light"], catalog=CATALOG, **changes)
    crew = [f"worker-{number}" for number in range(1, workers + 1)]
    plan.publish(settings, {LEVEL: 1.0}, dict.fromkeys(crew, LEVEL))
    for roles in LAYOUT:
        site.serve(settings, "-".join(roles), roles)
    for worker in crew:
        site.serve(settings, worker, ["worker"], worker__id=worker)
    producer = KafkaRecordProducer(settings)
    try:
        with TopicCounter(settings, RESULTS) as results:
            crowd = Crowd(site, Side(settings, producer, results))
            first = [Due(0, request) for request in traffic.requests("warm", WARM)]
            crowd.submit(first)
            results.wait(WARM, START_S, site.check)
            yield crowd
    finally:
        producer.close()
