"""Images that JSON names: by a data URI, by an address of a gateway, or by an https address of a public host."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from agents.gateway.edits.sources import _limited
from agents.gateway.webhooks.posting import Connections
from planner.serving.admission.inputs import input_name
from streams.settings import Gateway
from streams.store.input_images import MAX_BYTES
from tests.agents.gateway.deployment import Deployment
from tests.agents.gateway.test_app import got, png, posted, spoken
from tests.agents.gateway.test_edits import image_of
from tests.agents.gateway.test_webhook_addresses import PUBLIC, Names, Network

PREDICTIONS = "/v1/predictions"
DATA = "data:application/octet-stream;base64," + base64.b64encode(image_of()).decode()
CAT = "https://example.org/cat.png"


def fetching(content: bytes, status: bytes = b"200 OK", *addresses: str) -> tuple[Deployment, Network]:
    """A deployment whose gateway finds this at any address, and the network that it is fetched over."""
    head = b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n" % (status, len(content))
    network, names = Network(head + content), Names(list(addresses) or [PUBLIC])
    return Deployment(connections=Connections(resolve=names, network=network)), network


def predicted(deployment: Deployment, **given: Any) -> httpx.Response:
    return posted(deployment, {"input": {"prompt": "a blue boat", **given}}, PREDICTIONS)


def uploaded(deployment: Deployment, files: dict[str, Any], data: dict[str, str], **headers: str) -> httpx.Response:
    answer: httpx.Response = spoken(
        deployment, lambda http: http.post("/v1/files", files=files, data=data, headers=headers)
    )
    return answer


def test_a_data_uri_is_stored_for_its_tenant_and_begun_with() -> None:
    deployment = Deployment()
    answer = predicted(deployment, image=DATA, mask=DATA, strength=0.5)
    assert answer.status_code == 201, answer.text
    options = deployment.asked().options
    assert deployment.store.get(options.image) == image_of()
    assert input_name("default") in options.image
    assert options.mask == options.image
    assert "base64" not in answer.text  # of the input its URI is repeated, not its content


def test_images_for_openais_clients_begin_with_a_data_uri_too() -> None:
    deployment = Deployment()
    deployment.ends(png())
    assert posted(deployment, {"prompt": "a blue boat", "image": DATA}).status_code == 200
    assert deployment.store.get(deployment.asked().options.image) == image_of()


def test_a_file_that_was_uploaded_is_named_by_its_address_as_replicates_client_does() -> None:
    deployment = Deployment()
    photo = image_of(kind="JPEG")
    answer = uploaded(deployment, {"content": ("cat.jpg", photo)}, {"metadata": '{"of": "mine"}'})
    assert answer.status_code == 201, answer.text
    file = answer.json()
    assert (file["content_type"], file["size"], file["metadata"]) == ("image/jpeg", len(photo), {"of": "mine"})
    shown = got(deployment, file["urls"]["get"])
    assert (shown.content, shown.headers["content-type"]) == (photo, "image/jpeg")
    predicted(deployment, image=file["urls"]["get"].replace("127.0.0.1:8760", "another.host"))
    assert deployment.store.get(deployment.asked().options.image) == photo


def test_an_image_of_an_earlier_answer_is_begun_with_by_its_address() -> None:
    deployment = Deployment()
    deployment.ends(png("blue"))
    made = posted(deployment, {"prompt": "a boat", "response_format": "url"}).json()["data"][0]["url"]
    deployment.producer.topics.clear()
    predicted(deployment, image=made)
    asked = deployment.asked().options.image
    assert (deployment.store.get(asked), input_name("default") in asked) == (png("blue"), True)


def test_another_tenants_file_is_stored_anew_for_the_tenant_that_names_it() -> None:
    deployment = Deployment(Gateway(authentication="bearer"))
    keys = {tenant: f"Bearer {deployment.key(tenant)}" for tenant in ("studio", "other")}
    file = uploaded(deployment, {"content": ("a.png", image_of())}, {}, authorization=keys["studio"]).json()
    body = {"input": {"prompt": "a boat", "image": file["urls"]["get"]}}
    posted(deployment, body, PREDICTIONS, authorization=keys["other"])
    assert input_name("other") in deployment.asked().options.image


def test_an_https_image_is_fetched_from_the_address_that_was_checked() -> None:
    deployment, network = fetching(image_of())
    predicted(deployment, image=CAT)
    assert deployment.store.get(deployment.asked().options.image) == image_of()
    assert network.connected == [(PUBLIC, 443)]
    assert bytes(network.received).startswith(b"GET /cat.png HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("content", "status", "addresses", "said"),
    [
        (image_of(), b"200 OK", ("127.0.0.1",), "which is no public address"),
        (image_of(), b"200 OK", (PUBLIC, "10.0.0.1"), "which is no public address"),
        (b"", b"302 Found", (), "answered 302: redirects are not followed"),
        (b"<svg/>", b"200 OK", (), "no image of a known format"),
        (b"a" * (MAX_BYTES + 1), b"200 OK", (), f"at most {MAX_BYTES} bytes"),
    ],
    ids=["loopback", "one of two private", "redirect", "no image", "too large"],
)
def test_what_may_not_be_fetched_or_is_no_image_is_refused_and_nothing_is_written(
    content: bytes, status: bytes, addresses: tuple[str, ...], said: str
) -> None:
    deployment, _ = fetching(content, status, *addresses)
    answer = predicted(deployment, image=CAT)
    assert answer.status_code in (400, 413)
    assert said in answer.json()["detail"]
    assert answer.json()["error"]["param"] == "input.image"
    assert deployment.written() == []


@pytest.mark.parametrize(
    "given", [{"image": CAT, "steps": 0}, {"image": CAT, "model": "x"}, {"image": "http://example.org/a.png"}]
)
def test_nothing_is_fetched_for_what_is_refused(given: dict[str, Any]) -> None:
    deployment, network = fetching(image_of())
    assert predicted(deployment, **given).status_code == 400
    assert network.connected == []


@pytest.mark.parametrize("wrong", ["data:image/png,abc", "data:image/png;base64,?", "data:;base64"])
def test_a_data_uri_that_is_none_is_refused(wrong: str) -> None:
    answer = predicted(Deployment(), image=wrong)
    assert (answer.status_code, "must be data:TYPE;base64,CONTENT" in answer.json()["detail"]) == (400, True)


@pytest.mark.parametrize(
    ("files", "data"),
    [
        ({"file": ("a.png", b"x")}, {}), ({"content": ("a.png", b"<svg/>")}, {}),
        ({"content": ("a.png", image_of())}, {"colour": "red"}),
        ({"content": ("a.png", image_of())}, {"metadata": "{"}),
        ({"content": ("a.png", image_of())}, {"metadata": "NaN"}),
        ({"content": ("a.png", image_of())}, {"metadata": '"\\ud800"'}),
        ({"content": ("a.png", image_of())}, {"metadata": "[" * 5000}),
    ],
    ids=["another field", "no image", "unknown", "no JSON", "no number", "half a character", "too deep"],
)  # fmt: skip
def test_a_file_that_is_no_image_or_comes_with_what_is_not_known_is_refused(
    files: dict[str, Any], data: dict[str, str]
) -> None:
    assert uploaded(Deployment(), files, data).status_code == 400


def test_others_are_served_while_an_image_comes_in_parts_of_a_byte() -> None:
    class Parts:
        async def aiter_stream(self) -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"x"

    async def turns() -> int:
        reading, found = asyncio.create_task(_limited("image", Parts())), 0  # type: ignore[arg-type]
        while not reading.done():
            await asyncio.sleep(0)
            found += 1
        assert await reading == b"x" * 100
        return found

    assert asyncio.run(turns()) >= 100
