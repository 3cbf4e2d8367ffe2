"""How much memory do ended ids take in a ledger, and how soon does it serve after a restart, with and without chunks?

One restart is measured three times: with nothing ended, with `ids` ended ids in chunks on `ended`, and with `existing`
results in no chunk, as every restart was before there were chunks. Each is measured until the first new result can be
read as committed, with the memory of the process then, and extrapolated to 8 days at 100 requests a second.
"""

import secrets
import time
from collections.abc import Iterator
from typing import Any

import psutil

from replay.bench.environment import traffic
from replay.bench.environment.figures import met
from replay.bench.environment.site import Site
from replay.bench.environment.topic_counter import TopicCounter
from schemas.messages import EndedChunk
from schemas.record import Outgoing
from schemas.topics import ENDED, FLOW_PARTITIONS, OUTCOMES, RESULTS
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.settings import Settings

EIGHT_DAYS = 69_120_000  # requests, at 100 a second
CHUNK_IDS = 65_536
DIGEST_BYTES = 12
QUIET_S = 600.0
MB = 1e6
LIMITS = {"recovery_of_8_days_s": ("<=", 60.0), "memory_of_8_days_mb": ("<=", 1000.0)}


def run(site: Site, *, ids: int, existing: int) -> dict[str, Any]:
    """Measure the three restarts."""
    none = _restarted(site, [])
    whole = _restarted(site, _results(existing))
    chunks = _restarted(site, _chunks(ids))
    measured = {
        "recovery_of_8_days_s": _of_8_days(none, chunks, "first_result_after_s", ids),
        "memory_of_8_days_mb": _of_8_days(none, chunks, "memory_mb", ids),
    }
    return {
        "without_any": none,
        "chunks": {"ids": ids, **chunks},
        "baseline_results_whole": {"ids": existing, **whole},
        "baseline_of_8_days_s": _of_8_days(none, whole, "first_result_after_s", existing),
        **measured,
        "targets": met(measured, LIMITS),
    }


def _of_8_days(none: dict[str, float], some: dict[str, float], figure: str, ids: int) -> float:
    return round(none[figure] + EIGHT_DAYS / ids * max(0.0, some[figure] - none[figure]), 1)


def _restarted(site: Site, past: "list[Outgoing] | Iterator[Outgoing]") -> dict[str, float]:
    """Seconds from the start of a ledger to its first new result; its processor's time and memory, MB, then."""
    settings: Settings = site.fresh("state", [])
    traffic.write(settings, past)
    (request,) = traffic.requests("open", 1)
    with TopicCounter(settings, RESULTS, is_from_end=True) as results:
        traffic.write(settings, [traffic.record(OUTCOMES, traffic.outcome(request), request.request_id)])
        began_s = time.monotonic()
        ledger = site.serve(settings, "ledger", ["ledger"])
        results.wait(1, QUIET_S, site.check)
        took_s = time.monotonic() - began_s
        process = psutil.Process(ledger.pid)
        memory, times = process.memory_info().rss / MB, process.cpu_times()
        site.stop(ledger)
    return {
        "first_result_after_s": round(took_s, 2),
        "processor_s": round(
            times.user + times.system, 2
        ),  # reported beside the wall time, which is longer on a busy machine
        "memory_mb": round(memory, 1),
    }


def _chunks(ids: int) -> Iterator[Outgoing]:
    """Random digests, as those of ids are, spread over the partitions and over the last days."""
    count, now = -(-ids // CHUNK_IDS), now_ms()
    for number in range(count):
        at_ms = now - (count - number) * 1000
        partition, packed = number % FLOW_PARTITIONS, secrets.token_bytes(min(CHUNK_IDS, ids) * DIGEST_BYTES)
        chunk = EndedChunk(
            partition=partition, results_topic="", first_offset=0, end_offset=0, oldest_ms=at_ms, newest_ms=at_ms,
            digests=packed, classified_topic="", classified_offset=-1, open=b"",
        )  # fmt: skip
        yield Outgoing(topic=ENDED, key=b"%d" % partition, value=encode(chunk), partition=partition)


def _results(count: int) -> Iterator[Outgoing]:
    (request,) = traffic.requests("ended", 1)
    return traffic.copies(RESULTS, traffic.result(traffic.outcome(request)), "ended", count)
