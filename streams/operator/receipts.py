"""What receipts state of images and of decisions about them, and whether both are of the same request."""

import hashlib
from collections.abc import Mapping
from typing import Any

from planner.serving.again import public
from schemas.messages import GenerateJob, Made, Result
from streams.operator.explain import steps_of, why


def sha256_of(text: str) -> str:
    """Return the digest of a prompt: what it says is not in a receipt."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def states_of(job: GenerateJob, made: Made, number: int) -> dict[str, Any]:
    """Return what the manifest of a job's image states: which request, which plan, and how it was made."""
    values = {name: value for name, value in public(made, number).items() if value not in (None, "", {})}
    if negative := values.pop("negative_prompt", ""):
        values["negative_prompt_sha256"] = sha256_of(negative)
    request = job.classified.request
    return {
        "request_id": request.request_id, "number": number, "prompt_sha256": sha256_of(request.prompt),
        "level": job.level, "stage": job.stage, "plan_version": job.plan_version, "made": values,
    }  # fmt: skip


def decision_of(result: Result) -> dict[str, Any]:
    """Return what was decided about a request's images, from its result: what a deployment signs.

    Raises InvalidRecord: `path` is not a list of stages.
    """
    path = steps_of(result)
    shown = path[-1] if path and result.image_sha256 else None
    stages = [
        {
            "level": each.level, "plan_version": each.plan_version, "discriminator": each.discriminator,
            "score": each.confidence, "threshold": each.threshold, "kept": each is shown,
        }
        for each in path
    ]  # fmt: skip
    images = [each.sha256 for each in (shown.image, *shown.more) if each is not None] if shown else []
    return {
        "request_id": result.request_id, "prompt_sha256": sha256_of(result.prompt), "policy": result.policy,
        "image_sha256": result.image_sha256, "images": images, "level": result.level, "stages": stages,
        "plan_version": path[-1].plan_version if path else result.plan_version,
        "wrong_at_most": result.wrong_at_most, "end": str(result.status), "why": why(result),
        "ended_ms": result.ended_ms,
    }  # fmt: skip


def disagreement(data: bytes, states: Mapping[str, Any], decision: Mapping[str, Any]) -> str:
    """Say where a file and a decision are not of one image; "": they agree."""
    if (states.get("stored_sha256") or hashlib.sha256(data).hexdigest()) not in decision.get("images", ()):
        return f"the decision about request {decision.get('request_id')} is of other images than this file"
    for name in ("request_id", "prompt_sha256", "level", "plan_version"):
        if states.get(name) != decision.get(name):
            words = name.replace("_sha256", "'s digest").replace("_", " ")
            return f"the {words} of the file is {states.get(name)}, that of the decision {decision.get(name)}"
    return ""
