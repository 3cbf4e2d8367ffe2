"""Orders for images, generated through the engine port that workers use, and judged where that can be done.

One order is for any number of images with the same setting; `split` cuts it into parts that are generated, stored and
resumed one by one.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from agents.components.opening import Keeping
from agents.engines import EngineFailed, Generated, GenerationTask, OpenedEngine, model_source, open_engine
from agents.profiling.generation.quality import judge, kinds, sha256_of
from planner.catalog.entries import Variant
from planner.catalog.options import resolve_options
from schemas.errors import PochadeError
from schemas.messages import GenerateOptions
from streams.store.latents import Latent

BATCH, BATCH_PIXELS = 16, 512 * 512  # a call: images, and pixels in all, at most
_IMAGES, _TAKEN = "pictures", "taken_ms"  # names of the arrays of images and their times in files of parts


def batch_of(variant: Variant) -> int:
    """Images a call: quick on a laptop, and in the memory of the card that takes one large image."""
    return max(1, min(BATCH, BATCH_PIXELS // (variant.width * variant.height)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Order:
    """n images to be generated with the same setting."""

    variant: Variant
    prompts: tuple[str, ...]
    seeds: tuple[int, ...]  # of the noise
    captions: tuple[str, ...] = ()  # what each prompt states, where it says more than that; none: the prompts
    judged_by: str = "facts"  # as in quality.judge; "": not judged
    begin: int = 0  # of the variant's steps, where it begins with `drafts` or `latents`; 0: from noise
    drafts: "np.ndarray | StoredImages | None" = None  # n of them, uint8 [n, h, w, 3], where begin > 0
    latents: "StoredLatents | None" = None  # n of them, where begin > 0 and there are no drafts
    keeps_latents: bool = False  # whether the latents of the images are kept beside them
    threads: int = 1

    def __post_init__(self) -> None:
        starts = self.latents.values if self.latents else self.drafts
        count = len(self.prompts) if starts is None else len(starts)
        assert len(self.prompts) == len(self.seeds) == count, (len(self.prompts), len(self.seeds), count)
        assert len(self.captions) in (0, len(self.prompts)), (len(self.captions), len(self.prompts))
        assert (self.begin > 0) == (starts is not None), f"begin {self.begin} and what it begins with belong together"
        assert self.drafts is None or self.latents is None, "an order begins with drafts or with latents"

    @property
    def batch(self) -> int:
        """Images a call."""
        return batch_of(self.variant)

    def split(self, size: int) -> Iterator["Order"]:
        """This order in parts of at most `size` images."""
        for at in range(0, len(self.prompts), size):
            part = slice(at, at + size)
            yield replace(
                self,
                prompts=self.prompts[part],
                seeds=self.seeds[part],
                captions=self.captions[part],
                drafts=None if self.drafts is None else _at(self.drafts, part),
                latents=None if self.latents is None else self.latents.at(part),
            )

    def digest(self) -> str:
        """A key of what decides the images: orders of equal images have equal digests, in each checkout.

        A local model is known by the contents of its files, not by where they lie or when they were written.
        """
        apart = ("variant", "drafts", "latents", "keeps_latents")
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in apart}
        begun = hashlib.sha256(self.drafts.tobytes() if isinstance(self.drafts, np.ndarray) else b"")
        if isinstance(self.drafts, StoredImages):
            begun = _hash_of(self.drafts.files, self.drafts.counts, tuple(self.drafts.rows.tolist())).copy()
        if self.latents:
            begun.update(f"{self.latents.autoencoder} {self.latents.values.dtype}".encode())
            begun.update(self.latents.values.tobytes())
        if self.keeps_latents:
            begun.update(b" with latents")
        variant = replace(self.variant, quality=None, model=_contents(self.variant))
        if variant.engine != "profile":  # which goes by the times; elsewhere they are no part of an image
            variant = replace(variant, latency_ms={1: 1.0}, load_ms=0.0)
        described = (
            ("quality", "facts", "missed", "files"),  # a part's arrays
            plain,
            kinds(),
            variant,
            begun.digest(),
        )
        return hashlib.sha256(repr(described).encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredLatents:
    """The latents of n images, all of one autoencoder."""

    values: np.ndarray  # float16 or float32 [n, channels, height, width]
    autoencoder: str  # digest

    def at(self, rows: np.ndarray | slice) -> "StoredLatents":
        """Some of them, in the order of the rows."""
        return replace(self, values=self.values[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredImages:
    """Images that stay in the files of their parts until some are read: a level's do not fit into memory."""

    files: tuple[Path, ...]
    counts: tuple[int, ...]  # images in each file
    rows: np.ndarray  # int [n]: these of all

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, rows: np.ndarray | slice) -> "StoredImages":
        """Some of them, in the order of the rows."""
        return replace(self, rows=self.rows[rows])

    def parts(self) -> Iterator["StoredImages"]:
        """These in pieces that are read at once: neighbours in one file."""
        cuts = np.flatnonzero(np.diff(self._files())) + 1
        return (replace(self, rows=rows) for rows in np.split(self.rows, cuts) if len(rows))

    def read(self) -> np.ndarray:
        """uint8 [n, h, w, 3], read now, each file once."""
        at, first, found = self._files(), np.cumsum((0, *self.counts)), list[np.ndarray | None]([None] * len(self))
        for file in np.unique(at):
            images = _member(self.files[file], _IMAGES)
            for place in np.flatnonzero(at == file):
                found[place] = images[self.rows[place] - first[file]].copy()  # a view would keep the whole part
        return np.stack([each for each in found if each is not None])

    def _files(self) -> np.ndarray:
        return np.searchsorted(np.cumsum(self.counts), self.rows, side="right")


