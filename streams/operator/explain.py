"""Explains a result in words: its path, and one sentence that says why the request ended as it did.

The result record alone is read; what was asked stands in the request.
"""

import dataclasses

from planner.reuse.neighbour import Miss
from planner.serving.decisions import scores_in_words
from planner.serving.ending.outcomes import cost_of
from schemas.errors import InvalidRecord
from schemas.ids import seed_of
from schemas.messages import GenerateRequest, Made, Result, Stage, Status
from streams.codec.avro import from_json
from streams.visible import amount, counted

VERBS = {
    Status.REJECTED: "rejected",
    Status.EXPIRED: "expired",
    Status.CANCELLED: "cancelled",
    Status.FAILED: "failed",
}


def steps_of(result: Result) -> tuple[Stage, ...]:
    """Return the stages that a request went through, in order; fields that an older release left out have defaults.

    Raises InvalidRecord: `path` is not a JSON list of stages.
    """
    try:
        steps: tuple[Stage, ...] = from_json(tuple[Stage, ...], result.path)
    except ValueError as error:
        message = f"path of the result of {result.request_id} is not a list of stages: {error}: {result.path:.80}"
        raise InvalidRecord(message) from error
    return steps


def how_begun(stage: Stage) -> str:
    """Say in words which steps a stage ran, and why; "": all of them, and no stored latent was looked for."""
    reuse = stage.reuse
    if stage.refine_from_step:
        steps = f" of {reuse.steps}" if reuse is not None and reuse.steps else ""
        return f"from step {stage.refine_from_step}{steps}, with the draft"
    if reuse is None or reuse.miss == Miss.ROUTE:
        return ""
    if reuse.step:
        similar = "" if reuse.similarity is None else f" of a similar prompt (cosine {reuse.similarity:.3f})"
        return f"from step {reuse.step} of {reuse.steps}, with a stored image{similar}"
    return f"all {counted(reuse.steps, 'step')}: {reuse.miss or 'unknown'}"


def why(result: Result) -> str:
    """Return one sentence that says what decided the end of this request."""
    if result.status is not Status.COMPLETED:
        return f"{VERBS.get(result.status, str(result.status).lower())}: {result.reason or 'no reason was given'}"
    *before, last = steps_of(result) or (None,)
    if last is None:
        return f"completed by {result.level or 'an unknown level'}: the result carries no path"
    if not before:
        return _verdict(last, result.reason) + _promised(last)
    again = f"escalated: {_rejections([step for step in before if step])}, {_begun(last)}"
    return (again if last.threshold is None else f"{again}, {_verdict(last)}") + _promised(last)


def _promised(last: Stage) -> str:
    """Say what is promised of the answer, and what that rests on; "": nothing."""
    if (promise := last.promise) is None:
        return ""
    alike = f"{last.level}'s images{' kept so' if last.discriminator else ''}"
    rests = f"measured on {promise.images:,} images on {promise.date}; right: {promise.standard}"
    wrong = f"at most {100 * promise.wrong_at_most:.1f} % of {alike} are wrong for prompts as hard"
    return f"; {wrong} ({100 * promise.confidence:.0f} % confidence, {rests})"


def asked_in_words(request: GenerateRequest) -> str:
    """Return what a request states besides its prompt, in words; its seed also where it states none."""
    seed = f"{seed_of(request.request_id)} (of its id)" if request.seed is None else str(request.seed)
    said = [f"quality {request.quality}", f"tier {request.tier}", f"seed {seed}"]
    if request.deadline_ms is not None:
        said.append(f"deadline {request.deadline_ms - request.created_ms} ms after it was made")
    for each in dataclasses.fields(request.options):
        value = getattr(request.options, each.name)
        if value != each.default:
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            said.append(f"{each.name} {shown}")
    return ", ".join(said)


def made_in_words(made: Made) -> str:
    """Return how an image was made, in words; the texts that were asked for stand in its request."""
    seed = "a seed of its server's own" if made.seed is None else f"seed {made.seed}"
    begun = {"noise": "", "image": f" over an image at strength {made.strength}"}.get(
        made.begins_with, f" from step {made.from_step} over a {made.begins_with}"
    )
    weights = (f"{name} {digest[:12] or 'of unknown weights'}" for name, digest in made.weights.items())
    known = filter(None, (made.scheduler, made.model, *weights, made.engine, made.device, made.dtype))
    size = f"{made.width}x{made.height} px"
    ran = f"{counted(made.steps, 'step')}{begun}"
    return f"{made.variant}, {seed}, {ran}, guidance {made.guidance:g}, {size}; {', '.join(known)}"


def cost_in_words(result: Result) -> str:
    """Return what a request's worker time cost, with its stages where there are several; "": not stated."""
    if result.cost is None:
        return ""
    steps = steps_of(result)
    parts = (f"{step.level} {amount(cost)}" for step in steps if (cost := cost_of((step,))) is not None)
    of_stages = f", of which {', '.join(parts)}" if len(steps) > 1 else ""
    return f"{amount(result.cost)}{of_stages} (in the currency of worker.price_per_hour)"


def _rejections(steps: list[Stage]) -> str:
    return ", then ".join(f"{step.level} scored {_against(step, '<')}" for step in steps)


def _begun(step: Stage) -> str:
    if step.refine_from_step:
        return f"refined on {step.level} from step {step.refine_from_step}"
    return f"generated again on {step.level}"


def _verdict(step: Stage, reason: str = "") -> str:
    """`reason`: that of the role that kept the image; the score says enough where it is at the threshold or above."""
    if step.threshold is None:
        return reason or f"kept, as no discriminator judges images of {step.level} under this plan"
    if step.confidence is None:
        return f"kept: not scored, though the threshold was {scores_in_words(step.threshold)[0]}"
    if step.confidence >= step.threshold:
        return f"kept: confidence {_against(step, '≥')}"
    why = reason.rpartition(", but ")[2] or "there was no time or place for a better one"  # what follows the score
    return f"kept although confidence {_against(step, '<')}: {why}"


def _against(step: Stage, relation: str) -> str:
    if step.confidence is None:
        return "nothing"
    known = [step.confidence] if step.threshold is None else [step.confidence, step.threshold]
    return f" {relation} ".join(scores_in_words(*known))
