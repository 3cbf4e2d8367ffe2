"""Latents: what the denoising of an image ends in, before it is decoded; how one is checked, and how it is stored.

A later image may begin with a stored latent instead of noise. A latent means something to one autoencoder only, and
another one's may have its shape: each latent says which autoencoder decodes it.

Stored, a latent is a safetensors file of one tensor, which common tools can read and which runs no code when it is
read. Equal latents give equal bytes, so the store's keys, which carry the content's hash, hold each of them once.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from schemas.errors import PochadeError

EXTENSION: Final = "safetensors"
DTYPES: Final = (np.dtype(np.float16), np.dtype(np.float32))
_NAME = "latent"  # of the tensor, and of the only entry of the metadata: the order of several is drawn at each writing


class UnfitLatent(PochadeError):
    """A latent that no image may begin with; `kind` is one of few words for a counter.

    broken: bytes that are no latent, or not those that were written. dtype, shape, values: not float16 or float32, not
    of the image's size, not finite. autoencoder: of another one.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Latent:
    """One image's latent, as the autoencoder's encoder gives it, scaled for denoising.

    Raises UnfitLatent: dtype, shape or values are none of a latent.
    """

    values: np.ndarray  # float16 or float32 [channels, height, width], finite
    autoencoder: str  # digest of the one that decodes it

    def __post_init__(self) -> None:
        if self.values.dtype not in DTYPES:
            raise UnfitLatent("dtype", f"a latent must be float16 or float32: got {self.values.dtype}")
        if self.values.ndim != 3:
            raise UnfitLatent("shape", f"a latent must be [channels, height, width]: got {list(self.values.shape)}")
        if not np.isfinite(self.values).all():
            raise UnfitLatent("values", "a latent must be finite: some values are infinite or not a number")


class LatentSpace(NamedTuple):
    """The latents that a loaded model gives and takes."""

    autoencoder: str  # digest; models with an equal one go on from each other's latents
    channels: int
    factor: int  # pixels of a side for each value of a latent

    def shape(self, width: int, height: int) -> tuple[int, int, int]:
        """Return the shape of the latents of images of this size, in pixels."""
        return self.channels, height // self.factor, width // self.factor

    def check(self, latent: Latent, width: int, height: int) -> None:
        """Check that an image of this size, in pixels, can begin with this latent.

        Raises UnfitLatent: the latent is of another autoencoder, or of another size.
        """
        if latent.autoencoder != self.autoencoder:
            raise UnfitLatent("autoencoder", f"latent of autoencoder {latent.autoencoder}, not {self.autoencoder}")
        if latent.values.shape != (wanted := self.shape(width, height)):
            shapes = f"{list(latent.values.shape)}, not {list(wanted)}"
            raise UnfitLatent("shape", f"an image of {width} x {height} px cannot begin with a latent of {shapes}")


def to_bytes(latent: Latent) -> bytes:
    """Return a latent as the bytes of a safetensors file."""
    values = np.ascontiguousarray(latent.values)
    return bytes(save({_NAME: values}, {_NAME: f"{latent.autoencoder} {_checksum(latent.autoencoder, values)}"}))


def from_bytes(data: bytes) -> Latent:
    """Return the latent of these bytes, exactly as it was written.

    Raises UnfitLatent: the bytes are no latent, or damaged.
    """
    try:
        values = load(data)[_NAME]
        autoencoder, _, checksum = _metadata(data)[_NAME].rpartition(" ")
    except (SafetensorError, KeyError, ValueError) as error:
        raise UnfitLatent("broken", f"{len(data)} bytes are no stored latent: {error}") from error
    if checksum != _checksum(autoencoder, values):
        raise UnfitLatent("broken", "a stored latent is damaged: its checksum differs from that of its values")
    return Latent(values=values, autoencoder=autoencoder)


def _metadata(data: bytes) -> dict[str, str]:
    """The metadata of a safetensors file that has been read once, so that its header is known to be sound.

    Eight bytes say how long the header is, which is JSON. The library shows metadata of files only, not of bytes.
    """
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata: dict[str, str] = header.get("__metadata__") or {}
    return metadata


def _checksum(autoencoder: str, values: np.ndarray) -> str:
    about = f"{autoencoder} {values.dtype.name} {values.shape}"
    return hashlib.sha256(about.encode() + values.tobytes()).hexdigest()
