"""The report of a run: one JSON object whose numbers come from the results, and a sentence if something is wrong."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from replay.load.driver import Audit
from replay.reports import reuse
from replay.reports.reuse import Course
from replay.verify.audit.images import verified
from schemas.errors import PochadeError
from schemas.messages import Plan, Result, Status
from streams.operator.explain import steps_of
from streams.store.input_images import open_stored
from streams.store.port import ImageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedImage:
    """One completed image, with its request."""

    request_id: str
    prompt: str
    level: str | None
    confidence: float | None
    uri: str
    sha256: str
    width: int  # px, as it decodes
    height: int  # px


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Facts of a demo that no topic holds, such as its start and its settings."""

    started: str  # ISO 8601, UTC
    seconds: float  # of the whole command until the report
    first_image_s: float | None  # since the command began
    ready_s: float  # until the deployment could serve, since the command began
    lateness_ms: tuple[float, ...]  # of the driver's submissions
    restarts: Mapping[str, int]
    plans: tuple[Plan, ...]
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    course: Course | None = None  # of a run that could reuse images


def open_images(results: Iterable[Result], store: ImageStore) -> tuple[list[CompletedImage], list[str]]:
    """Decode every completed image, and return the images and a sentence for each that could not be decoded."""
    images, broken = [], []
    for result in results:
        if result.status is Status.COMPLETED:
            try:
                images.append(_open(result, store))
            except PochadeError as error:
                broken.append(f"{result.request_id}: {error}")
    return images, broken


def _open(result: Result, store: ImageStore) -> CompletedImage:
    if result.image_uri is None:
        raise PochadeError("COMPLETED without an image_uri")
    sha256 = result.image_sha256 or ""
    data = verified(store, result.image_uri, sha256)
    try:
        with open_stored(data) as image:
            image.load()
            width, height = image.size
    except (OSError, SyntaxError, ValueError) as error:  # what PIL raises for bytes that are not an image
        raise PochadeError(f"{result.image_uri} does not decode: {error}") from error
    return CompletedImage(
        request_id=result.request_id,
        prompt=result.prompt,
        level=result.level,
        confidence=result.confidence,
        uri=result.image_uri,
        sha256=sha256,
        width=width,
        height=height,
    )


def build(audit: Audit, images: Sequence[CompletedImage], broken: Sequence[str], facts: RunFacts) -> dict[str, Any]:
    """The report, ready for JSON."""
    completed = [result for result in audit.results if result.status is Status.COMPLETED]
    latencies = [result.latency_ms for result in completed if result.latency_ms is not None]
    return {
        "accepted": len(audit.results) + len(audit.lost),
        "outcomes": dict(Counter(str(result.status) for result in audit.results)),
        "lost": len(audit.lost),
        "duplicates": audit.duplicates,
        "escalated": sum(result.escalated for result in audit.results),
        "painted_over": sum(any(step.refine_from_step for step in steps_of(result)) for result in audit.results),
        "by_level": dict(Counter(result.level or "unknown" for result in completed)),
        "latency_ms": percentiles(latencies, (50, 95, 99)),
        "plan_versions": [plan.version for plan in facts.plans],
        "policies": list(dict.fromkeys(plan.policy for plan in facts.plans)),
        "started": facts.started,
        "seconds": round(facts.seconds, 1),
        "ready_s": round(facts.ready_s, 1),
        "first_picture_s": None if facts.first_image_s is None else round(facts.first_image_s, 1),
        "driver_lateness_ms": percentiles(facts.lateness_ms, (50, 99)),
        "restarts": dict(facts.restarts),
        "identical_pictures": identical_images(images),
        "undecodable": list(broken),
        "lost_ids": list(audit.lost),
        "pictures": [asdict(image) for image in images],
        "versions": dict(facts.versions),
        "settings": dict(facts.settings),
        **_reuse(audit.results, facts.course),
    }


def _reuse(results: Sequence[Result], course: Course | None) -> dict[str, Any]:
    """Return the figures of reuse; empty for a run without reuse."""
    if course is None:
        return {"reuse": None, "switch": "", "timeline": [], "spans": [], "began_ms": None}
    return {
        "reuse": reuse.summarize(results),
        "switch": reuse.verdict_of_switch(course),
        "timeline": reuse.timeline(course),
        "spans": reuse.spans(course),
        "began_ms": course.began_ms,
    }


def percentiles(values: Sequence[float], ranks: Sequence[int]) -> dict[str, float | None]:
    """Return `{"p50": ...}` with linear interpolation, to a tenth; None without values."""
    if not values:
        return {f"p{rank}": None for rank in ranks}
    return {f"p{rank}": round(float(np.percentile(values, rank)), 1) for rank in ranks}


def identical_images(images: Iterable[CompletedImage]) -> int:
    """Different prompts that share their image's bytes with another one: 0 unless an engine ignores its prompt."""
    prompts: dict[str, set[str]] = defaultdict(set)
    for image in images:
        prompts[image.sha256].add(image.prompt)
    return sum(len(asked) for asked in prompts.values() if len(asked) > 1)


def verdict(report: Mapping[str, Any]) -> str | None:
    """Return one sentence about faults that must not occur, such as lost requests; None for a run in order."""
    faults = []
    if report["lost"]:
        some = ", ".join(report["lost_ids"][:5])
        faults.append(f"{report['lost']} of {report['accepted']} accepted requests have no result ({some})")
    if report["duplicates"]:
        faults.append(f"{report['duplicates']} results came twice")
    if report["undecodable"]:
        faults.append(f"{len(report['undecodable'])} images do not decode ({report['undecodable'][0]})")
    if not report["accepted"]:
        faults.append("no request was accepted")
    return "; ".join(faults) or None
