"""Input images: stored under their tenant's name; what is none, or too large, is refused before decoding."""

import io
import json
import pathlib
import struct
import zlib

import pytest
from click.testing import CliRunner
from PIL import Image

from planner.serving.admission.inputs import check_inputs
from schemas.errors import InvalidRequest
from schemas.messages import GenerateOptions
from streams.commands.put import put
from streams.settings import load
from streams.store.input_images import MAX_AREA, MAX_BYTES, InvalidInput, open_input
from streams.store.open import open_store
from tests.builders import a_request


def encoded(image: Image.Image, kind: str = "PNG", **more: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **more)  # type: ignore[arg-type]
    return out.getvalue()


def a_png_that_says(width: int, height: int) -> bytes:
    """The head of a PNG, and pixels that are not worth reading: 60 bytes that promise any number of pixels."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 64)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


SMALL = Image.new("RGB", (48, 32), (200, 30, 30))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_images_of_the_known_formats_are_opened(kind: str) -> None:
    assert open_input(encoded(SMALL, kind), "image").size == (48, 32)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no image of a known format"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "is no image of a known format"),
        (encoded(SMALL, "GIF"), "is no image of a known format"),
        (encoded(SMALL, "EPS"), "is no image of a known format"),
        (encoded(SMALL)[:-40], "does not decode"),
        (encoded(SMALL, "PNG", save_all=True, append_images=[SMALL.rotate(90)]), "must be one image: got 2 frames"),
        (a_png_that_says(8200, 1), "at most 8192 px a side: got 8200 x 1"),
        (a_png_that_says(8000, 8000), f"at most {MAX_AREA} px in all"),
        (a_png_that_says(60_000, 60_000), "px a side|too many pixels"),
        (b"\x89PNG" + b"\0" * MAX_BYTES, f"at most {MAX_BYTES} bytes"),
    ],
)
def test_what_is_no_image_or_too_large_is_refused_by_its_head(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        open_input(data, "image")


def test_put_stores_an_image_that_its_tenants_requests_may_name_and_no_others(tmp_path: pathlib.Path) -> None:
    file, settings = tmp_path / "star.bmp", load({"home": tmp_path})
    file.write_bytes(encoded(SMALL))
    done = CliRunner().invoke(put, [str(file), "--tenant", "acme", "-o", "json"], obj=lambda: settings)
    shown = json.loads(done.stdout)
    assert (shown["width"], shown["height"], shown["bytes"]) == (48, 32, file.stat().st_size)
    assert shown["uri"].endswith(".png")
    assert open_store(settings).get(shown["uri"]) == file.read_bytes()
    options = GenerateOptions(image=shown["uri"])
    check_inputs(a_request(tenant="acme", options=options))
    with pytest.raises(InvalidRequest, match="another tenant's"):
        check_inputs(a_request(options=options))


def test_put_stores_nothing_that_is_no_image(tmp_path: pathlib.Path) -> None:
    file, settings = tmp_path / "page.svg", load({"home": tmp_path})
    file.write_text("<svg/>")
    done = CliRunner().invoke(put, [str(file)], obj=lambda: settings)
    assert isinstance(done.exception, InvalidInput)
    assert list(open_store(settings).list(2**62)) == []
