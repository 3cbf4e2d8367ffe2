"""Processor time of each role for one request: live, on the engine `profile`, at a steady rate; information only.

What a process takes while nothing is sent is measured in each turn, and taken off.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import psutil

from replay.bench.environment import traffic
from replay.bench.environment.processor_time import processor_s
from replay.bench.environment.side import Side
from replay.bench.environment.site import open_site
from replay.bench.environment.topic_counter import TopicCounter
from replay.bench.overhead import alternate
from schemas.topics import RESULTS
from streams import catalogs
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.settings import load
from tests.behaviour.tree import ROOT, Tree

CATALOG = "profile"
PROCESSES = {
    "classifier": "classifier", "router": "router", "worker-1": "worker", "worker-2": "worker",
    "discriminator": "discriminator", "ledger": "ledger", "planner": "planner",
}  # fmt: skip
RATE_RPS, WARM, REQUESTS, IDLE_S, TURNS, START_S = 10.0, 50, 300, 15.0, 5, 120.0


def record(tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:  # noqa: ARG001
    """Role -> median and range over turns of its processor time for one request, in ms."""
    turns = list[dict[str, float]]()
    with open_site(load({"home": ROOT / ".pochade"})) as site:
        known = load()
        planner = known.planner.model_copy(update={"policy": "diffserve-static", "load_shedding": False})
        settings = site.fresh("processor", sorted(catalogs.load(CATALOG).served), catalog=CATALOG, planner=planner)
        own = {name: {"worker__id": name} if role == "worker" else {} for name, role in PROCESSES.items()}
        pids = {name: site.serve(settings, name, [role], **own[name]).pid for name, role in PROCESSES.items()}
        processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        producer = KafkaRecordProducer(settings)
        with TopicCounter(settings, RESULTS) as results:
            side = Side(settings, producer, results)
            alternate(site, [side], traffic.requests("first", 1), RATE_RPS, START_S)
            alternate(site, [side], traffic.requests("warm", WARM), RATE_RPS)
            for turn in track(list(range(TURNS))):
                idle, idle_s = _taken(processes, lambda: time.sleep(IDLE_S))
                asked = traffic.requests(f"turn-{turn}", REQUESTS)
                busy, busy_s = _taken(processes, lambda asked=asked: alternate(site, [side], asked, RATE_RPS))  # type: ignore[misc]
                turns.append(
                    {name: 1000 * (busy[name] - idle[name] / idle_s * busy_s) / REQUESTS for name in PROCESSES}
                )
        producer.close()
    sums = [{"all": sum(each.values()), **each} for each in turns]
    return {name: _spread([each[name] for each in sums]) for name in sums[0]}


def _taken(processes: Mapping[str, psutil.Process], does: Callable[[], object]) -> tuple[dict[str, float], float]:
    """Processor time of each process while something is done, and how long that takes, both in s."""
    before, begun_s = {name: processor_s([each]) for name, each in processes.items()}, time.monotonic()
    does()
    return {n: processor_s([each]) - before[n] for n, each in processes.items()}, time.monotonic() - begun_s


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "median_ms": round(statistics.median(values), 3),
        "min_ms": round(min(values), 3),
        "max_ms": round(max(values), 3),
    }
