"""What do metrics and tracing cost? The same roles with, and without, in turn.

metrics = CPU time of a router's process for a record, against one whose metrics count nothing; `share` is what it takes
          more, of the latter. Records come in equal portions to one after the other, on topics of their own.
          `calls_us` is the CPU time of the calls alone that a record makes, `calls_share` of the bare router's
tracing = by a request through the pipeline of the `profile` engine, traced at 1 in 10 to a collector that answers,
          against one that is not traced: CPU time of all roles' processes, and latency until its committed result is
          read. Requests to both take turns, half a period apart. `spans_ms` is the CPU time of the spans alone: those
          of a request's hops, 1 in 10 of which is recorded, and sending them after every SENT_AFTER requests
"""

import math
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

import psutil
from confluent_kafka import KafkaException
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from replay.bench.environment import plan, quick_catalog, traffic
from replay.bench.environment.figures import met, percentiles, quantile, spread_with_interval
from replay.bench.environment.fleet import StandIns
from replay.bench.environment.processor_time import processor_s
from replay.bench.environment.side import Side
from replay.bench.environment.site import Site
from replay.bench.environment.topic_counter import TopicCounter
from replay.bench.overhead import alternate
from replay.bench.router import GENERATE_MS, JOBS, SHARES, WORKERS
from schemas.messages import Cascade
from schemas.record import Incoming, Outgoing
from schemas.topics import CLASSIFIED, RESULTS
from streams import metrics
from streams.codec.headers import new_trace, stamp
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.processes.children import Child
from streams.settings import Settings
from streams.tracing import spans
from streams.tracing.exporting import open_recorder

LIMITS: Final = {
    "metrics_share": ("<=", 0.02), "metrics_calls_share": ("<=", 0.02), "tracing_cpu_ms": ("<=", 1.0),
    "tracing_spans_ms": ("<=", 1.0), "tracing_p50_ms": ("<=", 1.0), "lost": ("<=", 0.0),
}  # fmt: skip
RATIO: Final = "0.1"
UNMEASURED: Final = "replay.bench.baselines.unmeasured"
LAYOUT: Final = (("ledger",), ("worker",), ("classifier", "router"), ("discriminator",))
IMAGE_MS: Final = 10
BLOCKS: Final = 6  # of the requests, for the interval of what they cost
CALLS: Final = 100_000
ROLES: Final = ("classifier", "router", "worker", "discriminator", "ledger")
SENT_AFTER: Final = 5  # of the requests, once for all roles: as often as each of them at 5 requests a second does
START_S, QUIET_S = 90.0, 60.0


def run(site: Site, *, count: int, portions: int, requests: int, rate: float, warm_up: int) -> dict[str, Any]:
    """`portions` of `count` records to each router; `requests` to each pipeline at `rate` a second."""
    with collector() as endpoint:
        counting, lost = _metrics(site, count, portions)
        tracing = {"spans_ms": round(spans_ms(endpoint), 4), **_tracing(site, endpoint, requests, rate, warm_up)}
    figures = {
        "metrics_share": counting["share"]["median"],
        "metrics_calls_share": counting["calls_share"],
        "tracing_cpu_ms": tracing["cpu_difference_ms"]["median"],
        "tracing_spans_ms": tracing["spans_ms"],
        "tracing_p50_ms": tracing["latency_ms"]["difference_p50"],
        "lost": float(lost),
    }
    return {"metrics": counting, "tracing": tracing, "lost": lost, "targets": met(figures, LIMITS)}


