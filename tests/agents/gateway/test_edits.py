"""Edits of uploaded images over HTTP: what becomes of the files and fields of a form, and which are refused."""

import asyncio
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest
from PIL import Image

from agents.gateway.edits.uploads import edited_of
from planner.serving.admission.inputs import input_name
from schemas.messages import GenerateRequest
from streams.codec.avro import decode
from streams.codec.headers import ANY_FORM
from streams.settings import Gateway
from streams.store.input_images import MAX_BYTES, ORIENTATION
from tests.agents.gateway.deployment import Deployment, ended, event, tell
from tests.agents.gateway.test_app import png, posted
from tests.builders import a_catalog

EDITS = "/v1/images/edits"
Files = Sequence[tuple[str, tuple[str, bytes]]]
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'


def image_of(*, size: tuple[int, int] = (16, 8), hole: bool = False, kind: str = "PNG", **how: Any) -> bytes:
    """An image; with a hole its left half is transparent."""
    out, image = io.BytesIO(), Image.new("RGBA", size, "red")
    if hole:
        image.paste((0, 0, 0, 0), (0, 0, size[0] // 2, size[1]))
    (image if kind == "PNG" else image.convert("RGB")).save(out, kind, **how)
    return out.getvalue()


def animated() -> bytes:
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:])
    return out.getvalue()


def sent(deployment: Deployment, files: Files, fields: Mapping[str, Any], **headers: str) -> httpx.Response:
    """What a form is answered with."""

    async def post() -> httpx.Response:
        async with deployment.http() as http:
            return await http.post(EDITS, files=list(files), data=dict(fields), headers=headers)

    return asyncio.run(post())


def file(name: str, data: bytes) -> tuple[str, tuple[str, bytes]]:
    return name, ("a.png", data)


ASKED = {"prompt": "a blue boat"}


def test_an_uploaded_image_is_stored_for_its_tenant_and_begun_with() -> None:
    deployment = Deployment(Gateway(authentication="bearer"))
    deployment.ends(png("blue"))
    original, mask = image_of(kind="JPEG"), image_of(hole=True)
    fields = {**ASKED, "n": "1", "strength": "0.5", "stream": "false", "adapters[]": ["mint", "dusk"], "seed": "7"}
    files = [file("image", original), file("mask", mask)]
    answer = sent(deployment, files, fields, authorization=f"Bearer {deployment.key('studio')}")
    assert answer.status_code == 200, answer.text
    options, request = deployment.asked().options, deployment.asked()
    assert (request.tenant, request.prompt, request.seed) == ("studio", "a blue boat", 7)
    assert (options.n, options.strength, options.adapters, options.strict) == (1, 0.5, ("mint", "dusk"), True)
    assert input_name("studio") in options.image
    assert options.image.endswith(".jpg")
    assert deployment.store.get(options.image) == original
    with Image.open(io.BytesIO(deployment.store.get(options.mask))) as edited:
        assert [edited.mode, edited.getpixel((0, 0)), edited.getpixel((15, 7))] == ["L", 255, 0]


def test_a_mask_fits_the_image_as_viewers_show_it() -> None:
    deployment, exif = Deployment(), Image.Exif()
    deployment.ends(png())
    exif[ORIENTATION] = 6
    photo = image_of(size=(16, 8), kind="JPEG", exif=exif)
    lying = sent(deployment, [file("image", photo), file("mask", image_of(size=(16, 8), hole=True))], ASKED)
    assert (lying.status_code, lying.json()["error"]["param"]) == (400, "mask")
    assert "8 x 16 px, not 16 x 8" in lying.json()["error"]["message"]
    sent(deployment, [file("image", photo), file("mask", image_of(size=(8, 16), hole=True))], ASKED)
    assert deployment.store.get(deployment.asked().options.image) == photo  # its worker turns it, and says so


@pytest.mark.parametrize(
    ("fields", "is_marked"), [({}, True), ({"strict": "true"}, False), ({"strict": "false"}, False)]
)
def test_images_may_be_in_any_form_unless_the_client_itself_is_strict(fields: dict[str, str], is_marked: bool) -> None:
    deployment = Deployment()
    deployment.ends(png())
    sent(deployment, [file("image", image_of())], {**ASKED, **fields})
    (record,) = deployment.written()
    assert (ANY_FORM in record.headers) == is_marked


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])  # null: of a sandboxed frame of any site
def test_a_form_of_another_sites_page_is_refused(origin: str) -> None:
    deployment = Deployment()
    deployment.ends(png())  # if it were taken
    answer = sent(deployment, [file("image", image_of())], ASKED, origin=origin)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "host")


