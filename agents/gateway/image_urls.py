"""Signed addresses of stored images: for a limited time, each can be read by any holder of the whole address.

An S3 store signs its own. For other stores, and for formats that are not stored, the gateway serves the image at a
signed path that holds the image's URI, its format and the end of its validity.
"""

import os
import pathlib
import secrets
import tempfile
from typing import Final, NamedTuple, Protocol, runtime_checkable

from agents.gateway.formats import PNG, Format
from agents.gateway.refusals import Refusal
from agents.gateway.signing import Seal
from schemas.errors import PochadeError
from streams.security.private_folder import create_private
from streams.security.secrets import secret
from streams.settings import Settings
from streams.store.port import ImageStore, is_key

PATH: Final = "/v1/files/"
MIN_SECRET_BYTES: Final = 16
FILE: Final = "gateway.secret"  # under HOME


@runtime_checkable
class Presigns(Protocol):
    """A store that makes addresses of its own."""

    def presigned(self, uri: str, lifetime_s: float) -> str:
        """Return an address at which an object can be read without credentials for `lifetime_s`."""


class Named(NamedTuple):
    """The content of an address."""

    uri: str
    format: Format


class ImageUrls:
    """Makes and reads addresses. Thread-safe."""

    def __init__(self, store: ImageStore, root: str, key: bytes, lifetime_s: float) -> None:
        """`root`: the prefix of every URI of the store, which addresses leave out."""
        self._store = store
        self._root = root
        self._seal = Seal(key, "")
        self.lifetime_s = lifetime_s

    def url(self, base_url: str, uri: str, wanted: Format, now_s: float) -> str:
        """Return an address of an image in a format, good from now (epoch seconds) for the lifetime."""
        if wanted.name == PNG and not wanted.size and isinstance(self._store, Presigns):
            return self._store.presigned(uri, self.lifetime_s)
        return self.sealed(base_url, uri, wanted, now_s)

    def sealed(self, base_url: str, uri: str, wanted: Format, now_s: float) -> str:
        """Return an address of an image as `url` does, at a gateway and not at the store."""
        how = wanted if wanted.size else wanted[:2]  # as gateways before 0.2 read it
        claims = [uri.removeprefix(self._root), *how, int(now_s + self.lifetime_s)]
        return f"{base_url}{PATH}{self._seal.sealed(claims)}"

    def is_signed(self, token: str) -> bool:
        """Whether an address is one of ours, also if it has expired."""
        return self._seal.opened(token) is not None

    def named(self, token: str, now_s: float) -> Named:
        """Return the image and format that an address names. Raises Refusal if it is forged or expired."""
        claims = self._seal.opened(token)
        if claims is None:
            raise Refusal("not-found", "no image has this address: it was cut, altered, or made with another secret")
        key, name, quality, *size, until_s = claims
        if now_s >= until_s:
            raise Refusal("gone", "the address of this image has expired (gateway.url_lifetime_s): ask for a new one")
        if not is_key(key):
            raise Refusal("not-found", "the address names no stored image")
        return Named(self._root + key, Format(name, quality, *size))


def url_key(settings: Settings) -> bytes:
    """Return the secret that signs addresses: the setting, else a file under HOME that the first gateway writes.

    Raises PochadeError: the setting is too short, or the file cannot be written or read.
    """
    stated = secret("gateway.url_secret", settings.gateway.url_secret)
    if stated:
        if len(stated.encode()) < MIN_SECRET_BYTES:
            limit = f"gateway.url_secret must have at least {MIN_SECRET_BYTES} bytes"
            raise PochadeError(f"{limit}: got {len(stated.encode())}; use `openssl rand -hex 32`")
        return stated.encode()
    path = settings.home / FILE
    try:
        if not path.exists():
            _write_once(path, secrets.token_hex(32))
        return path.read_bytes()
    except OSError as error:
        advice = "set gateway.url_secret, or let this user write there"
        raise PochadeError(f"cannot write or read {path}: {error.strerror}; {advice}") from error


def _write_once(path: pathlib.Path, text: str) -> None:
    """Write a file atomically, readable by this user only; an existing file stays."""
    create_private(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.link(name, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)