@lru_cache(maxsize=4096)
def _hash_of(files: tuple[Path, ...], counts: tuple[int, ...], rows: tuple[int, ...]) -> Any:
    """sha-256 of stored images, which begin orders from several steps."""
    return hashlib.sha256(StoredImages(files=files, counts=counts, rows=np.array(rows)).read().tobytes())


def _at(drafts: np.ndarray | StoredImages, part: slice) -> np.ndarray | StoredImages:
    return drafts.at(part) if isinstance(drafts, StoredImages) else drafts[part]


def _read(drafts: np.ndarray | StoredImages) -> np.ndarray:
    return drafts.read() if isinstance(drafts, StoredImages) else drafts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GeneratedImages:
    """The quality of n generated images; the images themselves stay in their files until they are read."""

    quality: np.ndarray  # [n] 0..1; nan: not judged
    facts: np.ndarray  # [n] share of the stated facts that hold; nan where not judged by facts
    missed: np.ndarray  # bool [n, kinds of facts that the world reads]
    taken_ms: np.ndarray  # [n, 2] an image's part of its call, by CPU time and elapsed time; nan: not known
    files: tuple[Path, ...]
    counts: tuple[int, ...]  # images in each file

    def images(self) -> np.ndarray:
        """uint8 [n, h, w, 3], read now: of small images only."""
        return np.concatenate([_member(file, _IMAGES) for file in self.files])

    def stored(self) -> StoredImages:
        """The images where they are."""
        return StoredImages(files=self.files, counts=self.counts, rows=np.arange(sum(self.counts)))

    def latents(self) -> StoredLatents:
        """The latents that an order kept, read now."""
        values = np.concatenate([_member(file, "latents") for file in self.files])
        return StoredLatents(values=values, autoencoder=str(_member(self.files[0], "autoencoder")))

    @classmethod
    def load(cls, file: Path) -> "GeneratedImages":
        """One part. Raises OSError, ValueError, KeyError for a file that is none."""
        with np.load(file, allow_pickle=False) as kept:
            quality = kept["quality"]
            return cls(
                quality=quality, facts=kept["facts"], missed=kept["missed"], files=(file,), counts=(len(quality),),
                taken_ms=kept[_TAKEN] if _TAKEN in kept else np.full((len(quality), 2), np.nan),
            )  # fmt: skip


def joined(parts: Sequence[GeneratedImages]) -> GeneratedImages:
    """Parts in a row as one."""
    return GeneratedImages(
        quality=np.concatenate([part.quality for part in parts]),
        facts=np.concatenate([part.facts for part in parts]),
        missed=np.concatenate([part.missed for part in parts]),
        taken_ms=np.concatenate([part.taken_ms for part in parts]),
        files=tuple(file for part in parts for file in part.files),
        counts=tuple(count for part in parts for count in part.counts),
    )


