"""Images into and out of the object store, one try at a time: `WindowLogic` decides when there is another."""

import contextlib
import hashlib
import io
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from PIL import Image, ImageFile, PngImagePlugin

from agents.worker.calls import BackgroundCalls
from planner.catalog.options import ResolvedOptions
from planner.serving.admission.inputs import check_inputs, inputs_of
from planner.serving.again import public
from schemas.errors import PochadeError
from schemas.messages import GenerateJob, ImageRef, LatentRef, Made
from streams import metrics
from streams.store.input_images import InvalidInput, Opened, open_input, open_stored
from streams.store.latents import EXTENSION, Latent, to_bytes
from streams.store.port import ImageStore, StoreUnavailable, Unreadable

log = logging.getLogger(__name__)
ImageFile.MAXBLOCK = 1 << 20  # bytes of a chunk of PNG files: what signs a file makes nine calls for each

STORES = 8  # images that are stored at a time: a client of S3 has ten connections
T = TypeVar("T")
Waits = Callable[[], contextlib.AbstractContextManager[None]]


class DraftFault(PochadeError):
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
    """No image of a request may be stored."""


class SafeImage(NamedTuple):
    """An image as it may be stored."""

    image: Image.Image
    score: float | None = None  # None: it was not checked
    safety: str = ""  # flag | blur: what was done; "": nothing

    @property
    def is_as_generated(self) -> bool:
        """Whether its latent may be stored, too."""
        return self.safety != "blur"


class Storing:
    """What is to be stored of a job, and what of it is."""

    def __init__(
        self, job_id: str, images: Sequence[SafeImage], latent: Latent | None = None, latent_name: str = "",
        texts: Sequence[Mapping[str, str]] = (), seal: Callable[[int, bytes], bytes] = lambda _number, data: data,
        made: Made | None = None,
    ) -> None:  # fmt: skip
        """`texts`: of each PNG file, by keyword; (): none. `seal`: `Stage.seal` of this job. `made`: how they were."""
        self._images, self.made = images, made
        files = (_png(each.image, text) for each, text in zip(images, texts or [{}] * len(images), strict=True))
        self._data = [seal(number, file) for number, file in enumerate(files)]
        self._uris: list[str | None] = [None] * len(images)
        self._job_id, self._latent, self._latent_name = job_id, latent, latent_name
        self.latent_ref: LatentRef | None = None  # None: the store did not take it, or there was none
        self.lacking: StoreUnavailable | None = None  # why an image is not stored; None: all are

    def puts(self, store: ImageStore) -> list[Callable[[], None]]:
        """Return the calls of the store that are to be made, which raise what it raises."""
        return [partial(self._put, store, at) for at, uri in enumerate(self._uris) if uri is None]

    def _put(self, store: ImageStore, at: int) -> None:
        self._uris[at] = store.put(self._job_id, self._data[at])

    def keeps_latent(self) -> bool:
        """Whether there is a latent to store, of a job whose images are stored."""
        return self._latent is not None and self.lacking is None

    def keep_latent(self, store: ImageStore) -> None:
        """Store the latent, unless the store does not take it now: no request waits for it."""
        assert self._latent is not None
        data, autoencoder, self._latent = to_bytes(self._latent), self._latent.autoencoder, None
        try:
            uri = store.put(self._latent_name, data, EXTENSION)
        except StoreUnavailable as error:
            log.warning("a latent is not stored: %s", error)
            metrics.FALLBACKS.labels("worker", "latent").inc()
            return
        sha256 = hashlib.sha256(data).hexdigest()
        self.latent_ref = LatentRef(uri=uri, sha256=sha256, bytes=len(data), autoencoder=autoencoder)

    def refs(self) -> list[ImageRef]:
        """Return the references to the images; all of them are stored."""
        found = zip(self._uris, self._images, self._data, strict=True)
        return [_ref(uri, safe, data) for uri, safe, data in found if uri is not None]