def test_what_is_transparent_in_the_image_itself_is_edited_where_no_mask_is_sent() -> None:
    deployment = Deployment()
    deployment.ends(png())
    sent(deployment, [file("image[]", image_of(hole=True))], ASKED)
    assert deployment.asked().options.mask
    whole = Deployment()
    whole.ends(png())
    sent(whole, [file("image", image_of())], ASKED)
    assert whole.asked().options.mask == ""
    assert edited_of(Image.new("RGBA", (2, 2), (0, 0, 0, 128))) is None  # half transparent is not edited


def test_a_streamed_edit_has_events_of_edits() -> None:
    deployment = Deployment()

    async def streamed() -> str:
        async with deployment.http() as http:
            fields = {**ASKED, "stream": "true", "partial_images": "1"}
            asking = asyncio.create_task(http.post(EDITS, files=[file("image", image_of())], data=fields))
            while not deployment.written():
                await asyncio.sleep(0.001)
            request_id, uri = deployment.asked().request_id, deployment.store.put("x", png())
            tell(deployment.jobs, event(request_id, "started", level="light", stage=0))
            tell(deployment.jobs, event(request_id, "escalated", preview=uri, tenant="default"))
            tell(deployment.jobs, ended(request_id, image_uris=(uri,)))
            return (await asking).text

    told = [json.loads(line[6:]) for line in asyncio.run(streamed()).splitlines() if line.startswith("data: ")]
    assert [each["type"] for each in told] == ["image_edit.partial_image", "image_edit.completed"]


@pytest.mark.parametrize(
    ("files", "fields", "status", "param"),
    [
        ([], ASKED, 400, "image"),
        ([file("image[]", image_of()), file("image[]", image_of())], ASKED, 400, "image"),
        ([file("image", SVG)], ASKED, 400, "image"),
        ([file("image", b"")], ASKED, 400, "image"),
        ([file("image", image_of()[:60])], ASKED, 400, "image"),
        ([file("image", animated())], ASKED, 400, "image"),
        ([file("image", image_of(size=(8193, 1)))], ASKED, 400, "image"),
        ([file("image", image_of(size=(8000, 5000), kind="JPEG"))], ASKED, 400, "image"),
        ([file("image", bytes(MAX_BYTES + 1))], ASKED, 413, "image"),
        ([file("image", image_of()), file("mask", image_of())], ASKED, 400, "mask"),
        ([file("image", image_of()), file("mask", image_of(size=(8, 8), hole=True))], ASKED, 400, "mask"),
        ([file("image", image_of()), file("mask", SVG)], ASKED, 400, "mask"),
        ([file("image", image_of()), file("markup", image_of())], ASKED, 400, "markup"),
        ([file("image", image_of())], {**ASKED, "input_fidelity": "high"}, 400, "input_fidelity"),
        ([file("image", image_of())], {**ASKED, "background": "transparent"}, 400, "background"),
        ([file("image", image_of())], {**ASKED, "n": "two"}, 400, "n"),
        ([file("image", image_of())], {**ASKED, "n": "2.5"}, 400, "n"),
        ([file("image", image_of())], {**ASKED, "strength": "2"}, 400, "strength"),
        ([file("image", image_of())], {**ASKED, "strength": "nan"}, 400, "strength"),
        ([file("image", image_of())], {**ASKED, "stream": "yes"}, 400, "stream"),
        ([file("image", image_of())], {"prompt": ["a", "b"]}, 400, "prompt"),
        ([file("image", image_of())], {"prompt": ""}, 400, "prompt"),
        ([file("image", image_of())], {**ASKED, "tenant": "others"}, 400, "tenant"),
        ([file("image", image_of())] * 18, ASKED, 400, None),
    ],
)
def test_what_cannot_be_edited_is_refused_and_named(
    files: Files, fields: Mapping[str, Any], status: int, param: str | None
) -> None:
    deployment = Deployment()
    deployment.ends(png())
    answer = sent(deployment, files or [("", ("", b""))], fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param), answer.text
    assert deployment.producer.topics == {}


PART = b'--x\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b'
CUT = PART % (b"image", b'; filename="a"', image_of()) + b"\r\n" + PART % (b"prompt", b"", b"a blue boat")
CUT += b"\r\n" + PART % (b"strength", b"", b"0.")  # of 0.25, perhaps


