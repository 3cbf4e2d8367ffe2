"""`ImageStore` in a bucket of S3, or of a server that speaks S3 and honours `If-None-Match: *`.

No answer to a PUT is believed. After "stored" a HEAD must show the size, the cheapest check that sees that bytes were
left out. After "it is there already" (412), or a HEAD that shows something else, the object is read:

    read      | done
    the bytes | nothing
    damaged   | written over, with the same bytes as every writer of this key has, and read again
    gone      | written; where it was already, it may be readable later: StoreUnavailable for READABLE_S before that

Credentials come from boto3's own chain (environment, profile, web identity, instance role), never from our settings.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, CredentialRetrievalError, NoCredentialsError

from schemas.errors import PochadeError
from streams.settings import InvalidSettings
from streams.store.port import Stored, StoreUnavailable, Unreadable, is_content, is_key, key_of

URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([A-Za-z0-9._/-]*))?")
RIGHTS = "s3:ListBucket, s3:GetObject, s3:PutObject, and s3:DeleteObject for gc"
HAS_IT = "PreconditionFailed"  # 412: another write was first, of the same bytes, since the key carries their hash
GONE, NO_HEAD = "NoSuchKey", "404"  # a HEAD has no body to say more
READABLE_S = 60.0  # after which an object that was written and cannot be read is written again
MAX_UNSEEN = 10_000  # keys remembered that were written and cannot be read yet
TRIES, CONNECT_S, READ_S = 2, 3, 20  # of one call; the callers wait out what is left


class S3ImageStore:
    """Stores images in a bucket, under `s3://BUCKET/PREFIX/KEY` URIs."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._written_s: dict[str, float] = {}  # key that was written and is not seen yet -> monotonic s

    @classmethod
    def open(cls, url: str, endpoint_url: str = "", region: str = "") -> "S3ImageStore":
        """Connect, and check that the bucket exists and accepts the credentials.

        Raises:
            InvalidSettings: not such a URL.
            StoreUnavailable: no answer.
            PochadeError: no such bucket, or no or wrong credentials, and what to do.
        """
        bucket, prefix = parsed(url)
        store = cls(s3_client(endpoint_url, region), bucket, prefix)
        store._check(url)
        return store

    def put(self, name: str, data: bytes, extension: str = "png") -> str:
        key = self._prefix + key_of(name, data, extension)
        with self._available("write", key):
            if not self._is_stored(key, data, extension):
                self._mend(key, data, extension)
        return self._uri(key)

    def get(self, uri: str) -> bytes:
        key = self._key(uri)
        if not is_key(key.removeprefix(self._prefix)):  # one too long is refused like an outage
            raise PochadeError(f"{uri:.200} is not an image of the store at {self._uri(self._prefix)}")
        with self._available("read", key):
            data = self._read(key)
        if data is None:
            raise Unreadable(f"{uri} has gone: it was collected or the bucket was emptied")
        if not is_content(key, data):
            raise Unreadable(f"{uri} is damaged: its {len(data)} bytes are not those whose hash its name carries")
        return data

    def _is_stored(self, key: str, data: bytes, extension: str) -> bool:
        """Write an object that is not there; return whether the server says so, and shows its size."""
        try:
            self._write(key, data, extension, IfNoneMatch="*")
        except ClientError as error:
            if _code(error) == HAS_IT:
                return False
            raise
        try:
            kept: int = self._client.head_object(Bucket=self._bucket, Key=key)["ContentLength"]
        except ClientError as error:
            if _code(error) != NO_HEAD:
                raise
            kept = -1
        if kept != len(data):
            self._note_unseen(key)
        return kept == len(data)

    def _mend(self, key: str, data: bytes, extension: str) -> None:
        """See by reading that an object is there, and write it again where it is not, or is damaged."""
        found, at_s = self._read(key), self._written_s.get(key)
        if found is None and at_s is not None and time.monotonic() - at_s < READABLE_S:
            raise StoreUnavailable(f"{self._uri(key)} was written and cannot be read yet")
        if found != data:
            self._write(key, data, extension)
            found = self._read(key)
        if found != data:
            self._note_unseen(key)
            kept = "is not there" if found is None else f"has {len(found)} of {len(data)} bytes"
            raise StoreUnavailable(f"{self._uri(key)} was written and {kept}")
        self._written_s.pop(key, None)

    def _note_unseen(self, key: str) -> None:
        if len(self._written_s) >= MAX_UNSEEN:
            self._written_s.clear()
        self._written_s[key] = time.monotonic()

    def _write(self, key: str, data: bytes, extension: str, **condition: str) -> None:
        kind = f"image/{extension}"
        self._client.put_object(Bucket=self._bucket, Key=key, Body=data, ContentType=kind, **condition)

    def _read(self, key: str) -> bytes | None:
        """Return the bytes that lie there, whatever they are; None if nothing does."""
        try:
            data: bytes = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
            return data
        except ClientError as error:
            if _code(error) == GONE:
                return None
            raise

    def list(self, older_than_ms: int) -> Iterator[Stored]:
        with self._available("list", self._prefix):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix):
                for entry in page.get("Contents", ()):
                    modified_ms = round(entry["LastModified"].timestamp() * 1000)
                    is_ours = is_key(entry["Key"].removeprefix(self._prefix))  # others may share the bucket
                    if is_ours and modified_ms < older_than_ms:
                        yield Stored(self._uri(entry["Key"]), modified_ms, entry["Size"])

    def delete(self, uri: str) -> None:
        key = self._key(uri)
        with self._available("delete", key):
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def presigned(self, uri: str, lifetime_s: float) -> str:
        """Return an address that reads an object without credentials for `lifetime_s`, signed without a call of S3.

        It ends earlier where the credentials that signed it do. Raises StoreUnavailable where there are none.
        """
        key = self._key(uri)
        with self._available("sign", key):
            named = {"Bucket": self._bucket, "Key": key}
            url: str = self._client.generate_presigned_url("get_object", Params=named, ExpiresIn=int(lifetime_s))
            return url

    def _uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    def _key(self, uri: str) -> str:
        root = self._uri(self._prefix)
        if not uri.startswith(root):
            raise PochadeError(f"{uri:.200} is not an image of the store at {root}")
        return uri.removeprefix(f"s3://{self._bucket}/")

    @contextlib.contextmanager
    def _available(self, what: str, key: str) -> Iterator[None]:
        """Raise StoreUnavailable for every S3 error, so that callers wait: rights and buckets can come back."""
        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise StoreUnavailable(f"cannot {what} {self._uri(key)}: {error}") from error

    def _check(self, url: str) -> None:
        try:
            self._client.head_bucket(Bucket=self._bucket)
        except (NoCredentialsError, CredentialRetrievalError) as error:
            advice = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role that boto3 finds"
            raise PochadeError(f"store.url {url}: no credentials ({error}); {advice}") from error
        except ClientError as error:
            raise _refusal(url, self._bucket, error) from error
        except BotoCoreError as error:
            advice = "is store.s3_endpoint_url right and the server up?"
            raise StoreUnavailable(f"store.url {url}: {error}; {advice}") from error


