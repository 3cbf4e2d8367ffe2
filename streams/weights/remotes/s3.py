"""`Remote` in a bucket of S3, read by ranges; credentials as for images (`streams/store/s3.py`)."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, CredentialRetrievalError, NoCredentialsError

from schemas.errors import PochadeError
from streams.store.port import StoreUnavailable
from streams.store.s3 import parsed, s3_client
from streams.weights.errors import WeightsGone
from streams.weights.remotes.remote import RemoteFile

NOT_THERE = ("404", "NoSuchKey", "NoSuchBucket")
CHANGED = ("412", "PreconditionFailed", "416", "InvalidRange")
REFUSED = (400, 401, 403, 405)
RIGHTS = {"read": "s3:GetObject", "write": "s3:PutObject, s3:AbortMultipartUpload"}
BLOCK = 1 << 20  # bytes asked of the connection at a time


class S3Remote:
    """A component's files under `s3://BUCKET/PREFIX`."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket = client, bucket
        self._prefix = f"{prefix}/" if prefix else ""

    @classmethod
    def open(cls, url: str, endpoint_url: str = "", region: str = "", *, connections: int = 8) -> "S3Remote":
        """Return a remote with at most `connections`; connects at the first call. Raises InvalidSettings."""
        bucket, prefix = parsed(url)
        return cls(s3_client(endpoint_url, region, connections=connections, tries=1), bucket, prefix)

    @property
    def url(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def stat(self, path: str) -> RemoteFile:
        with self._available(path):
            found = self._client.head_object(Bucket=self._bucket, Key=self._prefix + path)
            return RemoteFile(found["ContentLength"], found["ETag"])

    def read_into(self, path: str, version: str, offset: int, buffer: memoryview) -> int:
        came, last = 0, offset + len(buffer) - 1
        with self._available(path):
            answer = self._client.get_object(
                Bucket=self._bucket, Key=self._prefix + path, Range=f"bytes={offset}-{last}", IfMatch=version
            )
            if not answer.get("ContentRange", "").startswith(f"bytes {offset}-{last}/"):
                answer["Body"].close()
                raise PochadeError(
                    f"{self.url}/{path}: asked for bytes {offset}-{last}, the server answered "
                    f"{answer.get('ContentRange', 'with the whole file')}: it does not honour ranges; use another"
                )
            with contextlib.closing(answer["Body"]) as body:
                try:
                    while came < len(buffer) and (more := body.readinto(buffer[came : came + BLOCK])):
                        came += more
                except (BotoCoreError, OSError) as error:
                    if not came:
                        raise StoreUnavailable(f"{self.url}/{path}: the connection broke: {error}") from error
        return came

    def put(self, path: str, file: pathlib.Path, on_bytes: Callable[[int], None] = lambda _: None) -> None:
        with self._available(path, "write"), file.open("rb") as data:
            # in parts where it is large: one request takes 5 GB at most
            self._client.upload_fileobj(data, self._bucket, self._prefix + path, Callback=on_bytes)

    @contextlib.contextmanager
    def _available(self, path: str, what: str = "read") -> Iterator[None]:
        where = f"{self.url}/{path}"
        try:
            yield
        except (NoCredentialsError, CredentialRetrievalError) as error:
            raise PochadeError(f"{where}: no credentials ({error}); set them as boto3 finds them") from error
        except ClientError as error:
            code, status = str(error.response["Error"]["Code"]), error.response["ResponseMetadata"]["HTTPStatusCode"]
            if code in NOT_THERE and what == "write":
                raise PochadeError(f"{where}: there is no bucket {self._bucket!r}: create it, or correct it") from None
            if code in NOT_THERE:
                raise WeightsGone(f"{where} is not there ({code}): publish the component, or correct its URL") from None
            if code in CHANGED:
                raise WeightsGone(f"{where} changed while it was read ({code}): fetch it again") from None
            if status in REFUSED:
                raise PochadeError(f"{where}: refused ({error}): check credentials, region, {RIGHTS[what]}") from error
            raise StoreUnavailable(f"cannot {what} {where}: {error}") from error
        except (BotoCoreError, OSError) as error:
            raise StoreUnavailable(f"cannot {what} {where}: {error}; is the server up?") from error