@pytest.mark.parametrize(
    ("kind", "content", "status"),
    [
        ("application/json", b"{}", 415),
        ("application/x-www-form-urlencoded", b"prompt=a", 415),
        ("multipart/form-data", b"--x\r\n", 400),
        ("multipart/form-data; boundary=x", b"\x00" * 50, 400),
        ("multipart/form-data; boundary=x", CUT, 400),
        ("multipart/form-data; boundary=x", CUT + b"\r\n--x", 400),
        ("multipart/form-data; boundary=x", CUT + b"25\r\n--x--\r\n", 200),
    ],
)
def test_a_form_is_read_whole_or_refused(kind: str, content: bytes, status: int) -> None:
    deployment = Deployment()
    deployment.ends(png())

    async def post() -> httpx.Response:
        async with deployment.http() as http:
            return await http.post(EDITS, content=content, headers={"content-type": kind})

    answer = asyncio.run(post())
    assert answer.status_code == status, answer.text
    assert len(deployment.written()) == (status == 200)


def test_a_form_is_as_large_as_its_own_limit_allows() -> None:
    deployment = Deployment(Gateway(max_body_bytes=1024, max_upload_bytes=30_000))
    deployment.ends(png())
    assert sent(deployment, [file("image", image_of() + bytes(20_000))], ASKED).status_code == 200
    refused = sent(deployment, [file("image", image_of() + bytes(30_000))], ASKED)
    assert (refused.status_code, "gateway.max_upload_bytes" in refused.text) == (413, True)


def test_no_more_forms_are_read_at_once_than_the_limit() -> None:
    deployment = Deployment(Gateway(max_uploads=1))
    deployment.ends(png())

    async def slow(body: bytes, reads: asyncio.Event, go_on: asyncio.Event) -> Any:
        yield body[:100]
        reads.set()
        await go_on.wait()
        yield body[100:]

    async def two() -> tuple[httpx.Response, httpx.Response]:
        reads, go_on = asyncio.Event(), asyncio.Event()
        async with deployment.http() as http:
            whole = http.build_request("POST", EDITS, files=[file("image", image_of())], data=ASKED)
            content = slow(await whole.aread(), reads, go_on)
            headers = {"content-type": whole.headers["content-type"]}
            first = asyncio.create_task(http.post(EDITS, content=content, headers=headers))
            await reads.wait()
            second = await http.post(EDITS, files=[file("image", image_of())], data=ASKED)
            go_on.set()
            return await first, second

    first, second = asyncio.run(two())
    assert (first.status_code, second.status_code, second.headers["retry-after"]) == (200, 503, "1")
    assert sent(deployment, [file("image", image_of())], ASKED).status_code == 200  # the first has been read


def test_a_repeated_form_joins_the_first_whatever_its_boundary_is() -> None:
    deployment = Deployment()
    deployment.ends(png())
    files = [file("image", image_of(hole=True))]
    first = sent(deployment, files, ASKED)
    again = sent(deployment, files, ASKED, **{"x-stainless-retry-count": "1"})
    assert again.json()["pochade"] == first.json()["pochade"]
    assert len(deployment.written()) == 1
    sent(deployment, [file("image", image_of(size=(8, 8)))], ASKED, **{"x-stainless-retry-count": "1"})
    sent(deployment, files, {"prompt": "another"}, **{"x-stainless-retry-count": "1"})
    asked = [decode(record.value or b"", GenerateRequest) for record in deployment.written()]
    assert [request.prompt for request in asked] == ["a blue boat", "a blue boat", "another"]
    assert asked[0].options == asked[2].options  # equal images have one address


@pytest.mark.parametrize("path", ["/v1/predictions", "/v1/images/generations"])
def test_a_key_may_name_the_images_of_its_tenant_and_no_others(path: str) -> None:
    deployment = Deployment(Gateway(authentication="bearer"))
    deployment.ends(png())
    headers = {"authorization": f"Bearer {deployment.key('studio')}"}

    def asked(tenant: str) -> int:
        options = {**ASKED, "image": deployment.store.put(input_name(tenant), png())}
        body = {"input": options} if path == "/v1/predictions" else options
        return posted(deployment, body, path, **headers).status_code

    assert [asked("studio") // 100, asked("others"), asked("default")] == [2, 400, 400]


@pytest.mark.parametrize("fields", [{}, {"model": "light"}, {"model": "dall-e-2"}])
def test_an_image_that_no_level_takes_is_neither_decoded_nor_stored(fields: dict[str, str]) -> None:
    deployment = Deployment(catalog=a_catalog())
    answer = sent(deployment, [file("image", SVG)], {**ASKED, **fields})
    param, code = ("model", "model_not_found") if "dall-e-2" in fields.values() else ("image", "unhonoured")
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == (code, param)
    assert list(deployment.store.list(2**62)) == []


def test_an_edit_whose_fields_are_refused_has_stored_nothing() -> None:
    deployment = Deployment()
    assert sent(deployment, [file("image", image_of())], {**ASKED, "strength": "2"}).status_code == 400
    assert list(deployment.store.list(2**62)) == []