class WorkerImages:
    """Stores a worker's images, and opens drafts and inputs. For use by one thread."""

    def __init__(self, store: ImageStore, aside: Waits = contextlib.nullcontext) -> None:
        """`aside`: around each call of the store."""
        self._store = store
        self._aside = aside
        self._calls = BackgroundCalls(STORES, "stores")

    def close(self) -> None:
        """End the threads that store."""
        self._calls.close()

    def _together(self, calls: Sequence[Callable[[], T]]) -> list[T | StoreUnavailable]:
        """Return what calls of the store return or raise, STORES at a time; the first is made in this thread."""
        if not calls:
            return []
        found: list[T | StoreUnavailable] = []
        with self._aside():
            asked = [self._calls.submit(call).result for call in calls[1:]]
            for result in (calls[0], *asked):
                try:
                    found.append(result())
                except StoreUnavailable as error:
                    found.append(error)
        return found

    def store(self, wanted: Sequence[Storing]) -> None:
        """Try to store what is not stored yet of the images of jobs, as PNG, and then of their latents."""
        puts = [(each, put) for each in wanted for put in each.puts(self._store)]
        for each in wanted:
            each.lacking = None
        for (each, _), error in zip(puts, self._together([put for _, put in puts]), strict=True):
            each.lacking = error or each.lacking
        self._together([partial(each.keep_latent, self._store) for each in wanted if each.keeps_latent()])

    def drafts(self, job: GenerateJob, how: ResolvedOptions) -> tuple[Image.Image, ...]:
        """The RGB images that a job refines, one for each of its own and of their size.

        Raises:
            DraftFault: one is missing, broken or of another size, or they are too few.
            StoreUnavailable, Unreadable: the store is away, or gives other bytes than were stored; it may answer later.
        """
        if not how.refine_from_step:
            raise DraftFault("steps", f"step {job.refine_from_step} of {how.steps} leaves none to take")
        last = job.path[-1] if job.path else None
        refs = (last.image, *last.more) if last and last.image else ()
        wanted = job.classified.request.options.n
        if len(refs) != wanted:
            raise DraftFault("number", f"{len(refs)} drafts for {wanted} images")
        size = how.width, how.height
        return tuple(_opened(ref.uri, self._draft(ref.uri), size) for ref in refs)

    def _draft(self, uri: str) -> bytes:
        try:
            return self._get(uri)
        except (StoreUnavailable, Unreadable):
            raise
        except PochadeError as error:
            raise DraftFault("missing", str(error)) from error

    def inputs(self, job: GenerateJob, how: ResolvedOptions) -> Inputs:
        """The images that a request names, in the size that is generated.

        Raises:
            InvalidRequest: one is another tenant's, is not in the store, or is no image of an allowed size.
            StoreUnavailable: it may answer later.
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
            data = self._get(uri)
        except StoreUnavailable:
            raise
        except PochadeError as error:
            raise InvalidInput(f"{what} is not in the store: {error}; store it again", field=what) from None
        try:
            return open_input(data, f"{what} {uri:.200}", mode=mode, size=size)
        except InvalidInput as error:
            error.field = what
            raise

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
        with open_stored(data) as image:
            if image.size != size:
                sizes = "{} x {} px, not {} x {}".format(*image.size, *size)
                raise DraftFault("size", f"{uri} has {sizes}")
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:  # what PIL raises for bytes that are not an image
        raise DraftFault("broken", f"{uri} does not decode: {error}") from error


def texts_of(prompt: str, made: Made, number: int) -> dict[str, str]:
    """Return the texts of the PNG file of a request's image, the first one's number being 0, by their keywords.

    `parameters`: as AUTOMATIC1111's web UI writes and reads them; `pochade`: all of it, as JSON. They name no request,
    time or worker, and no price of one: an image that is made again has the same bytes.
    """
    known = public(made, number)
    facts: dict[str, object] = {
        "Steps": made.steps, "Sampler": made.scheduler, "CFG scale": made.guidance, "Seed": known["seed"],
        "Size": f"{made.width}x{made.height}", "Model hash": made.weights.get("model", "")[:10], "Model": made.variant,
        "Denoising strength": made.strength,
    }  # fmt: skip
    avoided = [f"Negative prompt: {made.negative_prompt}"] if made.negative_prompt else []
    said = ", ".join(f"{name}: {value}" for name, value in facts.items() if value not in (None, ""))
    whole = json.dumps({"prompt": prompt, **known}, ensure_ascii=False)
    return {"parameters": "\n".join([prompt, *avoided, said]), "pochade": whole}


def _png(image: Image.Image, texts: Mapping[str, str]) -> bytes:
    out, info = io.BytesIO(), PngImagePlugin.PngInfo()
    for keyword, text in texts.items():
        info.add_text(keyword, text)
    image.save(out, "PNG", pnginfo=info)
    return out.getvalue()
