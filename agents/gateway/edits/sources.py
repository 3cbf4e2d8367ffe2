"""Images that JSON names by a data URI, an https address or one of ours: read, checked and stored as uploads are.

data:image/png;base64,...         within gateway.max_body_bytes
.../v1/files/TOKEN                an upload, or an image of an answer, as long as its address is valid
https://HOST/...                  of a public host, checked as a webhook's is; no redirects, at most MAX_BYTES
"""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from agents.gateway.edits.uploads import Uploads, uri_before
from agents.gateway.image_urls import PATH, ImageUrls
from agents.gateway.refusals import INVALID, Refusal
from agents.gateway.webhooks.posting import Answer, Connections, NotDelivered
from planner.serving.admission.inputs import input_name
from streams.store.input_images import MAX_BYTES

T = TypeVar("T")

FIELDS: Final = ("image", "mask", "control_images", "control")  # of a body, that name images
FOREIGN: Final = ("data:", "https:", "http:")
HEADERS: Final = {"accept": "image/*", "accept-encoding": "identity", "user-agent": "pochade-gateway"}


class Sources:
    """Stores the images that bodies name, for their tenant."""

    def __init__(
        self,
        uploads: Uploads,
        urls: ImageUrls,
        read: Callable[[str], Awaitable[bytes]],
        connections: Connections,
        clock_ms: Callable[[], int],
    ) -> None:
        """`read`: the bytes of a stored image; raises Refusal."""
        self._uploads = uploads
        self._urls = urls
        self._read = read
        self._connections = connections
        self._clock_ms = clock_ms

    async def placed(self, fields: Mapping[str, Any], tenant: str, prefix: str, read: Callable[[Any], T]) -> T:
        """Return what `read` makes of a body's fields, with the URIs of stored images in place of foreign ones.

        `read` is called before as well, so that nothing is read from elsewhere or stored for what is refused.

        `prefix`: of the fields' names in refusals. Raises Refusal, also for an image that cannot be had.
        """
        found: dict[str, str] = {}  # foreign -> the field that names it
        with_images(fields, lambda uri, name: (found.setdefault(uri, name) and uri) if uri.startswith(FOREIGN) else uri)
        if not found:
            return read(fields)
        before = uri_before(tenant)
        read(with_images(fields, lambda uri, _: before if uri in found else uri))
        with self._uploads.one_of_few():
            stored = {uri: await self._stored(uri, f"{prefix}{name}", tenant) for uri, name in found.items()}
        return read(with_images(fields, lambda uri, _: stored.get(uri, uri)))

    async def _stored(self, uri: str, name: str, tenant: str) -> str:
        if uri.startswith("data:"):
            data = _of_data_uri(uri, name)
        elif (own := self._own(uri)) is not None:
            if input_name(tenant) in own:
                return own
            data = await self._read(own)
        else:
            data = await self._fetched(uri, name)
        return (await self._uploads.one(data, name, tenant)).uri

    def _own(self, address: str) -> str | None:
        """Return the URI of an image at an address that a gateway with our secret gave, by whatever host."""
        path = urlsplit(address).path
        is_ours = path.startswith(PATH) and self._urls.is_signed(token := path.removeprefix(PATH))
        return self._urls.named(token, self._clock_ms() / 1000).uri if is_ours else None

    async def _fetched(self, url: str, name: str) -> bytes:
        try:
            return await self._connections.call("GET", url, HEADERS, None, partial(_limited, name))
        except NotDelivered as error:
            rule = f"{name} must be a data URI, or https://HOST/PATH of a host that is public"
            raise Refusal(INVALID, f"{rule}: {error}", param=name) from None


async def _limited(name: str, answer: Answer) -> bytes:
    data = bytearray()
    async for part in answer.aiter_stream():
        data += part
        if len(data) > MAX_BYTES:
            raise Refusal("too-large", f"{name} must have at most {MAX_BYTES} bytes: shrink it", param=name)
        await asyncio.sleep(0)  # thousands of parts of a byte can lie in one packet: others go on meanwhile
    return bytes(data)


def _of_data_uri(uri: str, name: str) -> bytes:
    head, comma, content = uri.partition(",")
    try:
        if not comma or not head.endswith(";base64"):
            raise ValueError
        return base64.b64decode(content, validate=True)
    except (ValueError, binascii.Error):
        raise Refusal(INVALID, f"{name} must be data:TYPE;base64,CONTENT: got {uri!r:.40}", param=name) from None


def with_images(fields: Mapping[str, Any], change: Callable[[str, str], str]) -> dict[str, Any]:
    """Return a body's fields with each URI of an image as `change` makes it of the URI and its field's name."""

    def changed(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [changed(name, each) for each in value]
        if not isinstance(value, str):
            return value
        head, equals, uri = value.partition("=") if name == "control" else ("", "", value)
        return f"{head}{equals}{change(uri, name)}"

    return {name: changed(name, value) if name in FIELDS else value for name, value in fields.items()}