@contextmanager
def collector() -> Iterator[str]:
    """A collector that takes every batch of spans; its endpoint."""

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_words: object) -> None:
            """Keep quiet."""

    def take(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        start_response("200 OK", [])
        return [b""]

    server = make_server("127.0.0.1", 0, take, handler_class=Quiet)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


# ------------------------------------------------------------------ metrics


def _metrics(site: Site, count: int, portions: int) -> tuple[dict[str, Any], int]:
    us: dict[str, list[float]] = {"with": [], "without": []}
    lost = 0
    with _router(site, "with") as measured, _router(site, "without") as bare:
        sides = {"with": measured, "without": bare}
        for side in sides.values():
            side.serve(count // 10)  # the first records load what is loaded once
        for portion in range(portions):
            for name in sorted(sides, reverse=bool(portion % 2)):
                us[name].append(1e6 * sides[name].serve(count) / count)
        lost = sum(side.lost() for side in sides.values())
    shares = [mine / bare - 1 for mine, bare in zip(us["with"], us["without"], strict=True)]
    figures = {name: spread_with_interval(values) for name, values in us.items()}
    calls_us = _calls_us()
    return {
        "records": count,
        "router_us": figures,
        "share": spread_with_interval(shares),
        "calls_us": round(calls_us, 2),
        "calls_share": round(calls_us / figures["without"]["median"], 4),
    }, lost


def _calls_us() -> float:
    """CPU time of what `streams/faust/host.py` measures and counts for one record, in µs; least of five."""
    records = metrics.RECORDS.labels("router")
    queue_s, hop_s = metrics.QUEUE_SECONDS.labels("router"), metrics.HOP_SECONDS.labels("router")

    def once() -> float:
        begun = time.thread_time()
        for _ in range(CALLS):
            taken_s = time.monotonic()
            queue_s.observe(max(0.0, time.time() - 1.0))
            records.inc()
            hop_s.observe(time.monotonic() - taken_s)
        return 1e6 * (time.thread_time() - begun) / CALLS

    return min(once() for _ in range(5))


class RouterSide:
    """A router on topics of its own, whose CPU time is taken portion by portion."""

    def __init__(self, site: Site, settings: Settings, jobs: TopicCounter, router: Child) -> None:
        self._site, self._settings, self._jobs = site, settings, jobs
        self._process = psutil.Process(router.pid)
        self._sent = 0

    def serve(self, count: int) -> float:
        """Make the router place `count` records. Returns the CPU time of its process in seconds."""
        begun = self._cpu_s()
        requests = traffic.requests(f"portion-{self._sent}", count)
        records = (traffic.record(CLASSIFIED, traffic.classified(r, "light"), r.request_id) for r in requests)
        traffic.write(self._settings, records)
        self._sent += count
        self._jobs.wait(self._sent, QUIET_S, self._site.check)
        return self._cpu_s() - begun

    def _cpu_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def lost(self) -> int:
        """Number of records without a job."""
        return self._sent - self._jobs.count()


@contextmanager
def _router(site: Site, name: str) -> Iterator[RouterSide]:
    settings = site.fresh(name, [*SHARES], catalog=quick_catalog.written(site.settings.home, GENERATE_MS))
    plan.publish(settings, SHARES, WORKERS)
    with TopicCounter(settings, *JOBS) as jobs, _stand_ins(settings):
        if name == "with":
            router = site.serve(settings, f"router-{name}", ["router"])
        else:
            router = site.python(f"router-{name}", UNMEASURED, *site.options(settings), "serve", "router")
        try:
            yield RouterSide(site, settings, jobs, router)
        finally:
            site.stop(router)


@retry(retry=retry_if_exception_type(KafkaException), wait=wait_fixed(0.2), stop=stop_after_delay(15), reraise=True)
def _stand_ins(settings: Settings) -> StandIns:
    """Stand-ins for workers; leaders of topics that were made just now may not know yet that they lead."""
    return StandIns(settings, WORKERS)


# ------------------------------------------------------------------ tracing


def _tracing(site: Site, endpoint: str, count: int, rate: float, warm_up: int) -> dict[str, Any]:
    catalog = quick_catalog.written(site.settings.home, IMAGE_MS)
    own = {"traced": {"tracing__endpoint": endpoint, "tracing__ratio": RATIO}, "not": {}}
    settings = {name: site.fresh(name, ["light", "heavy"], catalog=catalog) for name in own}
    children: dict[str, list[Child]] = {name: [] for name in own}
    processes: dict[str, list[psutil.Process]] = {name: [] for name in own}
    for name, extra in own.items():
        keep_all = Cascade(level="light", next_level="heavy", discriminator="look", threshold=0.0)
        plan.publish(settings[name], {"light": 1.0}, {"worker-1": "light"}, [keep_all])
        for roles in LAYOUT:
            served = site.serve(settings[name], f"{name}-{'-'.join(roles)}", roles, worker__id="worker-1", **extra)
            children[name].append(served)
            processes[name].append(psutil.Process(served.pid))
    producers = {name: KafkaRecordProducer(each) for name, each in settings.items()}
    with TopicCounter(settings["traced"], RESULTS) as ours, TopicCounter(settings["not"], RESULTS) as bare:
        sides = {
            name: Side(settings[name], producers[name], results) for name, results in (("traced", ours), ("not", bare))
        }
        for side in sides.values():
            alternate(site, [side], traffic.requests("first", 1), rate, START_S)
        alternate(site, [*sides.values()], traffic.requests("warm", warm_up), rate)
        timed, cpu_ms = traffic.requests("timed", count), dict[str, list[float]]({name: [] for name in sides})
        for block in range(BLOCKS):
            some = timed[block::BLOCKS]
            before = {name: processor_s(processes[name]) for name in sides}
            alternate(site, [*sides.values()][:: -1 if block % 2 else 1], some, rate)  # neither is always the first
            for name in sides:
                cpu_ms[name].append(1000 * (processor_s(processes[name]) - before[name]) / len(some))
        names = {request.request_id for request in timed}
        took = {name: [ms for n, ms in side.took_ms().items() if n in names] for name, side in sides.items()}
    more = [mine - bare for mine, bare in zip(cpu_ms["traced"], cpu_ms["not"], strict=True)]
    for producer in producers.values():
        producer.close()
    for each in children.values():
        site.stop(*each)
    return {
        "requests": count,
        "cpu_ms": {name: spread_with_interval(values) for name, values in cpu_ms.items()},
        "cpu_difference_ms": spread_with_interval(more),
        "latency_ms": _latencies(took),
    }


def spans_ms(endpoint: str, requests: int = 1000) -> float:
    """CPU time of a request's spans, with their sending, in ms, where nothing else is done."""
    recorder = open_recorder(endpoint, float(RATIO), "bench")
    spans.use(recorder)
    begun = time.thread_time()
    try:
        for number in range(1, requests + 1):
            headers = {"traceparent": new_trace()}
            for topic, role in enumerate(ROLES):
                record = Incoming(
                    topic=f"topic-{topic}", partition=0, offset=number, timestamp_ms=1, key=b"r-1", value=bytes(300),
                    headers=headers,
                )  # fmt: skip
                hop = spans.begin(role, [record], "bench")
                with spans.within(hop):
                    headers = stamp(headers, kind="X", source=role, subject="r-1", time_ms=number)
                    spans.note(role, [record], "call", number, number + 1, {})
                spans.end(hop, [Outgoing(topic="next", key=b"r-1", value=b"", headers=headers)])
            if number % SENT_AFTER == 0:
                recorder.flush()
        return 1000 * (time.thread_time() - begun) / requests
    finally:
        spans.use(None)
        recorder.close()


def _latencies(took: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    pairs = [mine - bare for mine, bare in zip(took["traced"], took["not"], strict=True)]
    p50 = quantile(took["traced"], 0.5) - quantile(took["not"], 0.5)
    shown = {name: percentiles(values) for name, values in took.items()}
    return {**shown, "difference_p50": round(p50, 3), "difference_of_pairs": _median(pairs)}


def _median(values: Sequence[float]) -> dict[str, Any]:
    """The median with the order statistics that hold it in 95 of 100 cases."""
    ordered, half = sorted(values), math.ceil(0.98 * math.sqrt(len(values)))
    middle = len(ordered) // 2
    ends = ordered[max(0, middle - half)], ordered[min(len(ordered) - 1, middle + half)]
    return {"median": round(statistics.median(values), 3), "interval": [round(end, 3) for end in ends]}
