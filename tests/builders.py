"""Values for tests: each builder makes a plausible one, and a test names only what it is about."""

from dataclasses import replace
from typing import Any

from planner.catalog.components import Component
from planner.catalog.entries import DeferralPoint, Discriminator, Variant
from planner.catalog.model import Catalog, Cut, Pair
from planner.observation.observation import Observation
from planner.observation.reuse import ObservedReuse
from planner.observation.workers import WorkerView
from schemas.messages import (
    Cascade,
    ClassifiedRequest,
    GenerateJob,
    GenerateRequest,
    Heartbeat,
    ImageGenerated,
    ImageRef,
    Outcome,
    OwnedPartition,
    Plan,
    ReuseCheck,
    ReuseFloor,
    ReuseGuard,
    ReusePlan,
    ReuseStorage,
    Route,
    Status,
)

NOW_MS = 1_760_000_000_000  # epoch ms at which the builders' requests are made


def a_request(**changes: Any) -> GenerateRequest:
    values: dict[str, Any] = {"request_id": "r-1", "prompt": "a red heart", "created_ms": NOW_MS}
    return GenerateRequest(**(values | changes))


def a_classified(request: GenerateRequest | None = None, **changes: Any) -> ClassifiedRequest:
    values: dict[str, Any] = {
        "request": request or a_request(), "hardness": 0.5, "classes": {"models": "light"}, "classifier": "test-1",
        "received_ms": NOW_MS + 1, "classified_ms": NOW_MS + 2,
    }  # fmt: skip
    return ClassifiedRequest(**(values | changes))


def a_job(classified: ClassifiedRequest | None = None, **changes: Any) -> GenerateJob:
    values: dict[str, Any] = {
        "job_id": "j-1", "classified": classified or a_classified(), "level": "light", "variant": "light", "stage": 0,
        "attempt": 1, "probability": 1.0, "plan_version": 1, "worker_id": "w-1", "routed_ms": NOW_MS + 10,
    }  # fmt: skip
    return GenerateJob(**(values | changes))


def an_image_ref(**changes: Any) -> ImageRef:
    values: dict[str, Any] = {"uri": "file:///images/ab.png", "sha256": "ab", "width": 32, "height": 32, "bytes": 900}
    return ImageRef(**(values | changes))


def an_image(job: GenerateJob | None = None, **changes: Any) -> ImageGenerated:
    values: dict[str, Any] = {
        "job": job or a_job(), "image": an_image_ref(), "worker_id": "w-1", "batch": 1, "attempt": 1,
        "started_ms": NOW_MS + 15, "generated_ms": NOW_MS + 35, "stored_ms": NOW_MS + 37,
    }  # fmt: skip
    return ImageGenerated(**(values | changes))


def an_outcome(**changes: Any) -> Outcome:
    values: dict[str, Any] = {
        "request_id": "r-1", "status": Status.FAILED, "reason": "test", "by": "test", "ended_ms": NOW_MS + 40,
        "policy": "test",
    }  # fmt: skip
    return Outcome(**(values | changes))


def a_cascade(**changes: Any) -> Cascade:
    values: dict[str, Any] = {"level": "light", "next_level": "heavy", "discriminator": "look", "threshold": 0.5}
    return Cascade(**(values | changes))


def a_plan(**changes: Any) -> Plan:
    """Everything light first, then by confidence to heavy; one worker on each."""
    values: dict[str, Any] = {
        "version": 1, "policy": "test", "strategy": "models", "created_ms": NOW_MS, "reason": "test",
        "routes": (Route(levels={"light": 1.0}),), "cascades": (a_cascade(),),
        "allocation": {"w-1": "light", "w-2": "heavy"}, "batch": {"light": 1, "heavy": 1},
    }  # fmt: skip
    return Plan(**(values | changes))


def a_reuse_plan(**changes: Any) -> ReusePlan:
    """Up to half of the steps from a cosine of .9 on where facts are equal; what `look` trusts is stored."""
    values: dict[str, Any] = {
        "floors": (ReuseFloor(similarity=0.7, share=0.2), ReuseFloor(similarity=0.9, share=0.5)),
        "guard": ReuseGuard(equal=0.5, style=0.2), "check": ReuseCheck(discriminator="look", threshold=0.5),
        "key": "words", "storage": ReuseStorage(), "hits": {},
    }  # fmt: skip
    return ReusePlan(**(values | changes))


def a_heartbeat(**changes: Any) -> Heartbeat:
    values: dict[str, Any] = {
        "worker_id": "w-1", "state": "ready", "variant": "light", "plan_version": 1, "sent_ms": NOW_MS,
        "partitions": (owned(0),),
    }  # fmt: skip
    return Heartbeat(**(values | changes))


