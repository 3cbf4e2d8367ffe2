"""The rules of writing: only images that were generated from noise, are good enough, and may be shared.

examine(ended, rule)  -> NotWritten    with the reason
                      -> ScoreFirst    no cascade scored it, and it is of the share that is scored here
                      -> Write
judge(score, rule)    -> NotWritten | Write
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from planner.reuse.eligibility import Asked, Refusal, storage_refusal
from planner.reuse.terms import WriteRule as WriteRule
from planner.serving.admission.quotas import Bucket, take_tokens
from schemas.ids import draw
from schemas.messages import Status

STORE_SALT = "reuse/store"
SALT = "reuse/score"  # never the plan's version: an image that comes again is decided alike


class Unwritten(StrEnum):
    """Why an image gets no row in the index; labels of a metric."""

    STATUS = "status"  # the request did not end COMPLETED
    DERIVED = "derived"  # an image on its path began from a stored one: no reuse of reuse
    REFUSED = "refused"  # `eligibility.storage_refusal` says why
    UNSCORED = "unscored"  # it has no score, and is not in the share that is scored here
    POOR = "poor"  # its score is below the threshold
    UNSTORED = "unstored"  # its latent is not there: the request or the plan did not want it, or the store was away
    STALE = "stale"  # it would be expired already
    CAPPED = "capped"  # its tenant writes too much


class NotWritten(NamedTuple):
    """The decision that an image does not enter."""

    why: Unwritten
    refusal: Refusal | None = None


class ScoreFirst(NamedTuple):
    """The decision to score an image before it is decided."""

    discriminator: str


class Write(NamedTuple):
    """The decision that an image enters."""

    score: float | None  # None: the plan asks for no check


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a request as the index writer reads it."""

    request_id: str
    status: Status
    asked: Asked
    reuse_steps: tuple[int, ...] = ()  # K of every stage of its path
    score: float | None = None  # a cascade's; None: not scored
    scored_by: str = ""  # the discriminator
    has_latent: bool = True  # its latent is stored
    ended_ms: int = 0  # epoch ms


def is_stored(request_id: str, asked: Asked, reuse_steps: Iterable[int], share: float) -> bool:
    """Whether a worker stores an image's latent: only of what may enter, and a share drawn by the request's id."""
    is_derived = any(step != 0 for step in reuse_steps)
    return not is_derived and storage_refusal(asked) is None and draw(request_id, STORE_SALT) < share


def examine(ended: Ended, rule: WriteRule) -> NotWritten | ScoreFirst | Write:
    """Decide on an image before it is scored here; a score of another discriminator does not count."""
    if ended.status is not Status.COMPLETED:
        return NotWritten(Unwritten.STATUS)
    if any(step != 0 for step in ended.reuse_steps):
        return NotWritten(Unwritten.DERIVED)
    if refusal := storage_refusal(ended.asked):
        return NotWritten(Unwritten.REFUSED, refusal)
    if not rule.discriminator:
        return Write(None)
    if ended.score is not None and ended.scored_by == rule.discriminator:
        return judge(ended.score, rule)
    if draw(ended.request_id, SALT) < rule.scored_share:
        return ScoreFirst(rule.discriminator)
    return NotWritten(Unwritten.UNSCORED)


def judge(score: float | None, rule: WriteRule) -> NotWritten | Write:
    """Decide by the score of the check; None, where it did not answer, and what is no number do not enter."""
    if score is None or not math.isfinite(score):
        return NotWritten(Unwritten.UNSCORED)
    return Write(score) if score > rule.threshold else NotWritten(Unwritten.POOR)


def within_cap(bucket: Bucket | None, rule: WriteRule, now_ms: int) -> tuple[Bucket, NotWritten | None]:
    """Return a tenant's bucket after one more write, and None; or as it was, and why the write must not happen."""
    after, retry_after_ms = take_tokens(bucket, rule.quota, 1.0, now_ms)
    return after, None if retry_after_ms is None else NotWritten(Unwritten.CAPPED)