def generate_into(order: Order, file: Path, keeping: Keeping | None = None) -> None:
    """Generate an order's images, judge them and write all that to `file`, which is whole or not there.

    `keeping`: as in `opened`.

    Raises:
        EngineFailed: the variant cannot be loaded.
        CannotRefine: it begins with images or latents, and the model cannot.
        PochadeError: latents are to be kept, and the model gives none.
    """
    engine = opened(order.variant, order.threads, keeping)
    order = replace(order, drafts=None if order.drafts is None else _read(order.drafts))
    calls, taken_ms = list[Generated](), list[tuple[float, float]]()
    for call in order.split(order.batch):
        cpu, wall, count = time.process_time(), time.perf_counter(), len(call.prompts)
        calls.append(generate_call(engine, call))
        spent = time.process_time() - cpu, time.perf_counter() - wall
        taken_ms += [(1000 * spent[0] / count, 1000 * spent[1] / count)] * count
    images = np.stack([image for call in calls for image in _image_arrays(call)])
    marks = judge(order.judged_by, order.variant, order.captions or order.prompts, images)
    kept = _latent_arrays(order, [latent for call in calls for latent in call.latents]) if order.keeps_latents else {}
    kept |= {_IMAGES: images, _TAKEN: np.array(taken_ms)}
    partial = file.with_suffix(".partial")
    with partial.open("wb") as out:
        np.savez_compressed(out, allow_pickle=False, **marks._asdict(), **kept)
    partial.replace(file)


def generate_images(engine: OpenedEngine, order: Order) -> list[np.ndarray]:
    """One call of an engine: uint8 [h, w, 3] each."""
    return _image_arrays(generate_call(engine, order))


def generate_call(engine: OpenedEngine, order: Order) -> Generated:
    """One call of an engine, with latents if the order keeps them."""
    tasks = [
        GenerationTask(request_id=f"seed-{seed}", prompt=prompt, seed=seed, over=start)
        for prompt, seed, start in zip(order.prompts, order.seeds, _starts(order), strict=True)
    ]
    how = resolve_options(GenerateOptions(), order.variant, order.begin)._replace(n=len(tasks))
    generated = engine.generate(tasks, how, lambda: False, wants_latents=order.keeps_latents)
    assert generated is not None, "should_stop never stops a measurement's images"
    return generated


def _starts(order: Order) -> Sequence[Image.Image | Latent | None]:
    """Return what each image begins with; None for noise."""
    if order.latents is not None:
        return [Latent(values=each, autoencoder=order.latents.autoencoder) for each in order.latents.values]
    return [None] * len(order.prompts) if order.drafts is None else [Image.fromarray(d) for d in _read(order.drafts)]


def _image_arrays(generated: Generated) -> list[np.ndarray]:
    return [np.asarray(image.convert("RGB")) for image in generated.images]


def _latent_arrays(order: Order, latents: Sequence[Latent | None]) -> dict[str, np.ndarray]:
    """The arrays that `GeneratedImages.latents` reads."""
    given = [latent for latent in latents if latent is not None]
    if len(given) < len(latents):
        lacking = f"{len(latents) - len(given)} of {len(latents)} images"
        raise PochadeError(f"level {order.variant.name!r} gives no latent of {lacking}: reuse of it cannot be measured")
    return {"latents": np.stack([latent.values for latent in given]), "autoencoder": np.array(given[0].autoencoder)}


_open: dict[str, OpenedEngine] = {}  # of this process: the last one


def opened(variant: Variant, threads: int, keeping: Keeping | None) -> OpenedEngine:
    """The variant's engine, warmed up; kept until another is opened. Raises EngineFailed.

    `keeping`: where its volume is, which has its compiled code; None for the defaults.
    """
    key = repr((replace(variant, quality=None), threads, keeping))
    if key not in _open:
        _open.clear()  # before the next one is loaded: two may not fit
        engine = open_engine(variant.engine, variant, threads, keeping)
        generate_images(engine, Order(variant=variant, prompts=("a red heart",), seeds=(0,)))
        _open[key] = engine
    return _open[key]


def _contents(variant: Variant) -> str:
    """Names and sha-256 of a local model's weights and configurations; the model's name if it is elsewhere."""
    try:
        folder = Path(model_source(variant.model)) if variant.model else Path()
    except EngineFailed:
        return variant.model
    if not variant.model or not folder.is_dir():
        return variant.model
    files = sorted(file for file in folder.rglob("*") if file.suffix in (".safetensors", ".json"))
    return " ".join(f"{file.relative_to(folder)} {sha256_of(file)}" for file in files)


def _member(file: Path, name: str) -> np.ndarray:
    with np.load(file, allow_pickle=False) as kept:
        return np.asarray(kept[name])
