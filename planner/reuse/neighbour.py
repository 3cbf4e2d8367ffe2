"""Whether what a search returned may be used: checked again on the row, as no vector store is trusted with it.

A store may return rows of other tenants, deleted or expired ones: a filter is a request to it, and a delete a promise.
"""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Miss(StrEnum):
    """Why a request runs all its steps, as it is counted."""

    ROUTE = "route"  # the route asks for no reuse
    INELIGIBLE = "ineligible"  # `eligibility.lookup_refusal` says why
    RETRY = "retry"  # an earlier attempt at the job did not end well
    ABSENT = "absent"  # this worker has no vector store, or is opening it, or its engine has no latents
    UNPROFITABLE = "unprofitable"  # a lookup costs what it could save
    BREAKER = "breaker"  # the breaker is open: not asked
    TIMEOUT = "timeout"  # the lookup or the fetch did not answer by its deadline
    FAILED = "failed"  # the store answered with an error
    NONE = "none"  # no neighbour was found
    TENANT = "tenant"  # another tenant's neighbour
    MODEL = "model"  # made by another model
    SIZE = "size"  # in px
    DIMENSION = "dimension"  # of the vector, or of the latent
    STALE = "stale"  # expired
    DERIVED = "derived"  # begun from a stored image itself
    RUBBISH = "rubbish"  # a similarity that is no number in [-1, 1], or a latent that is damaged
    FLOOR = "floor"  # not similar enough for any step
    GUARD = "guard"  # states other facts
    GONE = "gone"  # the row is there, but its latent is not
    STEPS = "steps"  # too few steps for the share that is allowed
    ENGINE = "engine"  # it could not begin with the latent


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The conditions on a neighbour."""

    tenant: str
    model: str  # digest of everything that decides what a latent means
    width: int  # px
    height: int  # px
    dimension: int  # of the key's vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A row that a search returned."""

    tenant: str
    model: str
    width: int  # px
    height: int  # px
    dimension: int
    similarity: float  # cosine, [-1, 1]
    expires_ms: int
    depth: int = 0  # of reuse on the way to the image; 0: generated from noise


def fault(neighbour: Neighbour | None, wanted: Wanted, now_ms: float) -> Miss | None:
    """Return why a row must not be used; None if it may. The tenant is looked at first: nothing else of it shows."""
    if neighbour is None:
        return Miss.NONE
    if neighbour.tenant != wanted.tenant:
        return Miss.TENANT
    if neighbour.model != wanted.model:
        return Miss.MODEL
    if (neighbour.width, neighbour.height) != (wanted.width, wanted.height):
        return Miss.SIZE
    if neighbour.dimension != wanted.dimension:
        return Miss.DIMENSION
    if now_ms >= neighbour.expires_ms:
        return Miss.STALE
    if neighbour.depth != 0:
        return Miss.DERIVED
    return None if -1.0 <= neighbour.similarity <= 1.0 + ROUNDING else Miss.RUBBISH


def latent_name(tenant: str, job_id: str) -> str:
    """Return the name of a latent's object, part of its key: it identifies the tenant, whatever a row says."""
    return f"{tenant_mark(tenant)}-{job_id}"


LATENT_NAME: Final = re.compile(r"[0-9a-f]{16}-")  # how the names of latents begin


def tenant_mark(tenant: str) -> str:
    """Return the prefix of the names of a tenant's latents."""
    return hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_named_for(uri: str, tenant: str) -> bool:
    """Whether a latent's object was stored for this tenant."""
    return uri.rpartition("/")[2].startswith(f"{tenant_mark(tenant)}-")


ROUNDING = 1e-3  # by which a store's cosine of equal vectors may exceed 1
