"""How much does the pipeline add to generation? Against a skeleton of the same clients whose handlers only copy.

overhead = seen by a reader of committed results - submitted - generation - features (p50 of the run's prompts, measured
           in a child process right after it)
scoring:   the catalog's discriminator draws a number, so only fetching and opening the image is left, and counts
waiting:   none: arrivals are evenly spaced, and each result is there before the next request (`overlaps` counts)

A request to the pipeline and one to the skeleton take turns, half a period apart, on the same broker.
"""

import statistics
import time
from collections.abc import Sequence
from typing import Any

from replay.bench.baselines.features import features_ms
from replay.bench.environment import plan, quick_catalog, traffic
from replay.bench.environment.figures import met, percentiles, quantile, spread
from replay.bench.environment.side import Side
from replay.bench.environment.site import Site
from replay.bench.environment.topic_counter import Arrival, TopicCounter
from schemas.messages import Cascade, GenerateRequest, ImageGenerated, Result
from schemas.topics import IMAGES, RESULTS
from streams.codec.avro import decode, decode_result
from streams.kafka.producers.producer import KafkaRecordProducer

LIMITS = {"ratio_p50": ("<=", 2.0), "p50_ms": ("<=", 30.0), "p99_ms": ("<=", 150.0)}
GENERATE_MS = 10
START_S = 90.0
STUCK_S = 20.0
BLOCKS = 4  # of the run, for the spread
LAYOUT = (("ledger",), ("worker",), ("classifier", "router"), ("discriminator",))


def run(site: Site, *, count: int, rate: float, warm_up: int) -> dict[str, Any]:
    """`count` requests to each side at `rate` a second, after `warm_up` of each."""
    ours = site.fresh("overhead", ["light", "heavy"], catalog=quick_catalog.written(site.settings.home, GENERATE_MS))
    bare = site.fresh("skeleton", ["light"])
    keep_all = Cascade(level="light", next_level="heavy", discriminator="look", threshold=0.0)
    plan.publish(ours, {"light": 1.0}, {"worker-1": "light"}, [keep_all])
    for roles in LAYOUT:
        site.serve(ours, "-".join(roles), roles, worker__id="worker-1")
        site.copying(bare, f"skeleton-{'-'.join(roles)}", roles)
    producers = [KafkaRecordProducer(settings) for settings in (ours, bare)]
    with (
        TopicCounter(ours, RESULTS) as our_results,
        TopicCounter(bare, RESULTS) as bare_results,
        TopicCounter(ours, IMAGES) as images,
    ):
        sides = [Side(ours, producers[0], our_results), Side(bare, producers[1], bare_results)]
        for side in sides:
            alternate(site, [side], traffic.requests("first", 1), rate, START_S)
        alternate(site, sides, traffic.requests("warm", warm_up), rate)
        timed = traffic.requests("timed", count)
        alternate(site, sides, timed, rate)
    for producer in producers:
        producer.close()
    return _figures(sides, images.arrivals, timed, rate)


def alternate(
    site: Site, sides: Sequence[Side], requests: Sequence[GenerateRequest], rate: float, limit_s: float = STUCK_S
) -> None:
    """Send each request to each side, evenly spaced, and wait for all results."""
    begun, gap_s = time.monotonic(), 1 / (rate * len(sides))
    due = [(side, request) for request in requests for side in sides]
    for n, (side, request) in enumerate(due):
        time.sleep(max(0.0, begun + n * gap_s - time.monotonic()))
        side.send(request)
    for side in sides:
        side.results.wait(len(side.sent_ns), limit_s, site.check)


def _figures(
    sides: Sequence[Side], images: Sequence[Arrival], timed: Sequence[GenerateRequest], rate: float
) -> dict[str, Any]:
    names = {request.request_id for request in timed}
    whole, baseline = ({n: ms for n, ms in side.took_ms().items() if n in names} for side in sides)
    results = {r.request_id: r for r in (decode_result(a.value) for a in sides[0].results.arrivals)}
    features = features_ms([request.prompt for request in timed])
    outside = quantile(features, 0.5)
    overhead = [ms - results[name].generate_ms - outside for name, ms in whole.items()]
    ours, bare = percentiles(overhead), percentiles(list(baseline.values()))
    ratio = round(ours["p50"] / bare["p50"], 3)
    measured = {"ratio_p50": ratio, "p50_ms": ours["p50"], "p99_ms": ours["p99"]}
    return {
        "overhead_ms": ours,
        "baseline_ms": bare,
        "ratio_p50": ratio,
        "spread": {"overhead_p50_ms": _blocks(overhead), "baseline_p50_ms": _blocks(list(baseline.values()))},
        "whole_ms": percentiles(list(whole.values())),
        "taken_off_ms": {
            "painting": percentiles([float(results[name].generate_ms) for name in whole]),
            "features": percentiles(features),
        },
        "legs_mean_ms": _legs(sides[0], images, results, names),
        "overlaps": sum(ms > 1000 / rate for ms in whole.values()),
        "lost": 2 * len(names) - len(whole) - len(baseline),
        "targets": met(measured, LIMITS),
    }


def _blocks(values: Sequence[float]) -> dict[str, float]:
    size = max(1, len(values) // BLOCKS)
    return spread([quantile(values[start : start + size], 0.5) for start in range(0, size * BLOCKS, size)][:BLOCKS])


def _legs(side: Side, images: Sequence[Arrival], results: dict[str, Result], names: set[str]) -> dict[str, float]:
    """The way's parts on average, by the roles' own clocks (whole ms each): where the time goes."""
    legs: dict[str, list[float]] = {}
    seen = side.took_ms()
    for arrival in images:
        image = decode(arrival.value, ImageGenerated)
        classified, name = image.job.classified, image.job.classified.request.request_id
        if name not in names:
            continue
        sent = side.sent_ns[name] / 1e6
        moments = {
            "submitted": sent,
            "classified": classified.classified_ms,
            "routed": image.job.routed_ms,
            "started": image.started_ms,
            "painted": image.generated_ms,
            "stored": image.stored_ms,
            "judged": results[name].ended_ms,
            "seen": sent + seen[name],
        }
        pairs = zip(moments, list(moments)[1:], strict=False)
        for before, after in pairs:
            legs.setdefault(f"{before}-{after}", []).append(moments[after] - moments[before])
    return {leg: round(statistics.mean(values), 2) for leg, values in legs.items()}
