"""Whose an input image is: `pochade put` stores it under a name that carries a digest of its tenant.

A request names its images by their URI alone, so that it is known from the URI whether they are its own tenant's.

    .../3f/input.0123456789abcdef-89ab...cdef.png
                 digest of the tenant  of the content
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Final

from schemas.errors import InvalidRequest
from schemas.messages import GenerateOptions, GenerateRequest

PREFIX: Final = "input."
_KEY: Final = re.compile(r".*/[0-9a-f]{2}/(input\.[0-9a-f]{16})-[0-9a-f]{16}\.[A-Za-z0-9]{1,16}|memory:[0-9a-f]{2}/"
                         r"(input\.[0-9a-f]{16})-[0-9a-f]{16}\.[A-Za-z0-9]{1,16}")  # fmt: skip


def input_name(tenant: str) -> str:
    """Return the name under which a tenant's input images are stored."""
    return PREFIX + hashlib.sha256(tenant.encode(errors="replace")).hexdigest()[:16]


def is_input(uri: str) -> bool:
    """Whether a URI is that of an input image, of whatever tenant."""
    return _KEY.fullmatch(uri) is not None


def inputs_of(options: GenerateOptions) -> Iterator[tuple[str, str]]:
    """Yield (field, URI) of each image that a request names."""
    yield from (("control_images", uri) for uri in options.control_images)
    yield from ((name, uri) for name, uri in (("image", options.image), ("mask", options.mask)) if uri)


def check_inputs(request: GenerateRequest) -> None:
    """Raise InvalidRequest for an image that is not one that `pochade put` stored for the request's tenant."""
    own = input_name(request.tenant)
    for name, uri in inputs_of(request.options):
        found = _KEY.fullmatch(uri)
        who = f"(request {request.request_id[:80]})"
        if found is None:
            limit = f"{name} must be the URI of an image in the store: got {uri!r:.40} {who}"
            raise InvalidRequest(limit, field=name, command="`pochade put FILE` prints it")
        if own not in (found[1], found[2]):
            fault = f"{name} must be an image of tenant {request.tenant!r:.80}: {uri:.200} is another tenant's {who}"
            raise InvalidRequest(fault, field=name, command=f"`pochade put --tenant {request.tenant:.80}` stores it")
