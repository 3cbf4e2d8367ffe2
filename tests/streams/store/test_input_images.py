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
from streams.store.input_images import MAX_AREA, MAX_BYTES, ORIENTATION, UPRIGHT, InvalidInput, open_input, open_stored
from streams.store.open import open_store
from tests.builders import a_request


def encoded(image: Image.Image, kind: str = "PNG", **more: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **more)  # type: ignore[arg-type]
    return out.getvalue()


def a_png_that_says(width: int, height: int, *more: tuple[bytes, bytes]) -> bytes:
    """The head of a PNG, and pixels that are not worth reading: 60 bytes that promise any number of pixels."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 256)), *more, (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


SMALL = Image.new("RGB", (48, 32), (200, 30, 30))


def with_scans(more: int) -> bytes:
    """A progressive JPEG file that describes its last scan many times: each decodes the whole image again."""
    data = encoded(SMALL, "JPEG", progressive=True)
    last = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + more * last + data[-2:]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_images_of_the_known_formats_are_opened(kind: str) -> None:
    opened = open_input(encoded(SMALL, kind), "image")
    assert (opened.image.size, opened.changed) == ((48, 32), ())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no image of a known format"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "is no image of a known format"),
        (encoded(SMALL, "GIF"), "is no image of a known format"),
        (encoded(SMALL, "EPS"), "is no image of a known format"),
        (encoded(SMALL)[:-40], "does not decode"),
        (a_png_that_says(9, 7, (b"iCCP", b"")), "does not decode"),
        (encoded(SMALL, "PNG", save_all=True, append_images=[SMALL.rotate(90)]), "must be one image: got 2 frames"),
        (with_scans(60), "at most 50 scans"),
        (a_png_that_says(8200, 1), "at most 8192 px a side: got 8200 x 1"),
        (a_png_that_says(8000, 8000), f"at most {MAX_AREA} px in all"),
        (a_png_that_says(60_000, 60_000), "px a side|too many pixels"),
        (b"\x89PNG" + b"\0" * MAX_BYTES, f"at most {MAX_BYTES} bytes"),
    ],
)
def test_what_is_no_image_or_too_large_is_refused_by_its_head(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        open_input(data, "image")


def test_a_progressive_photo_with_some_scans_more_is_an_image() -> None:
    assert open_input(with_scans(9), "image").image.size == (48, 32)


def test_a_stored_image_is_opened_by_readers_that_start_no_program() -> None:
    assert open_stored(encoded(SMALL)).size == (48, 32)
    for data in (encoded(SMALL, "EPS"), a_png_that_says(60_000, 60_000)):
        with pytest.raises(OSError, match=r"cannot identify|exceeds limit"):
            open_stored(data)


def a_photo(orientation: int) -> Image.Image:
    """What a camera stores where viewers show SMALL with its upper left corner blue."""
    shown = SMALL.copy()
    shown.paste((0, 0, 255), (0, 0, 12, 8))
    back = {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
    return shown.transpose(back.get(orientation, UPRIGHT[orientation]))  # the others undo themselves


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("orientation", range(2, 9))
def test_an_image_is_opened_as_viewers_show_it_and_that_is_said(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    opened = open_input(encoded(a_photo(orientation), kind, exif=exif), "image")
    corners = [opened.image.convert("RGB").getpixel(at) for at in ((3, 3), (44, 3), (3, 28), (44, 28))]
    assert [blue > red for red, _, blue in corners] == [True, False, False, False]  # type: ignore[misc]
    assert (opened.image.size, opened.changed) == ((48, 32), (f"EXIF orientation {orientation} -> upright",))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize(
    "exif", [b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff", b"\0" * 40]
)
def test_broken_exif_data_make_no_image_fail_and_turn_nothing(kind: str, exif: bytes) -> None:
    opened = open_input(encoded(SMALL, kind, exif=exif), "image")
    assert (opened.image.size, opened.changed) == ((48, 32), ())


@pytest.mark.parametrize("xmp", [b'<x tiff:Orientation="6"/>', b"\xff\xfe" * 20])
def test_an_orientation_that_xmp_data_alone_state_turns_nothing_as_in_browsers(xmp: bytes) -> None:
    assert open_input(encoded(SMALL, "WEBP", xmp=xmp), "image").changed == ()


def test_a_wanted_form_is_made_and_each_change_is_said() -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    opened = open_input(encoded(SMALL.convert("RGBA"), exif=exif), "image", mode="RGB", size=(16, 16))
    assert (opened.image.mode, opened.image.size) == ("RGB", (16, 16))
    assert opened.changed == ("EXIF orientation 6 -> upright", "RGBA -> RGB", "32 x 48 px -> 16 x 16 px")


def test_of_16_bits_the_upper_8_are_kept() -> None:
    deep = Image.new("I;16", (2, 1))
    deep.putpixel((0, 0), 128 * 256 + 7)
    deep.putpixel((1, 0), 300)
    opened = open_input(encoded(deep), "control_images", mode="RGB")
    assert [opened.image.getpixel((x, 0)) for x in (0, 1)] == [(128,) * 3, (1,) * 3]
    assert opened.changed == ("I;16 -> RGB",)


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
