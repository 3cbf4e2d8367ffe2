"""A result in words: its path, and one sentence that tells why it ended as it did. From the result record alone."""

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
    """The stages a request went through, first one first; fields that an older release did not write have defaults.

    Raises:
        InvalidRecord: `path` is not the JSON list of Step it should be.
    """
    try:
        steps: tuple[Stage, ...] = from_json(tuple[Stage, ...], result.path)
    except ValueError as error:
        told = f"path of the result of {result.request_id} is not a list of Step: {error}: {result.path:.80}"
        raise InvalidRecord(told) from error
    return steps


def why(result: Result) -> str:
    """One sentence: what decided the end of this request."""
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
        return f"painted over on {step.level} from step {step.refine_from_step}"
    return f"painted again on {step.level}"


def _verdict(step: Stage) -> str:
    if step.threshold is None:
        return f"kept: the plan judges no pictures of {step.level}"
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
    digits = 2  # more where two would make different numbers look alike
    is_tie = step.confidence == step.threshold
    while not is_tie and digits < 6 and f"{step.confidence:.{digits}f}" == f"{step.threshold:.{digits}f}":
        digits += 1
    return f"{step.confidence:.{digits}f} {relation} {step.threshold:.{digits}f}"
