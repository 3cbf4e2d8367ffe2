"""Addresses of images: good for a while, for whoever has the whole of it, and by every gateway with the same secret."""

import pathlib
import stat

import pytest

from agents.gateway.formats import Format
from agents.gateway.image_urls import FILE, PATH, ImageUrls, url_key
from agents.gateway.refusals import Refusal
from agents.gateway.signing import Seal
from schemas.errors import PochadeError
from streams.settings import load
from streams.store.open import open_store, root_of
from tests.agents.gateway.deployment import KEY
from tests.memory_store import MemoryImageStore

NOW_S = 1_000_000.0
URI = f"memory:ab/x-{'0' * 16}.png"


def urls(key: bytes = KEY) -> ImageUrls:
    return ImageUrls(MemoryImageStore(), "memory:", key, 60)


def token(address: str) -> str:
    return address.removeprefix(f"http://here{PATH}")


def test_an_address_names_an_image_and_a_format_until_it_expires() -> None:
    made = token(urls().url("http://here", URI, Format("jpeg", 80), NOW_S))
    assert urls().named(made, NOW_S + 59.9) == (URI, Format("jpeg", 80))
    with pytest.raises(Refusal, match="has expired"):
        urls().named(made, NOW_S + 60)


@pytest.mark.parametrize("bad", ["", ".", "a", "a.b", "ü.b", "é", f"stream:{Seal(KEY, 'stream:').sealed([1])}"])
def test_what_is_no_address_is_not_found(bad: str) -> None:
    with pytest.raises(Refusal, match="no image has this address"):
        urls().named(bad, NOW_S)


def test_an_altered_address_or_one_of_another_secret_is_not_found() -> None:
    made = token(urls().url("http://here", URI, Format(), NOW_S))
    changed = [made[:n] + ("A" if made[n] != "A" else "B") + made[n + 1 :] for n in range(0, len(made) - 1, 7)]
    for each in changed:
        with pytest.raises(Refusal):
            urls().named(each, NOW_S)
    with pytest.raises(Refusal, match="no image has this address"):
        urls(b"another secret of the same size.").named(made, NOW_S)


def test_a_signed_address_of_what_is_no_key_of_the_store_is_refused() -> None:
    made = token(urls().url("http://here", "memory:../../etc/passwd", Format(), NOW_S))
    with pytest.raises(Refusal, match="no stored image"):
        urls().named(made, NOW_S)


class Signing(MemoryImageStore):
    def presigned(self, uri: str, lifetime_s: float) -> str:
        return f"https://bucket/{uri}?for={lifetime_s:g}"


def test_a_store_that_signs_gives_its_own_addresses_of_what_it_stores() -> None:
    signing = ImageUrls(Signing(), "memory:", KEY, 60)
    assert signing.url("http://here", URI, Format(), NOW_S) == f"https://bucket/{URI}?for=60"
    assert signing.url("http://here", URI, Format("webp"), NOW_S).startswith(f"http://here{PATH}")


def test_gateways_of_one_home_share_a_secret_that_others_cannot_read(tmp_path: pathlib.Path) -> None:
    settings = load({"home": tmp_path / "home"})
    assert url_key(settings) == url_key(settings)
    assert len(url_key(settings)) == 64
    assert stat.S_IMODE((tmp_path / "home" / FILE).stat().st_mode) == 0o600
    assert [each.name for each in (tmp_path / "home").iterdir()] == [FILE]


def test_a_secret_is_taken_from_the_settings_and_may_not_be_short(tmp_path: pathlib.Path) -> None:
    (tmp_path / "key").write_text("of a file, and long enough\n")
    named = {"url_secret": f"file:{tmp_path / 'key'}"}
    assert url_key(load({"home": tmp_path, "gateway": named})) == b"of a file, and long enough"
    with pytest.raises(PochadeError, match="at least 16 bytes: got 5"):
        url_key(load({"home": tmp_path, "gateway": {"url_secret": "short"}}))


def test_every_uri_of_a_folder_begins_with_its_root(tmp_path: pathlib.Path) -> None:
    settings = load({"home": tmp_path / "a b"})
    assert open_store(settings).put("x", b"data").startswith(root_of(settings))
    assert root_of(load({"store": {"url": "s3://bucket/a/b/"}})) == "s3://bucket/a/b/"
    assert root_of(load({"store": {"url": "s3://bucket"}})) == "s3://bucket/"
