"""Images generated for fresh prompts, with the label the discriminators are to predict; kept in the work folder."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

import numpy as np
from rich.progress import track

from agents.lab.family import VARIANTS, folder_of
from agents.lab.generator import ImageGenerator
from agents.lab.training.discriminators import slot_labels
from agents.lab.training.loop import scaled
from agents.lab.world import facts, free_form, scenes
from agents.lab.world.reading import Reading, read
from agents.lab.world.stream import EASY, STANDARD

CHUNK: Final = 256  # images a file; a run that was broken off loses no more
_BATCH: Final = 32


class PromptGenerator(Protocol):
    """Generates images of prompts: `agents.lab.generator.ImageGenerator`, or a fake."""

    def generate(self, prompts: Sequence[str], seeds: Sequence[int]) -> np.ndarray: ...


class Judged(NamedTuple):
    """Prompts with generated images; `right` is what to predict, `objects` is 0 outside the grammar."""

    prompts: np.ndarray  # str [n]
    images: np.ndarray  # uint8 [n, 48, 48, 3]
    right: np.ndarray  # float [n]: 0 or 1 for captions, graded outside the grammar
    objects: np.ndarray  # int [n]
    shown: np.ndarray  # int8 [n, 58]: what stands where, as `slot_labels.shown_by`
    fits: np.ndarray  # int8 [n, 20]: which of it is as asked, as `slot_labels.fits`

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def captioned(self) -> "Judged":
        """The rows whose prompts are inside the grammar."""
        return self.at(self.objects > 0)

    def at(self, rows: np.ndarray | slice) -> "Judged":
        """Some of the rows."""
        return Judged(*(column[rows] for column in self))


def clarity(seen: Reading, scene: scenes.Scene, named: frozenset[str]) -> float:
    """Return 0..1 for a prompt outside the grammar: how clear the things shown are, and whether they match its words.

    Graded, not yes or no: nearly every draft of such a prompt is unclear, and a judge must still rank them.
    """
    wanted = scene.objects[0]
    if not seen.found:
        return 0.0
    clear = float(np.mean([np.clip((thing.overlap - 0.45) / 0.45, 0, 1) for thing in seen.found]))
    met = ("background" not in named or seen.background == scene.background) and any(
        ("shape" not in named or f.shape == wanted.shape) and ("colour" not in named or f.colour == wanted.colour)
        for f in seen.found
    )
    return clear if met else clear / 4


def prompt_for(rng: np.random.Generator, easy: float) -> tuple[str, scenes.Scene, frozenset[str] | None]:
    """A prompt of the standard stream, or of the easy one at a share of `easy`; one in eight is free-form.

    With it come its scene and, of a free-form one, what it names of that.
    """
    kind = rng.random()
    if kind < 0.08:
        return free_form.hinted(rng)
    prompt, scene = free_form.asked(rng, EASY if rng.random() < easy else STANDARD)
    return (free_form.sentence(rng), scene, frozenset()) if kind < 0.13 else (prompt, scene, None)


def label(
    prompted: tuple[str, scenes.Scene, frozenset[str] | None], seen: Reading
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return `right`, `shown` and `fits` of an image; right is 1 if all facts of a caption hold, else 0, or clarity."""
    _, scene, named = prompted
    shown = slot_labels.shown_by(seen)
    if named is None:
        fits = slot_labels.fits(scene, shown, is_tidy=seen.is_tidy)
        return float(facts.compare(scene, seen).all_hold), shown, fits
    return clarity(seen, scene, named), shown, slot_labels.no_labels()


def generate_chunk(generator: PromptGenerator, seed: int, chunk: int, easy: float = 0.0) -> Judged:
    """Generate and label the prompts of one chunk, which `seed`, `chunk` and `easy` alone decide."""
    rng = np.random.default_rng([seed, chunk])
    drawn = [prompt_for(rng, easy) for _ in range(CHUNK)]
    prompts, first = [prompt for prompt, _, _ in drawn], seed + chunk * CHUNK
    images = np.concatenate(
        [
            generator.generate(
                prompts[at : at + _BATCH], range(first + at, first + at + len(prompts[at : at + _BATCH]))
            )
            for at in range(0, CHUNK, _BATCH)
        ]
    )
    labels = [label(prompted, read(image)) for prompted, image in zip(drawn, images, strict=True)]
    right, shown, fits = (np.array(column) for column in zip(*labels, strict=True))
    objects = np.array([0 if named is not None else len(scene.objects) for _, scene, named in drawn])
    return Judged(np.array(prompts), images, right, objects, shown, fits)


def cached(folder: Path, generator: PromptGenerator, seed: int, count: int, easy: float = 0.0) -> Judged:
    """At least `count` judged images, in whole chunks that `folder` keeps as <seed>-<chunk>.npz for the next run."""
    folder.mkdir(parents=True, exist_ok=True)
    title = f"judging {count} images for {folder.name}"
    return Judged.joined(
        [_chunk(folder, generator, seed, chunk, easy) for chunk in track(range(-(-count // CHUNK)), description=title)]
    )


def _chunk(folder: Path, generator: PromptGenerator, seed: int, chunk: int, easy: float) -> Judged:
    path = folder / f"{seed}-{chunk:03d}.npz"
    if not path.exists():
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **generate_chunk(generator, seed, chunk, easy)._asdict())
        partial.rename(path)
    with np.load(path, allow_pickle=False) as kept:
        return Judged(*(kept[name] for name in Judged._fields))


def by_variant(work: Path, models: Path, name: str, seed: int, count: int, easy: float = 0.0) -> Judged:
    """`count` images or more by a variant of the family, a share of `easy` of them for prompts of the easy stream.

    They are generated anew if its weights, its setting, the streams or the file format have changed. A smaller scale
    of training takes fewer.
    """
    variant = VARIANTS[name]
    weights = [folder_of(variant, models) / part / "diffusion_pytorch_model.safetensors" for part in ("unet", "vae")]
    streams = repr((STANDARD, EASY, easy, Judged._fields)).encode()
    mark = f"{zlib.crc32(b''.join((streams, *(file.read_bytes() for file in weights)))):08x}"
    folder = work / "judged" / f"{name}-{variant.steps}-{variant.guidance:g}-{mark}"
    return cached(folder, ImageGenerator.of(variant, models), seed, scaled(count), easy)
