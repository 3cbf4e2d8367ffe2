"""Whether stored images are what their results say, byte for byte."""

import hashlib
from collections.abc import Callable, Collection, Mapping

from replay.verify.audit.figures import ImageFigures
from schemas.errors import PochadeError
from streams.store.port import ImageStore, Stored, StoreUnavailable


def verified(store: ImageStore, uri: str, sha256: str) -> bytes:
    """The bytes of an image. Raises PochadeError: they have gone, or are not those with this hash."""
    data = store.get(uri)
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise PochadeError(f"{uri} has sha256 {found}, its result says {sha256 or 'nothing'}")
    return data


def check(
    store: ImageStore,
    named: Mapping[str, Collection[str]],
    orphans: Collection[Stored],
    on_checked: Callable[[], None] = lambda: None,
) -> ImageFigures:
    """Compare every named image with its hash. Raises StoreUnavailable."""
    broken = []
    for uri, hashes in sorted(named.items()):
        try:
            for sha256 in sorted(hashes):
                verified(store, uri, sha256)
        except StoreUnavailable:  # says nothing about its images
            raise
        except PochadeError as error:
            broken.append(str(error))
        on_checked()
    return ImageFigures(
        checked=len(named),
        broken=tuple(broken),
        orphans=len(orphans),
        orphan_bytes=sum(each.bytes for each in orphans),
    )
