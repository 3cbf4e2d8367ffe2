"""Images into and out of the object store, as a worker does it: its outages are waited out."""

import contextlib
import hashlib
import io
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tenacity
from PIL import Image

from planner.catalog.options import ResolvedOptions
from planner.serving.admission.inputs import check_inputs, inputs_of
from planner.serving.backoff import DRAFT_S, MAX_RETRY_S, RETRY_S
from schemas.errors import PochadeError
from schemas.messages import GenerateJob, ImageRef, LatentRef
from streams import metrics
from streams.store.input_images import InvalidInput, Opened, open_input
from streams.store.latents import EXTENSION, Latent, to_bytes
from streams.store.port import ImageStore, StoreUnavailable

log = logging.getLogger(__name__)

BACKOFF = tenacity.wait_exponential(RETRY_S, max=MAX_RETRY_S)
Waits = Callable[[], contextlib.AbstractContextManager[None]]


class NoDraft(PochadeError):
    """A draft cannot be refined; `kind` is one of few words for a counter."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class Inputs(NamedTuple):
    """The images that a request names, opened."""

    controls: tuple[Image.Image, ...] = ()  # RGB
    image: Image.Image | None = None  # RGB
    mask: Image.Image | None = None  # L
    changed: tuple[str, ...] = ()  # what was done to them: "image: RGBA -> RGB"


class Blocked(PochadeError):
    """An image of a request must not be shown, as its tenant has it."""


class SafeImage(NamedTuple):
    """An image as it may be stored."""

    image: Image.Image
    score: float | None = None  # None: it was not checked
    safety: str = ""  # flag | blur: what was done; "": nothing

    @property
    def is_as_generated(self) -> bool:
        """Whether its latent may be stored, too."""
        return self.safety != "blur"


Check = Callable[[Sequence[Image.Image], str], list[SafeImage]]  # a request's images and its tenant; raises Blocked


def unchecked(images: Sequence[Image.Image], _tenant: str) -> list[SafeImage]:
    """Return images as they are, where no checker is set."""
    return [SafeImage(image) for image in images]


class WorkerImages:
    """Stores a worker's images, and fetches drafts, and waits out outages of the store."""

    def __init__(self, store: ImageStore, waits: Waits = contextlib.nullcontext) -> None:
        """`waits`: around what is waited between two tries, which is no fault of a job."""
        self._store = store
        self._waits = waits

    def _sleep(self, seconds: float) -> None:
        with self._waits():
            time.sleep(seconds)

    def keep(self, name: str, safe: SafeImage) -> ImageRef:
        """Store an image as PNG, as it may be. An outage of the store is waited out in place, however long; the
        watchdog bounds each try."""
        image, data = safe.image, _png(safe.image)
        put = tenacity.retry(retry=tenacity.retry_if_exception_type(StoreUnavailable), wait=BACKOFF, sleep=self._sleep)(
            self._store.put
        )
        return ImageRef(
            uri=put(name, data), sha256=hashlib.sha256(data).hexdigest(), width=image.width, height=image.height,
            bytes=len(data), unsafe=safe.score, safety=safe.safety,
        )  # fmt: skip

    def keep_latent(self, name: str, latent: Latent) -> LatentRef | None:
        """Store a latent; None where the store does not take it now: nobody waits for it."""
        data = to_bytes(latent)
        try:
            uri = self._store.put(name, data, EXTENSION)
        except StoreUnavailable as error:
            log.warning("a latent is not stored: %s", error)
            metrics.FALLBACKS.labels("worker", "latent").inc()
            return None
        sha256 = hashlib.sha256(data).hexdigest()
        return LatentRef(uri=uri, sha256=sha256, bytes=len(data), autoencoder=latent.autoencoder)

    def drafts(self, job: GenerateJob, how: ResolvedOptions) -> tuple[Image.Image, ...]:
        """The RGB images that a job refines, one for each of its own and of their size.

        Raises:
            NoDraft: one is missing, broken or of another size, they are too few, or the store is away for too long.
        """
        last = job.path[-1] if job.path else None
        refs = (last.image, *last.more) if last and last.image else ()
        wanted = job.classified.request.options.n
        if len(refs) != wanted:
            raise NoDraft("number", f"{len(refs)} drafts for {wanted} images")
        return tuple(_opened(ref.uri, self._fetch(ref.uri), (how.width, how.height)) for ref in refs)

    def inputs(self, job: GenerateJob, how: ResolvedOptions) -> "Inputs":
        """The images that a request names, in the size that is generated.

        Raises:
            InvalidRequest: one is another tenant's, is not in the store, or is no image of an allowed size.
            NoDraft: the store is away for too long.
        """
        request = job.classified.request
        check_inputs(request)  # who wrote it may not have
        opened = [
            (name, self._input(uri, name, (how.width, how.height), "L" if name == "mask" else "RGB"))
            for name, uri in inputs_of(request.options)
        ]
        named = {name: each.image for name, each in opened}
        return Inputs(
            controls=tuple(each.image for name, each in opened if name == "control_images"),
            image=named.get("image"),
            mask=named.get("mask"),
            changed=tuple(dict.fromkeys(f"{name}: {change}" for name, each in opened for change in each.changed)),
        )

    def _input(self, uri: str, what: str, size: tuple[int, int], mode: str) -> Opened:
        try:
            data = self._fetch(uri)
        except NoDraft as error:
            if error.kind == "missing":
                raise InvalidInput(f"{what} is not in the store: {error}; store it again") from None
            raise
        return open_input(data, f"{what} {uri:.200}", mode=mode, size=size)

    def _fetch(self, uri: str) -> bytes:
        get = tenacity.retry(
            retry=tenacity.retry_if_exception_type(StoreUnavailable), wait=BACKOFF,
            stop=tenacity.stop_after_delay(DRAFT_S), reraise=True, sleep=self._sleep,
        )(self._store.get)  # fmt: skip
        try:
            return get(uri)
        except StoreUnavailable as error:
            raise NoDraft("store", f"{error}; waited {DRAFT_S:g} s") from error
        except PochadeError as error:
            raise NoDraft("missing", str(error)) from error


def _opened(uri: str, data: bytes, size: tuple[int, int]) -> Image.Image:
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.size != size:
                told = "{} x {} px, not {} x {}".format(*image.size, *size)
                raise NoDraft("size", f"{uri} has {told}")
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:  # what PIL raises for bytes that are not an image
        raise NoDraft("broken", f"{uri} does not decode: {error}") from error


def _png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