def lookups(p50_ms: float = 10.0, **changes: Any) -> ObservedReuse:
    """A hundred lookups that were answered."""
    values: dict[str, Any] = {"lookups": 100, "p50_ms": p50_ms, "p95_ms": 2 * p50_ms}
    return ObservedReuse(**(values | changes))


NO_ANSWER = ObservedReuse(lookups=100, unanswered=1.0, failing=1.0, p50_ms=66.0, p95_ms=66.0)


def owned(partition: int, end_offset: int = 0, remaining_ms: int = 0) -> OwnedPartition:
    return OwnedPartition(partition=partition, end_offset=end_offset, remaining_ms=remaining_ms)


def a_variant(**changes: Any) -> Variant:
    values: dict[str, Any] = {
        "name": "light", "engine": "profile", "model": "", "scheduler": "", "steps": 2, "guidance": 1.0, "width": 32,
        "height": 32, "latency_ms": {1: 20.0, 2: 30.0, 4: 44.0}, "load_ms": 50.0, "quality": 0.8,
    }  # fmt: skip
    return Variant(**(values | changes))


def a_discriminator(**changes: Any) -> Discriminator:
    """Its deferral curve is f(t) = t; a number as `latency_ms` is that of one image."""
    values: dict[str, Any] = {
        "name": "look", "engine": "profile", "folder": "", "threshold": 0.3,
        "deferral": (DeferralPoint(0.0, 0.0), DeferralPoint(1.0, 1.0)), "latency_ms": 1.0,
    }  # fmt: skip
    wanted = values | changes
    times = wanted["latency_ms"]
    return Discriminator(**(wanted | {"latency_ms": times if isinstance(times, dict) else {1: times}}))


def a_catalog(**changes: Any) -> Catalog:
    """`light` and, ten times dearer, `heavy`, with a cascade between them."""
    heavy = a_variant(name="heavy", steps=25, latency_ms={1: 200.0, 2: 240.0, 4: 400.0}, quality=1.0)
    values: dict[str, Any] = {
        "name": "test", "variants": {"light": a_variant(), "heavy": heavy},
        "discriminators": {"look": a_discriminator()}, "cascades": (Pair("light", "heavy", "look"),),
        "class_cuts": {"models": (Cut("light", 0.7), Cut("heavy", 1.0))},
    }  # fmt: skip
    return Catalog(**(values | changes))


def unmeasured(catalog: Catalog) -> Catalog:
    """The catalog without the quality of any level."""
    variants = {name: replace(variant, quality=None) for name, variant in catalog.variants.items()}
    return replace(catalog, variants=variants)


def a_worker(worker_id: str = "w-1", variant: str = "light", **changes: Any) -> WorkerView:
    values: dict[str, Any] = {
        "worker_id": worker_id,
        "variant": variant,
        "state": "ready",
        "seen_ms": NOW_MS,
        "remaining_ms": 0.0,
    }
    return WorkerView(**(values | changes))


def an_observation(n_workers: int = 4, **changes: Any) -> Observation:
    """`n_workers` workers that serve nothing yet, and ten requests a second."""
    workers = tuple(a_worker(f"w-{i:02}", "") for i in range(n_workers))
    values: dict[str, Any] = {"now_ms": NOW_MS, "demand_rps": 10.0, "workers": workers}
    return Observation(**(values | changes))


def composed_variant(**changes: Any) -> Variant:
    """A variant on request: bases poster and chalk, an adapter for each, a control that takes 1.5 times as long."""
    components = (
        Component(kind="base", name="poster", source="models/poster"),
        Component(kind="base", name="chalk", source="models/chalk"),
        Component(kind="adapter", name="candy", source="models/loras/candy", bases=("poster",)),
        Component(kind="adapter", name="frost", source="models/loras/frost", bases=("chalk",)),
        Component(kind="control", name="outline", source="models/controlnet", run_factor=1.5),
    )
    values: dict[str, Any] = {
        "name": "styles", "on_request": True, "bases": ("poster", "chalk"), "adapters": ("candy", "frost"),
        "controls": ("outline",), "components": components, "honours": ("image",), "quality": None,
    }  # fmt: skip
    return a_variant(**(values | changes))


def sized_variant(**changes: Any) -> Variant:
    """`composed_variant` with sizes: bases of 1,000 bytes, adapters of 100, a control whose load was measured."""
    sizes = {"base": 1000, "adapter": 100, "control": 200}
    components = tuple(
        replace(each, bytes=sizes[each.kind], load_ms={"volume": 30.0} if each.kind == "control" else {})
        for each in composed_variant().components
    )
    return composed_variant(**({"components": components} | changes))
