"""Measures what changing components costs a worker: `pochade bench components` runs this as a process of its own.

    turns    requests with three adapters in turn on one base, against requests with one of them, in alternating blocks
    fused    the largest difference of the UNet's output to that with the adapter's layers beside the base (PEFT)
    hits     a skewed stream of bases and adapters on a device that holds two of three bases, by rule of eviction
    memory   resident memory and bytes by tier over requests for all combinations (`components_memory`), if asked for

The question is JSON on standard input, the answer JSON on standard output.
"""

import contextlib
import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from agents.components.opening import Keeping
from agents.engines import GenerationTask
from agents.engines.diffusers_engine import DiffusersEngine, load
from agents.engines.low_rank import Applied, FusedWeights, combination, read_adapter
from agents.lab.components_memory import memory
from planner.catalog.components import ADAPTER
from planner.catalog.entries import Variant
from planner.catalog.options import resolve_options
from planner.components.component import Tier
from planner.components.eviction import SCORES
from schemas.messages import GenerateOptions
from streams import catalogs
from streams.settings import WorkerComponentSettings
from streams.shipped import INFRA

PROMPT: Final = "a red heart"
BLOCK: Final = 6  # requests in a row of one side
RESIDENT_BASES: Final = 2.5  # room on the device, in largest bases: two bases, and combinations
SKEW: Final = 1.0  # of Zipf's law, by which the stream draws


def measure(
    catalog: str, variant_name: str, blocks: int, requests: int, seed: int, memory_requests: int = 0
) -> dict[str, Any]:
    """Return the figures of a variant whose components lie in folders; `memory_requests`: 0 leaves memory out."""
    variant = catalogs.load(catalog).level(variant_name)
    adapters = [each.name for each in variant.components if each.kind == ADAPTER][:3]
    engine = load(variant, 1)
    try:
        turns = _turns(engine, variant, adapters, blocks)
    finally:
        engine.close()
    found = {
        "turns": turns,
        "fused_difference": _difference(variant, adapters),
        "hits": {rule: _hits(variant, rule, requests, seed) for rule in SCORES},
    }
    return found | ({"memory": memory(variant, memory_requests, seed)} if memory_requests else {})


def _turns(engine: DiffusersEngine, variant: Variant, adapters: Sequence[str], blocks: int) -> dict[str, Any]:
    """CPU ms of a request on each side, and the ratio of each pair of blocks."""
    for name in adapters:
        _request_ms(engine, variant, name)  # read and fused
    one_ms: list[float] = []
    three_ms: list[float] = []
    for block in range(blocks):
        sides = [(one_ms, adapters[:1]), (three_ms, adapters)]
        for taken, names in sides if block % 2 else reversed(sides):
            _request_ms(engine, variant, names[-1])  # the change from the other side counts for neither
            took = [_request_ms(engine, variant, names[at % len(names)]) for at in range(BLOCK)]
            taken.append(statistics.median(took))
    return {
        "adapters": list(adapters),
        "one_ms": one_ms,
        "three_ms": three_ms,
        "ratios": [three / one for one, three in zip(one_ms, three_ms, strict=True)],
    }


def _request_ms(engine: DiffusersEngine, variant: Variant, adapter: str) -> float:
    how = resolve_options(GenerateOptions(adapters=(adapter,)), variant)
    began_s = time.process_time()
    made = engine.generate([GenerationTask(request_id="r", prompt=PROMPT, seed=1)], how, lambda: False)
    assert made is not None, "should_stop never stops this call"
    return 1000 * (time.process_time() - began_s)


def _difference(variant: Variant, adapters: Sequence[str]) -> float:
    """The largest difference of an output of the UNet, over the adapters."""
    import torch
    from diffusers import DiffusionPipeline

    base, listed = str(INFRA / variant.base(variant.bases[0]).source), variant.offer.of_kind(ADAPTER)
    fused, beside = (DiffusionPipeline.from_pretrained(base, torch_dtype=torch.float32) for _ in range(2))
    weights, unet = FusedWeights({"unet": fused.unet}), fused.unet
    dice = torch.Generator().manual_seed(5)
    sample = torch.randn((2, unet.config.in_channels, 6, 6), generator=dice)
    states = torch.randn((2, 16, unet.config.cross_attention_dim), generator=dice)
    largest = 0.0
    for name in adapters:
        source = str(INFRA / listed[name].source)
        applied = [Applied(name, 1.0, read_adapter(source, fused))]
        weights.fuse(applied)
        weights.apply(combination(applied))
        beside.load_lora_weights(source, adapter_name=name)
        beside.set_adapters([name], [1.0])
        with torch.inference_mode():
            mine, theirs = (each(sample, torch.tensor(500), states).sample for each in (unet, beside.unet))
        largest = max(largest, float((mine - theirs).abs().max()))
    return largest


def _hits(variant: Variant, rule: str, requests: int, seed: int) -> dict[str, Any]:
    """Return the tiers in which a stream's components were found, with a device that cannot hold them all."""
    room = 2 * int(
        RESIDENT_BASES * max(variant.base(name).bytes for name in variant.bases)
    )  # on a CPU, twice its files
    engine = load(variant, 1, Keeping(settings=WorkerComponentSettings(device_bytes=room, host_bytes=room)))
    components, store = engine.components, engine.store
    assert components is not None
    assert store is not None
    store.evict_by(SCORES[rule])
    try:
        for options in _stream(variant, requests, seed):
            components.prepare([], resolve_options(options, variant))
        report = store.report()
    finally:
        engine.close()
    asked = sum(report.hits.values())
    return {
        "device_bytes": report.budget_bytes[Tier.DEVICE.label],
        "hits": report.hits,
        "device_share": report.hits.get(Tier.DEVICE.label, 0) / asked,
        "loads": report.loads,
        "moved_bytes": report.moved_bytes,
    }


def _stream(variant: Variant, requests: int, seed: int) -> list[GenerateOptions]:
    """Requests whose bases, and whose adapters on the first one, are drawn by Zipf's law."""
    dice, adapters = np.random.default_rng(seed), [each.name for each in variant.components if each.kind == ADAPTER]
    found = []
    for _ in range(requests):
        base = variant.bases[_zipf(dice, len(variant.bases))]
        drawn = _zipf(dice, len(adapters) + 1) if base == variant.bases[0] else 0
        found.append(GenerateOptions(model=base, adapters=(adapters[drawn - 1],) if drawn else ()))
    return found


def _zipf(dice: np.random.Generator, count: int) -> int:
    weights = 1.0 / np.arange(1, count + 1) ** SKEW
    return int(dice.choice(count, p=weights / weights.sum()))


def main() -> None:
    """Answer the question on standard input."""
    asked = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        answer = measure(**asked)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
