"""Images that clients upload for an edit: checked, and stored as `pochade put` does, readable by their tenant only."""

import asyncio
import contextlib
import io
from collections.abc import Iterator
from typing import Final, NamedTuple

from PIL import Image

from agents.gateway.edits.forms import Form
from agents.gateway.refusals import INVALID, SERVER_TYPE, Kind, Refusal
from planner.serving.admission.inputs import input_name
from streams.store.input_images import InvalidInput, Opened, open_input
from streams.store.port import ImageStore, StoreUnavailable

IMAGE, MASK = "image", "mask"
STORE_KIND: Final = Kind(503, SERVER_TYPE)  # no request is written yet, so a client may repeat


class Stored(NamedTuple):
    """A stored image."""

    uri: str
    extension: str  # of what it is: png, jpg, webp


class Uploads:
    """Stores the images of forms. One is decoded at a time: decoded it may fill 130 MB."""

    def __init__(self, store: ImageStore, max_uploads: int) -> None:
        self._store = store
        self._max_uploads = max_uploads
        self._reading = 0
        self._decoding = asyncio.Lock()

    @contextlib.contextmanager
    def one_of_few(self) -> Iterator[None]:
        """Read one of `gateway.max_uploads` images or forms at once. Raises Refusal if there are as many."""
        if self._reading >= self._max_uploads:
            reason = f"{self._reading} uploads are being read, and gateway.max_uploads is {self._max_uploads}"
            raise Refusal("busy", reason, retry_after_ms=1000)
        self._reading += 1
        try:
            yield
        finally:
            self._reading -= 1

    async def store(self, form: Form, tenant: str) -> dict[str, str]:
        """Store the image of a form, and its mask; return `image` and `mask` as their URIs.

        Equal images of a tenant have equal URIs. What is fully transparent in the mask is edited, or in the image where
        no mask is sent. Both are compared upright; the image is stored as it was sent, and its worker turns it.

        Raises Refusal: an image that is none of an allowed kind, a mask that does not fit, or the store is away.
        """
        async with self._decoding:
            return await asyncio.to_thread(self._stored, form.files[IMAGE][0], form.files.get(MASK, [None])[0], tenant)

    async def one(self, data: bytes, name: str, tenant: str) -> "Stored":
        """Store one image of a tenant. `name`: of its parameter. Raises Refusal, as `store`."""
        async with self._decoding:
            return await asyncio.to_thread(self._one, data, name, tenant)

    def _one(self, data: bytes, name: str, tenant: str) -> "Stored":
        extension = _opened(data, name).extension
        return Stored(self._put(tenant, data, extension), extension)

    def _put(self, tenant: str, data: bytes, extension: str) -> str:
        try:
            return self._store.put(input_name(tenant), data, extension)
        except StoreUnavailable as error:
            raise Refusal("unavailable", f"the image store is away: {error}", kind=STORE_KIND) from error

    def _stored(self, data: bytes, mask: bytes | None, tenant: str) -> dict[str, str]:
        opened = _opened(data, IMAGE)
        image = opened.image
        edited = edited_of(_opened(mask, MASK).image if mask is not None else image)
        if mask is not None and edited is None:
            fault = "mask must have fully transparent parts: those are edited; leave it out to edit the whole image"
            raise Refusal(INVALID, fault, param=MASK)
        if edited is not None and edited.size != image.size:
            sizes = "{} x {} px, not {} x {}".format(*image.size, *edited.size)
            raise Refusal(INVALID, f"mask must be as large as image: {sizes}", param=MASK)
        uris = {IMAGE: self._put(tenant, data, opened.extension)}
        if edited is not None:
            out = io.BytesIO()
            edited.save(out, "PNG")
            uris[MASK] = self._put(tenant, out.getvalue(), "png")
        return uris


def check_files(form: Form) -> None:
    """Raise Refusal unless a form has one image, and at most one mask beside it."""
    for name in form.files:
        if name not in (IMAGE, MASK):
            raise Refusal("unsupported", f"unknown file {name!r:.80}: known are image, mask", param=name[:80])
    for name, files in form.files.items():
        if len(files) > 1:
            raise Refusal("unsupported", f"{name} must be one image: got {len(files)}", param=name)
    if IMAGE not in form.files:
        raise Refusal(INVALID, "image must be there, as a file", param=IMAGE)


def uri_before(tenant: str) -> str:
    """Return what stands for the URI of a tenant's image while it is not stored, so that all else can be checked."""
    return f"memory:00/{input_name(tenant)}-{'0' * 16}.png"


def edited_of(image: Image.Image) -> Image.Image | None:
    """Return the pipeline's mask, white where an image is fully transparent; None if it is opaque."""
    if not image.has_transparency_data:
        return None
    alpha = image.convert("RGBA").getchannel("A")
    if not alpha.histogram()[0]:
        return None
    return alpha.point(lambda value: 255 * (value == 0))


def _opened(data: bytes, name: str) -> Opened:
    try:
        return open_input(data, name)
    except InvalidInput as error:
        raise Refusal(INVALID, str(error), param=name) from None
