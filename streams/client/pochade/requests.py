"""A request as a caller states it, with the key by which its repetitions are one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from pochade.values import Refused

FILES = ("image", "mask")
LONGEST_S = 1e9  # deadline: 32 years


class Options(TypedDict, total=False):
    """Options of a request besides its prompt; the deployment chooses those left out."""

    quality: str  # low | medium | high | auto
    n: int  # images
    width: int  # px
    height: int  # px
    seed: int
    steps: int  # denoising steps
    guidance: float
    negative_prompt: str
    model: str  # a variant or a base model
    adapters: Sequence[str]
    adapter_weights: Sequence[float]
    controls: Sequence[str]
    control_images: Sequence[str]  # URIs in the deployment's store
    control_weights: Sequence[float]
    image: bytes | os.PathLike[str] | str  # to begin with: bytes or a file to upload, or a URI in the store
    mask: bytes | os.PathLike[str] | str
    strength: float
    quality_at_least: float  # share of images kept as this one that must be right; REJECTED where none promises it
    reuse: str  # off | own
    strict: bool  # reject the request rather than override an option
    tier: str  # interactive | standard | batch
    tenant: str  # over Kafka; over HTTP the API key decides
    deadline_s: float  # from when it is handed over; past it the request ends as Expired
    request_id: str  # over Kafka, instead of an idempotency key: an id that no other request has
    idempotency_key: str  # equal calls with an equal key are one request; without it the repetitions of one call are


@dataclass(frozen=True)
class Request:
    """One call's request: the same value in all its repetitions."""

    fields: Mapping[str, Any]  # as the wire names them
    key: str
    deadline_s: float | None = None  # from when it is handed over
    files: Mapping[str, bytes] = field(default_factory=dict)  # image, mask
    is_key_stated: bool = False  # by the caller, and perhaps by an earlier process


def request_for(prompt: str, options: Mapping[str, Any]) -> Request:
    """Return the request of a call, with a new key unless the caller states one. Files are read now.

    Raises Refused: the deadline is no time that can be told.
    """
    fields = {name: value for name, value in {"prompt": prompt, **options}.items() if value is not None}
    key, deadline_s = fields.pop("idempotency_key", None), fields.pop("deadline_s", None)
    if deadline_s is not None and not abs(deadline_s) < LONGEST_S:
        message = f"deadline_s must be a number of seconds below {LONGEST_S:g}: got {deadline_s}"
        raise Refused(400, message, "invalid", "deadline_s")
    files = {}
    for name in FILES:
        if isinstance(value := fields.get(name), os.PathLike):
            with open(value, "rb") as file:
                files[name] = file.read()
        elif isinstance(value, bytes):
            files[name] = value
    fields = {name: value for name, value in fields.items() if name not in files}
    return Request(fields, os.urandom(16).hex() if key is None else key, deadline_s, files, key is not None)
