"""Input images: a request names only those that were put for its own tenant, which their URIs say."""

import pytest

from planner.serving.admission.admission import check_request
from planner.serving.admission.inputs import input_name, is_input
from schemas.errors import InvalidRequest
from schemas.messages import GenerateOptions
from streams.store.port import key_of
from tests.builders import NOW_MS, a_request
from tests.memory_store import MemoryImageStore


def stored(tenant: str, root: str) -> str:
    return root + key_of(input_name(tenant), b"some image", "png")


@pytest.mark.parametrize("root", ["memory:", "file:///srv/images/", "s3://bucket/", "s3://bucket/a/prefix/"])
def test_a_tenants_own_image_is_taken_from_every_kind_of_store(root: str) -> None:
    uri = stored("acme", root)
    assert is_input(uri)
    check_request(a_request(tenant="acme", options=GenerateOptions(image=uri, mask=uri)), 8192, NOW_MS)


@pytest.mark.parametrize("field", ["image", "mask", "control_images"])
def test_another_tenants_image_is_refused_wherever_it_is_named(field: str) -> None:
    uri = stored("acme", "file:///srv/images/")
    options = GenerateOptions(**{field: (uri,) if field == "control_images" else uri})  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=f"{field} must be an image of tenant 'other'"):
        check_request(a_request(tenant="other", options=options), 8192, NOW_MS)


def test_images_that_are_no_input_images_are_refused() -> None:
    generated = MemoryImageStore().put("r-1/0", b"an image that somebody's request led to")
    for uri in (generated, "https://example.org/a.png", "data:image/png;base64,AAAA", "file:///etc/passwd", "x" * 500):
        assert not is_input(uri)
        with pytest.raises(InvalidRequest, match="image must be the URI of an image in the store"):
            check_request(a_request(options=GenerateOptions(image=uri)), 8192, NOW_MS)
