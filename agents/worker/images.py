"""Images into and out of the object store, as a worker does it: its outages are waited out."""

import contextlib
import hashlib
import io
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

import tenacity
from PIL import Image

from agents.worker.calls import BackgroundCalls
from planner.catalog.options import ResolvedOptions
from planner.serving.admission.inputs import check_inputs, inputs_of
from planner.serving.backoff import DRAFT_S, MAX_RETRY_S, RETRY_S, backoff_s
from schemas.errors import PochadeError
from schemas.messages import GenerateJob, ImageRef, LatentRef
from streams import metrics
from streams.store.input_images import InvalidInput, Opened, open_input
from streams.store.latents import EXTENSION, Latent, to_bytes
from streams.store.port import ImageStore, StoreUnavailable, Unreadable

log = logging.getLogger(__name__)

BACKOFF = tenacity.wait_exponential(RETRY_S, max=MAX_RETRY_S)
STORES = 8  # images that are stored at a time: a client of S3 has ten connections
T = TypeVar("T")
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


class ToStore(NamedTuple):
    """What is to be stored of a job."""

    job_id: str
    images: Sequence[SafeImage]
    latent: Latent | None = None
    latent_name: str = ""


class Stored(NamedTuple):
    """What was stored of a job."""

    images: tuple[ImageRef, ...]
    latent: LatentRef | None  # None: the store did not take it, or there was none


class WorkerImages:
    """Stores a worker's images, and fetches drafts, and waits out outages of the store. For use by one thread."""

    def __init__(
        self, store: ImageStore, waits: Waits = contextlib.nullcontext, aside: Waits = contextlib.nullcontext
    ) -> None:
        """`waits`: around what is waited between two tries, which is no fault of a job; `aside`: around each try."""
        self._store = store
        self._waits = waits
        self._aside = aside
        self._calls = BackgroundCalls(STORES, "stores")

    def close(self) -> None:
        """End the threads that store."""
        self._calls.close()

    def _sleep(self, seconds: float) -> None:
        with self._waits():
            time.sleep(seconds)

    def _together(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Return what calls of the store return, STORES at a time; those that it refuses are repeated, however long."""
        done, failures = dict[int, T](), 0
        while len(done) < len(calls):
            if failures:
                self._sleep(backoff_s(failures))
            failures += 1
            with self._aside():
                own, *others = [at for at in range(len(calls)) if at not in done]
                asked = [(at, self._calls.submit(calls[at]).result) for at in others]
                for at, result in [(own, calls[own]), *asked]:  # the first is made in this thread
                    with contextlib.suppress(StoreUnavailable):
                        done[at] = result()
        return [done[at] for at in range(len(calls))]

    def keep(self, wanted: Sequence[ToStore]) -> list[Stored]:
        """Store the images of jobs as PNG, as they may be, all at the same time.

        An outage of the store is waited out in place, however long. A latent is left out instead.
        """
        images = [(each.job_id, safe, _png(safe.image)) for each in wanted for safe in each.images]
        uris = self._together([partial(self._store.put, name, data) for name, _, data in images])
        refs = iter([_ref(uri, safe, data) for uri, (_, safe, data) in zip(uris, images, strict=True)])
        named = [(each.latent_name, each.latent) for each in wanted if each.latent is not None]
        latents = iter(self._together([partial(self._keep_latent, *each) for each in named]))
        return [
            Stored(tuple(islice(refs, len(each.images))), None if each.latent is None else next(latents))
            for each in wanted
        ]

    def _keep_latent(self, name: str, latent: Latent) -> LatentRef | None:
        """Store a latent; None where the store does not take it now: no request waits for it."""
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
        size, again = (how.width, how.height), (StoreUnavailable, Unreadable)
        return tuple(_opened(ref.uri, self._fetch(ref.uri, again), size) for ref in refs)

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
        """Open an image that a producer names; one that is gone is the producer's error at once.

        `put` has seen that it can be read before it returned its URI; waiting would let any producer hold up a worker.
        """
        try:
            data = self._fetch(uri, StoreUnavailable)
        except NoDraft as error:
            if error.kind == "missing":
                raise InvalidInput(f"{what} is not in the store: {error}; store it again", field=what) from None
            raise
        try:
            return open_input(data, f"{what} {uri:.200}", mode=mode, size=size)
        except InvalidInput as error:
            error.field = what
            raise

    def _fetch(self, uri: str, again: type[PochadeError] | tuple[type[PochadeError], ...]) -> bytes:
        """Return the bytes of a URI. `again`: errors after which it is asked for again, for DRAFT_S."""
        get = tenacity.retry(
            retry=tenacity.retry_if_exception_type(again), wait=BACKOFF, stop=tenacity.stop_after_delay(DRAFT_S),
            reraise=True, sleep=self._sleep,
        )(self._get)  # fmt: skip
        try:
            return get(uri)
        except StoreUnavailable as error:
            raise NoDraft("store", f"{error}; waited {DRAFT_S:g} s") from error
        except PochadeError as error:
            raise NoDraft("missing", str(error)) from error

    def _get(self, uri: str) -> bytes:
        with self._aside():
            return self._store.get(uri)


def _ref(uri: str, safe: SafeImage, data: bytes) -> ImageRef:
    return ImageRef(
        uri=uri, sha256=hashlib.sha256(data).hexdigest(), width=safe.image.width, height=safe.image.height,
        bytes=len(data), unsafe=safe.score, safety=safe.safety,
    )  # fmt: skip


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
