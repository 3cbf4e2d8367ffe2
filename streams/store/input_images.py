"""Reads the images that requests begin with or follow, and brings them into the form that is wanted.

Every door opens images by `open_input`: `pochade put`, the gateway's uploads, and workers. Clients choose these bytes,
so that their size is known from their head before a pixel is decoded.
"""

import io
import warnings
from typing import Final, NamedTuple

from PIL import Image, UnidentifiedImageError

from schemas.errors import InvalidRequest

FORMATS: Final = ("PNG", "JPEG", "WEBP")  # by other readers of PIL's, files can start programs or take minutes
EXTENSIONS: Final = {"PNG": "png", "JPEG": "jpg", "WEBP": "webp"}
MAX_BYTES: Final = 20 * 2**20
MAX_SIDE: Final = 8192  # px
MAX_AREA: Final = 2**25  # px, 100 MB decoded: a file of some KB can be as large as both sides allow
SCAN: Final = b"\xff\xda"  # begins each scan of a JPEG file, and stands nowhere else but in what describes it
MAX_SCANS: Final = 50  # each decodes the whole image again, for some 55 bytes; cameras and encoders write 1 to 20
ORIENTATION: Final = 0x0112  # EXIF's tag
UPRIGHT: Final = {  # value of that tag -> what shows the image as it was seen; 1 and others: nothing
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class InvalidInput(InvalidRequest):
    """Bytes that are no image to begin with or to follow, and why."""


class Opened(NamedTuple):
    """An input image in the form that was wanted."""

    image: Image.Image
    extension: str  # under which its bytes are stored: that of what they are, not of what the file is called
    changed: tuple[str, ...]  # what was done to it, in words: "RGBA -> RGB"


def open_input(data: bytes, what: str, *, mode: str = "", size: tuple[int, int] | None = None) -> Opened:
    """Return an image, decoded, upright as its EXIF data say, and in a mode and size. `what` begins each message.

    `mode` "": that of the file. `size` None: that of the upright image. EXIF data that cannot be read turn nothing; an
    orientation in XMP data turns nothing either, as browsers show such an image as it is stored.

    Raises:
        InvalidInput: more than MAX_BYTES, a side above MAX_SIDE, more than MAX_AREA pixels, several frames, or none of
            FORMATS (SVG, which is a program, is none), or it does not decode.
    """
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"{what} must have at most {MAX_BYTES} bytes: got {len(data)}; shrink it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            _check(image, what, data)
            image.load()
            return _in_form(image, mode, size)
    except InvalidInput:
        raise
    except UnidentifiedImageError:
        known = ", ".join(FORMATS)
        raise InvalidInput(f"{what} is no image of a known format ({known}): it begins {data[:12]!r}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InvalidInput(f"{what} has too many pixels: {error}; shrink it") from None
    except Exception as error:  # PIL raises what it likes for broken bytes: an IndexError for an empty profile
        raise InvalidInput(f"{what} does not decode: {error}") from None


def open_stored(data: bytes) -> Image.Image:
    """Open an image of the store, whose bytes any worker may have written. Raises OSError: it is none of FORMATS."""
    try:
        return Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise OSError(str(error)) from None


def _in_form(image: Image.Image, mode: str, size: tuple[int, int] | None) -> Opened:
    extension, changed = EXTENSIONS[image.format or ""], list[str]()
    orientation = _orientation(image)
    if orientation in UPRIGHT:
        image = image.transpose(UPRIGHT[orientation])
        changed.append(f"EXIF orientation {orientation} -> upright")
    if mode and image.mode != mode:
        changed.append(f"{image.mode} -> {mode}")
        image = _converted(image, mode)
    if size is not None and image.size != size:
        changed.append("{} x {} px -> {} x {} px".format(*image.size, *size))
        image = image.resize(size, Image.Resampling.NEAREST if mode == "L" else Image.Resampling.LANCZOS)
    return Opened(image, extension, tuple(changed))


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation of a loaded image; 1, which is upright, where there is none that can be read."""
    exif = Image.Exif()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exif.load(image.info.get("exif", b""))
            return int(exif.get(ORIENTATION, 1))
    except Exception:  # its reader raises what it likes for broken bytes, and none of that makes the image unreadable
        return 1


def _converted(image: Image.Image, mode: str) -> Image.Image:
    """Return an image in a mode; of 16 bits the upper 8 are kept, where PIL would make all above 255 white."""
    if image.mode.startswith("I"):
        image = image.point(lambda value: value / 256)
    return image.convert(mode)


def _check(image: Image.Image, what: str, data: bytes) -> None:
    width, height = image.size
    if max(width, height) > MAX_SIDE:
        raise InvalidInput(f"{what} must have at most {MAX_SIDE} px a side: got {width} x {height}; shrink it")
    if width * height > MAX_AREA:
        raise InvalidInput(f"{what} must have at most {MAX_AREA} px in all: got {width} x {height}; shrink it")
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        raise InvalidInput(f"{what} must be one image: got {frames} frames; store the one that is meant")
    if image.format == "JPEG" and (scans := data.count(SCAN)) > MAX_SCANS:
        raise InvalidInput(f"{what} must have at most {MAX_SCANS} scans: got {scans}; save it anew")
