"""How much of a bare diffusers loop's throughput does a worker keep? Same model, prompts, seeds, core and one thread.

Jobs lie on the variant's topic before the worker starts; no other role runs. Rounds of the bare loop and of the worker
take turns on one core, and each of the worker's is held against the mean of its two neighbours. A worker's round is
timed from the end of its warm-up to the last image stored, by its own clock: attempts, images, acks and commits of
all but the last job are in it.
"""

import os
import statistics
from collections.abc import Sequence
from typing import Any

from planner.catalog.entries import Variant
from replay.bench.baselines.bare_loop import BareLoop, last_core
from replay.bench.environment import plan, traffic
from replay.bench.environment.figures import met, per_second, spread
from replay.bench.environment.site import Site
from replay.bench.environment.topic_counter import TopicCounter
from schemas.messages import GenerateRequest, ImageGenerated
from schemas.topics import IMAGES, jobs_topic
from streams.codec.avro import decode

LIMITS = {"light": (">=", 0.90), "heavy": (">=", 0.97)}
WARM_UP = 3  # images
LOAD_S = 120.0  # without any image


def run(site: Site, *, counts: dict[str, int], repeats: int) -> dict[str, Any]:
    """Measure each variant in `repeats` rounds of `counts[variant]` images."""
    catalog = plan.catalog_of(site.settings)
    found = {name: _variant(site, catalog.level(name), count, repeats) for name, count in counts.items()}
    ratios = {name: found[name]["ratio"]["median"] for name in found}
    limits = {name: LIMITS[name] for name in found if name in LIMITS}
    return {"variants": found, "core": last_core(), "threads": 1, "targets": met(ratios, limits)}


def _variant(site: Site, variant: Variant, count: int, repeats: int) -> dict[str, Any]:
    requests = traffic.requests(variant.name, count + WARM_UP)
    bare, ours = [], []
    with BareLoop(variant, requests, last_core(), site.settings.home) as loop:
        loop.generate(WARM_UP)
        bare.append(loop.generate(count))
        for _ in range(repeats):
            ours.append(_worker_round(site, variant, requests))
            bare.append(loop.generate(count))
    ratios = [mine / statistics.mean(bare[n : n + 2]) for n, mine in enumerate(ours)]
    return {
        "pictures": count,
        "worker_per_s": spread(ours),
        "baseline_per_s": spread(bare),
        "ratio": spread(ratios),
    }


def _worker_round(site: Site, variant: Variant, requests: Sequence[GenerateRequest]) -> float:
    """Images a second of one worker process from its warm-up on."""
    settings = site.fresh(variant.name, list(plan.catalog_of(site.settings).variants))
    topic = jobs_topic(variant.name, 1).name
    traffic.write(settings, (traffic.record(topic, traffic.job(r, variant.name), r.request_id) for r in requests))
    plan.publish(settings, {variant.name: 1.0}, {"worker-1": variant.name})
    with TopicCounter(settings, IMAGES) as images:
        worker = site.serve(settings, f"worker-{variant.name}", ["worker"], worker__id="worker-1", worker__threads="1")
        os.sched_setaffinity(worker.pid, {last_core()})  # before it has threads: they inherit it
        images.wait(len(requests), LOAD_S, site.check)
        site.stop(worker)
        stored = sorted(decode(arrival.value, ImageGenerated).stored_ms for arrival in images.arrivals)
    return per_second(len(requests) - WARM_UP, stored[WARM_UP - 1], stored[-1])