def parsed(url: str) -> tuple[str, str]:
    """Return the bucket and the prefix, without slashes at its ends. Raises InvalidSettings."""
    match = URL.fullmatch(url)
    if match is None:
        raise InvalidSettings(f"store.url must be s3://BUCKET/PREFIX of letters, digits, . _ - and /: got {url!r}")
    return match[1], (match[2] or "").strip("/")


def s3_client(endpoint_url: str, region: str, *, connections: int = 10, tries: int = TRIES) -> Any:
    """Return a client with at most `connections`, and at most `tries` of a call. Raises InvalidSettings."""
    # checksums in trailers, botocore's default, are unknown to many servers that are not Amazon's
    foreign = {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        retries={"mode": "standard", "total_max_attempts": tries},
        max_pool_connections=connections,
        signature_version="s3v4",  # of addresses, too: the one that every region takes
        **(foreign if endpoint_url else {}),
    )
    session = boto3.session.Session(region_name=region or None)
    try:
        return session.client("s3", endpoint_url=endpoint_url or None, config=config)
    except (ValueError, BotoCoreError) as error:
        raise InvalidSettings(
            f"store.s3_endpoint_url {endpoint_url!r}, store.s3_region {region!r}: {error}; give http://HOST:PORT"
        ) from error


def _refusal(url: str, bucket: str, error: ClientError) -> PochadeError:
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    if status == 404:
        return PochadeError(f"store.url {url}: there is no bucket {bucket!r}: create it or correct the name")
    if status in (400, 401, 403):
        return PochadeError(f"store.url {url}: refused ({error}): check the credentials, the region, and {RIGHTS}")
    return StoreUnavailable(f"store.url {url}: {error}")


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])
