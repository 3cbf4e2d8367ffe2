"""What does a gateway cost? The same request by HTTP and by Kafka, and memory for clients that wait.

One gateway on a pipeline of the `profile` engine (light, 20 ms an image). First `connections` requests are open at once
while no role but the ledger runs: `waiting_mb` is what the gateway's process holds above its start, `answered_mb` what
it holds above it once all are answered, with their images as base64. Then requests by HTTP (`response_format` url) and
by Kafka take turns, evenly spaced.

added = quantile by HTTP, from the request sent to its answer read, less the same quantile by Kafka, from the request
        sent to its committed result read; with percentile bootstrap intervals of 95 %
own   = of one request by HTTP: until its record was written, and from a Kafka reader's sight of its result to its
        answer. The written moment is known in whole ms and rounded up: up to 1 ms too much
cpu   = CPU time of the gateway's process during the turns / requests by HTTP; it follows the others' topics meanwhile
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import httpx
import numpy as np
import psutil

from replay.bench.environment import plan, traffic
from replay.bench.environment.figures import met, percentiles, quantile
from replay.bench.environment.side import Side
from replay.bench.environment.site import Site
from replay.bench.environment.topic_counter import TopicCounter
from replay.bench.gateway.serving import START_S, STUCK_S, address_of, client_of
from schemas.messages import GenerateRequest
from schemas.topics import PROMPTS, RESULTS
from streams.kafka.producers.producer import KafkaRecordProducer

CATALOG, LEVEL, WORKER = "profile", "light", "worker-1"
LAYOUT: Final = (("classifier", "router"), ("discriminator",), ("worker",))
IMAGES: Final = "/v1/images/generations"
LIMITS: Final = {
    "added_p50_ms": ("<=", 5.0), "added_p99_ms": ("<=", 25.0), "waiting_mb": ("<=", 150.0), "lost": ("<=", 0.0),
}  # fmt: skip
WARM: Final = 20
CLIENTS: Final = 16  # connections of the turns
IDLE_S: Final = 5.0  # in which the gateway's CPU time without requests is measured
SHARES: Final = {"p50": 0.5, "p99": 0.99}
RESAMPLES, SEED, CONFIDENCE = 2000, 1, 0.95
MB: Final = 1e6


class Answer(NamedTuple):
    """A request by HTTP, as its client saw it."""

    request_id: str
    sent_ns: int  # epoch
    answered_ns: int


class Waiting(NamedTuple):
    """Resident memory of a gateway's process, in bytes, and answers that were no images."""

    start: int
    waiting: int
    answered: int
    lost: int


def run(site: Site, *, count: int, rate: float, connections: int) -> dict[str, Any]:
    """`count` requests by each way at `rate` a second, after `connections` that wait at once."""
    settings = site.fresh("gateway", [LEVEL, "heavy"], catalog=CATALOG)
    plan.publish(settings, {LEVEL: 1.0}, {WORKER: LEVEL})
    site.serve(settings, "ledger", ["ledger"])
    gateway = psutil.Process(site.serve(settings, "gateway", ["gateway"], gateway__port="0").pid)
    address, producer = address_of(site, settings), KafkaRecordProducer(settings)

    def start() -> None:
        for roles in LAYOUT:
            site.serve(settings, "-".join(roles), roles, worker__id=WORKER)

    try:
        with (
            TopicCounter(settings, RESULTS) as results,
            TopicCounter(settings, PROMPTS) as prompts,
            client_of(address, CLIENTS) as http,
        ):
            memory = asyncio.run(_waiting(address, gateway, prompts, connections, start))
            side = Side(settings, producer, results)
            _turns(site, http, side, traffic.requests("warm", WARM), rate)
            idle_ms = _idle_ms_per_s(gateway)
            before, timed = _cpu_ms(gateway), traffic.requests("timed", count)
            answers = _turns(site, http, side, timed, rate)
            cpu_ms = (_cpu_ms(gateway) - before) / count
            written_ms = {arrival.key.decode(): arrival.sent_ms for arrival in prompts.arrivals}
            seen_ns = {arrival.key.decode(): arrival.seen_ns for arrival in results.arrivals}
            took = side.took_ms()
    finally:
        producer.close()
    by_kafka = [took[request.request_id] for request in timed if request.request_id in took]
    by_http = [(answer.answered_ns - answer.sent_ns) / 1e6 for answer in answers]
    own = [
        (answer.answered_ns - seen_ns[answer.request_id] - answer.sent_ns) / 1e6 + written_ms[answer.request_id] + 1
        for answer in answers
    ]
    lost = 2 * count - len(by_kafka) - len(by_http) + memory.lost
    measured = {**added(by_http, by_kafka), "waiting_mb": _above(memory.start, memory.waiting), "lost": float(lost)}
    return {
        **measured,
        "added_interval_ms": intervals(by_http, by_kafka),
        "own_ms": percentiles(own),
        "by_http_ms": percentiles(by_http),
        "by_kafka_ms": percentiles(by_kafka),
        "cpu_ms_per_request": round(cpu_ms, 2),
        "cpu_idle_ms_per_s": round(idle_ms, 2),
        "start_mb": round(memory.start / MB, 1),
        "answered_mb": _above(memory.start, memory.answered),
        "targets": met(measured, LIMITS),
    }


