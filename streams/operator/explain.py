"""Explains a result in words: its path, and one sentence that says why the request ended as it did.

The result record alone is read.
"""

from planner.reuse.neighbour import Miss
from schemas.errors import InvalidRecord
from schemas.messages import Result, Stage, Status
from streams.codec.avro import from_json

VERBS = {
    Status.REJECTED: "rejected",
    Status.EXPIRED: "expired",
    Status.CANCELLED: "cancelled",
    Status.FAILED: "failed",
}


def steps_of(result: Result) -> tuple[Stage, ...]:
    """Return the stages that a request went through, in order; fields that an older release left out have defaults.

    Raises:
        InvalidRecord: `path` is not a JSON list of stages.
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
    return f"all {reuse.steps} steps: {reuse.miss or 'unknown'}"


def why(result: Result) -> str:
    """Return one sentence that says what decided the end of this request."""
    if result.status is not Status.COMPLETED:
        return f"{VERBS.get(result.status, str(result.status).lower())}: {result.reason or 'no reason was given'}"
    *before, last = steps_of(result) or (None,)
    if last is None:
        return f"completed by {result.level or 'an unknown level'}: the result carries no path"
    if not before:
        return _verdict(last)
    again = f"escalated: {_rejections([step for step in before if step])}, {_begun(last)}"
    return again if last.threshold is None else f"{again}, {_verdict(last)}"


def _rejections(steps: list[Stage]) -> str:
    return ", then ".join(f"{step.level} scored {_against(step, '<')}" for step in steps)


def _begun(step: Stage) -> str:
    if step.refine_from_step:
        return f"refined on {step.level} from step {step.refine_from_step}"
    return f"generated again on {step.level}"


def _verdict(step: Stage) -> str:
    if step.threshold is None:
        return f"kept: the plan judges no images of {step.level}"
    if step.confidence is None:
        return f"kept: not scored, though the threshold was {step.threshold:.2f}"
    if step.confidence >= step.threshold:
        return f"kept: confidence {_against(step, '≥')}"
    return f"kept although confidence {_against(step, '<')}: there was no time or place for a better one"


def _against(step: Stage, relation: str) -> str:
    if step.confidence is None:
        return "nothing"
    if step.threshold is None:
        return f"{step.confidence:.2f}"
    digits = 2  # more where two digits would show different numbers as equal
    is_tie = step.confidence == step.threshold
    while not is_tie and digits < 6 and f"{step.confidence:.{digits}f}" == f"{step.threshold:.{digits}f}":
        digits += 1
    return f"{step.confidence:.{digits}f} {relation} {step.threshold:.{digits}f}"