async def _waiting(
    address: str, gateway: psutil.Process, prompts: TopicCounter, connections: int, start: Callable[[], None]
) -> Waiting:
    """Open `connections` requests, and start the roles that end them once all are on `prompts`."""
    before, limits = gateway.memory_info().rss, httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=START_S + STUCK_S, limits=limits, trust_env=False) as http:
        asked = [
            asyncio.create_task(http.post(IMAGES, json={"prompt": f"a red heart, {n}"})) for n in range(connections)
        ]
        async with asyncio.timeout(START_S):
            while prompts.count() < connections:
                await asyncio.sleep(0.1)
        waiting = gateway.memory_info().rss
        start()
        answers = await asyncio.gather(*asked)
    images = sum(answer.is_success and bool(answer.json()["data"][0]["b64_json"]) for answer in answers)
    return Waiting(before, waiting, gateway.memory_info().rss, connections - images)


def _turns(
    site: Site, http: httpx.Client, side: Side, requests: Sequence[GenerateRequest], rate: float
) -> list[Answer]:
    """Send each request by HTTP and by Kafka, evenly spaced, and wait for the ends of all."""

    def post(request: GenerateRequest) -> Answer:
        body = {"prompt": request.prompt, "seed": request.seed, "response_format": "url"}
        sent_ns = time.time_ns()
        answer = http.post(IMAGES, json=body).raise_for_status()
        answered_ns = time.time_ns()
        return Answer(answer.json()["pochade"]["request_id"], sent_ns, answered_ns)

    begun, gap_s, asked = time.monotonic(), 1 / (2 * rate), []
    with ThreadPoolExecutor(CLIENTS) as pool:
        for n, request in enumerate(requests):
            time.sleep(max(0.0, begun + 2 * n * gap_s - time.monotonic()))
            asked.append(pool.submit(post, request))
            time.sleep(max(0.0, begun + (2 * n + 1) * gap_s - time.monotonic()))
            side.send(request)
        answers = [each.result() for each in asked]
    end_s, mine = time.monotonic() + STUCK_S, {request.request_id.encode() for request in requests}
    mine |= {answer.request_id.encode() for answer in answers}
    while side.results.lost(mine) and time.monotonic() < end_s:
        site.check()
        time.sleep(0.05)
    return answers


def _cpu_ms(gateway: psutil.Process) -> float:
    times = gateway.cpu_times()
    return 1000 * float(times.user + times.system)


def _idle_ms_per_s(gateway: psutil.Process) -> float:
    before = _cpu_ms(gateway)
    time.sleep(IDLE_S)
    return (_cpu_ms(gateway) - before) / IDLE_S


def _above(start: int, now: int) -> float:
    return round((now - start) / MB, 1)


def added(by_http: Sequence[float], by_kafka: Sequence[float]) -> dict[str, float]:
    """Return by how many ms the median and the 99th percentile are above those by Kafka."""
    return {
        f"added_{name}_ms": round(quantile(by_http, share) - quantile(by_kafka, share), 3)
        for name, share in SHARES.items()
    }


def intervals(by_http: Sequence[float], by_kafka: Sequence[float]) -> dict[str, list[float]]:
    """Return the 95 % percentile bootstrap intervals of both differences, in ms: [low, high]."""
    return {name: _interval(by_http, by_kafka, share) for name, share in SHARES.items()}


def _interval(by_http: Sequence[float], by_kafka: Sequence[float], share: float) -> list[float]:
    dice = np.random.default_rng(SEED)
    resampled = [
        np.quantile(dice.choice(values, (RESAMPLES, len(values))), share, axis=1, method="inverted_cdf")
        for values in (by_http, by_kafka)
    ]
    ends = np.quantile(resampled[0] - resampled[1], ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return [round(float(end), 3) for end in ends]
